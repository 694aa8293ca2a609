"""Classification of a text or two, by one label or by any number of them (section 4.1, appendix B.1).

A text that is longer than the model is read in overlapping windows, and each label has its highest score in any of
them: one telling sentence tells. So it is in training too.

Shapes: S sequences, B records, K labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertcli.errors import BadData, UsageError
from bertcli.metrics import classification as metrics
from bertcli.model.config import Config
from bertcli.model.heads import Classifier, Network
from bertcli.records import Classification as Schema
from bertcli.records import Record, Texts, checker
from bertcli.tasks.labels import NONE, Labels
from bertcli.tasks.task import (
    Batch,
    Example,
    Task,
    array,
    finite,
    highest,
    joined,
    owners,
    packed,
    reorder,
    scores,
    softmax,
    texts,
)
from bertcli.text.wordpiece import WordPiece

ONE, SEVERAL = "single_label_classification", "multi_label_classification"


class Classification(Task):
    """Chooses one of the labels, or some: those of a model, or those gathered from the records that it learns."""

    name = "classification"
    architecture = "BertForSequenceClassification"
    pooler = True
    criteria = ("accuracy",)

    def __init__(
        self,
        wordpiece: WordPiece,
        max_length: int,
        labels: Sequence[str] = (),
        *,
        several: bool = False,
        class_weights: str | Mapping[str, float] = "",
        positive: str | None = None,
        cut: bool = False,
    ) -> None:
        """Take the labels in the order of their ids; without any, they are gathered from what is learned until `close`.

        `class_weights` are "balanced" or given by name; of two labels the scores are those of the `positive` one, "1"
        where none is named. `cut` reads the first window only, as Google's code does.
        """
        self.wordpiece, self.max_length = wordpiece, max_length
        self.is_cut, self.labels, self._several, self._weighting = cut, tuple(labels), several, class_weights
        self._positive = positive
        self._known = Labels(labels)
        self._counts: Counter[str] = Counter()  # records by label
        self._records = 0
        self._weights = torch.ones(len(labels))

    @property
    def problem_type(self) -> str:  # type: ignore[override]  # known once a record was seen
        """Returns whether a text has one label or several."""
        return SEVERAL if self._several else ONE

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window of the text, or of the two."""
        checker(Texts)(record)
        return texts(self, record)

    def learn(self, record: Record) -> list[Example]:
        """Returns one example with all windows, and the numbers of the record's labels in the order of sight."""
        windows, gold = self.encode(record), self.gold(record)
        names = [gold] if isinstance(gold, str) else gold
        self._counts.update(names)
        self._records += 1
        return [joined(windows, labels=array(self._known.number(name, "labels") for name in names))]

    def gold(self, record: Record) -> str | list[str]:
        """Returns the label, or the labels sorted; the first record to learn from says which of them it is."""
        if not self._records and not self.labels:
            self._several = record.get("labels") is not None
        checker(Schema)(record)
        field, expected = ("labels", "a list of strings") if self._several else ("label", "a string")
        gold: str | list[str] | None = record.get(field)
        if gold is None:
            raise BadData(field=field, found=None, expected=expected)
        for label in [gold] if isinstance(gold, str) else gold:
            self._known.number(label, field)
        return gold if isinstance(gold, str) else sorted(set(gold))

    def close(self) -> None:
        """Make the labels seen so far, sorted, the labels; raises `BadData` where there is no choice between them."""
        self.labels = self._known.close()
        if len(self.labels) == 1 and not self._several:
            raise BadData(f"every record has the label {self.labels[0]!r}: there is nothing to tell apart")
        if not self.labels:
            raise BadData("no record has a label: there is nothing to learn", field="labels")
        self._weights = torch.tensor([self._weight(label) for label in self.labels])
        if self._positive is not None and self._positive not in self.labels:
            raise UsageError(f"--positive {self._positive}: not one of the labels {', '.join(self.labels)}")

    def _weight(self, label: str) -> float:
        """Returns a label's weight; balanced, all labels weigh alike, or each as much as its absence."""
        if isinstance(self._weighting, str):
            count = self._counts[label]
            others = self._records - count
            balanced = max(1, others) / count if self._several else self._records / (count * len(self.labels))
            return balanced if self._weighting == "balanced" else 1.0
        if unknown := [name for name in self._weighting if name not in self.labels]:
            raise UsageError(f"--class-weights: {unknown[0]!r} is not one of the labels {', '.join(self.labels)}")
        return self._weighting.get(label, 1.0)

    def __str__(self) -> str:
        """Returns what there is to choose from, and how many texts did not fit."""
        cut = f"; {self.shortened} cut to {self.max_length} tokens" if self.is_cut else ""
        return f"{'any of the labels' if self._several else 'labels'} {', '.join(self.labels)}{cut}"

    def padding(self, length: int) -> Example:
        """Returns an example without a label."""
        return joined([super().padding(length)], labels=array([NONE]))

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch with the owner of each sequence (S,), and where they are known `labels` and their `weights`.

        Those are ids (B,), or with several labels a text ones and zeros (B, K).
        """
        targets = {"owner": owners(examples)}
        if "labels" not in examples[0]:
            return Batch(packed(examples), targets, {})
        is_real = torch.tensor([NONE not in example["labels"] for example in examples])
        ids = [
            [number for number in self._known.ids[example["labels"]].tolist() if number != NONE] for example in examples
        ]
        if self._several:
            labels = torch.zeros(len(ids), len(self.labels))
            for row, own in zip(labels, ids, strict=True):
                row[own] = 1
            weights = torch.where(labels > 0, self._weights, 1.0) * is_real[:, None]
            count = float(is_real.sum()) * len(self.labels)
        else:
            labels = torch.tensor([own[0] if own else 0 for own in ids])
            weights = self._weights[labels] * is_real
            count = float(weights.sum())
        return Batch(packed(examples), {**targets, "labels": labels, "weights": weights}, {"loss": count})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns one product over the pooled vector."""
        return {"classifier": Classifier(config, len(self.labels))}

    def adapt(self, network: Network, labels: Sequence[str] | None) -> None:
        """Give the rows of a head that was kept the order of the task's labels."""
        if labels is not None:
            reorder(network.heads["classifier"], labels, self.labels)

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the cross-entropy, weighted and summed over the records; of several labels the binary one."""
        labels, weights = batch.targets["labels"], batch.targets["weights"]
        rows = highest(scores(network, batch), batch.targets["owner"], len(labels))
        if self._several:
            each = functional.binary_cross_entropy_with_logits(rows, labels, reduction="none")
        else:
            each = functional.cross_entropy(rows, labels, reduction="none")
        return {"loss": (each * weights).sum()}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[NDArray[np.float32]]:
        """Returns each sequence's scores: (K,)."""
        return list(finite(scores(network, batch)).cpu().numpy())

    def combine(self, examples: list[Example], outputs: list[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns the probability of each label by its highest score in any window: (K,)."""
        best = np.max(outputs, axis=0).astype(np.float64)
        if self._several:
            probabilities: NDArray[np.float64] = (1 + np.tanh(best / 2)) / 2
            return probabilities
        return softmax(best)

    def decode(self, record: Record, examples: list[Example], answer: NDArray[np.float64]) -> Record:
        """Returns the record with the likeliest label, or all that are likelier than not, and their probabilities."""
        named = dict(zip(self.labels, answer.tolist(), strict=True))
        likely = [label for label, probability in named.items() if probability >= 0.5]
        return {
            **record,
            "prediction": likely if self._several else max(named, key=named.__getitem__),
            "details": {"probabilities": named},
        }

    def options(self) -> dict[str, Any]:
        """Returns the weights of labels beside what all tasks are told."""
        return {**super().options(), "class_weights": self._weighting}

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns accuracy and its kin."""
        return metrics.score(records, positive=self._positive or "1", labels=self.labels)

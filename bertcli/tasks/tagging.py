"""A label for each word, as in CoNLL-2003 (section 5.3): a word's first piece carries its label.

Words beyond one window are read in windows that overlap by half, learned in each, and answered from the one where they
have the most context; so a document as one record, its sentences apart by [SEP], gives every word the maximal context
that the model can hold.

Shapes: T tokens, K labels, W words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertcli.errors import BadData, many
from bertcli.metrics import tagging as metrics
from bertcli.model.config import Config
from bertcli.model.heads import Classifier, Network
from bertcli.records import Record, Sentence, checker
from bertcli.records import Tagging as Schema
from bertcli.tasks.labels import NONE, Labels
from bertcli.tasks.segments import document
from bertcli.tasks.task import Batch, Example, Task, array, finite, packed, reorder, sequence, softmax
from bertcli.text.windows import best_window, halves
from bertcli.text.wordpiece import WordPiece


class Tagging(Task):
    """Labels words: with the labels of a model, or with those gathered from the records that it learns."""

    name = "tagging"
    architecture = "BertForTokenClassification"
    pooler = False
    criteria = ("f1", "accuracy")  # labels that spell no entities have no F1

    def __init__(self, wordpiece: WordPiece, max_length: int, labels: Sequence[str] = ()) -> None:
        """Take the labels in the order of their ids; without any, what is learned gives them, until `close`."""
        self.wordpiece, self.max_length, self.labels = wordpiece, max_length, tuple(labels)
        self._known = Labels(labels)

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window, with the places of its own words' first pieces: `rows`."""
        ids, firsts = self._read(record)
        spans = self._spans(ids)
        owner = np.array(best_window(spans, len(ids)))[firsts]
        return [
            {**self._window(ids, span), "rows": array(firsts[owner == number] - span[0] + 1)}
            for number, span in enumerate(spans)
        ]

    def learn(self, record: Record) -> list[Example]:
        """Returns the windows with a label's number for each token, in the order of sight.

        A word is learned in every window that has its first piece, and a window that has none is left out.
        """
        ids, firsts = self._read(record)
        marks = np.full(len(ids), NONE, np.int32)
        marks[firsts] = [self._known.number(label, "labels") for label in self.gold(record)]
        return [
            {**self._window(ids, (start, end)), "labels": np.pad(marks[start:end], 1, constant_values=NONE)}
            for start, end in self._spans(ids)
            if (marks[start:end] != NONE).any()
        ]

    def _read(self, record: Record) -> tuple[list[int], NDArray[np.int64]]:
        """Returns a record's pieces, with [SEP] between its sentences, and where each word's first piece is: (W,)."""
        checker(Sentence)(record)
        return document(self.wordpiece, record["words"], record.get("sentences"))

    def _spans(self, ids: list[int]) -> list[tuple[int, int]]:
        return halves(len(ids), self.max_length - 2) if ids else []

    def _window(self, ids: list[int], span: tuple[int, int]) -> Example:
        return sequence(self.wordpiece, ids[slice(*span)], None, self.max_length)[0]

    def gold(self, record: Record) -> list[str]:
        """Returns the labels of a record."""
        checker(Schema)(record)
        labels: list[str] | None = record.get("labels")
        if labels is None or len(labels) != len(record["words"]):
            found = None if labels is None else len(labels)
            raise BadData(field="labels", found=found, expected=f"{many(len(record['words']), 'label')}, one a word")
        for label in labels:
            self._known.number(label, "labels")
        return labels

    def parts(self, answer: list[str]) -> list[str]:
        """Returns the labels."""
        return answer

    def close(self) -> None:
        """Make the labels seen so far, sorted, the labels; raises `BadData` where there is no choice between them."""
        self.labels = self._known.close()
        if not self.labels:
            raise BadData("no word has a label: there is nothing to learn", field="labels")
        if len(self.labels) == 1:
            raise BadData(f"every word has the label {self.labels[0]!r}: there is nothing to tell apart")

    def __str__(self) -> str:
        """Returns what there is to choose from."""
        return f"labels {', '.join(self.labels)}"

    def padding(self, length: int) -> Example:
        """Returns an example without a label."""
        labels = np.full(length, NONE, np.int32)
        return {**super().padding(length), "labels": labels}

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch; where they are known with the ids of all tokens' `labels`: (T,)."""
        if "labels" not in examples[0]:
            return Batch(packed(examples), {}, {})
        labels = self._known.ids[np.concatenate([example["labels"] for example in examples])]
        return Batch(packed(examples), {"labels": torch.from_numpy(labels)}, {"loss": float((labels != NONE).sum())})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns one product over each token's vector."""
        return {"classifier": Classifier(config, len(self.labels))}

    def adapt(self, network: Network, labels: Sequence[str] | None) -> None:
        """Give the rows of a head that was kept the order of the task's labels."""
        if labels is not None:
            reorder(network.heads["classifier"], labels, self.labels)

    def logits(self, network: Network, batch: Batch) -> Tensor:
        """Returns a score for each label of each token: (T, K)."""
        scores: Tensor = network.heads["classifier"](network.hidden(batch.packed))
        return scores.float()

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the cross-entropy, summed over the words of each window."""
        labels = batch.targets["labels"]
        loss = functional.cross_entropy(self.logits(network, batch), labels, ignore_index=NONE, reduction="sum")
        return {"loss": loss}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[NDArray[np.float32]]:
        """Returns each sequence's scores: (its tokens, K)."""
        scores = finite(self.logits(network, batch)).cpu().numpy()
        return np.split(scores, np.cumsum(batch.packed.lengths)[:-1])

    def combine(self, examples: list[Example], outputs: list[NDArray[np.float32]]) -> NDArray[np.float64]:
        """Returns the probabilities of each word's labels, from the window that answers for it: (W, K)."""
        rows = [own[example["rows"]] for example, own in zip(examples, outputs, strict=True)]
        return softmax(np.concatenate([np.zeros((0, len(self.labels))), *rows]).astype(np.float64))

    def decode(self, record: Record, examples: list[Example], answer: NDArray[np.float64]) -> Record:
        """Returns the record with the likeliest label of each word, and its probability."""
        best = answer.argmax(-1).tolist()
        return {
            **record,
            "prediction": [self.labels[number] for number in best],
            "details": {"probabilities": answer.max(-1).tolist()},
        }

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns precision, recall and F1 of entities."""
        return metrics.score(records)

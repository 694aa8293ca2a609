"""Classification of a text or two (section 4.1, appendix B.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcli.errors import BadData
from bertcli.metrics import classification as metrics
from bertcli.model.config import Config
from bertcli.model.heads import ClassificationHead, Network
from bertcli.records import Classification as Schema
from bertcli.records import Record, checker
from bertcli.tasks.task import Batch, Example, array, finite, packed, sequence
from bertcli.text.wordpiece import WordPiece


class Classification:
    """Chooses one of the labels: those of a model, or those gathered from the records that it is trained on."""

    name = "classification"
    architecture: str | None = "BertForSequenceClassification"
    pooler = True

    def __init__(self, wordpiece: WordPiece, max_length: int, labels: Sequence[str] = ()) -> None:
        """Take the labels in the order of their ids, and ask records for none.

        Without any the task is to be taught: every record must have a label, and `encode` gathers them until `close`.
        """
        self.wordpiece, self.max_length = wordpiece, max_length
        self._is_taught = self._is_open = not labels
        self._seen = {label: number for number, label in enumerate(labels)}
        self.labels = tuple(labels)
        self._ids = [*range(len(labels)), -1]  # by the number that encode gives a label: its id; the last is for none
        self.cut = 0  # texts that were longer than max_length

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns the one sequence of a record, cut to the window, and the number of its label (-1 for none)."""
        checker(Schema)(record)
        pair = record.get("text_pair")
        first = self.wordpiece.text_ids(record["text"])
        second = None if pair is None else self.wordpiece.text_ids(pair)
        example, cut = sequence(self.wordpiece, first, second, self.max_length)
        number = self._number(record.get("label"))
        self.cut += cut
        return [{**example, "label": array([number])}]

    def _number(self, label: str | None) -> int:
        if not self._is_taught:
            return -1
        if label is None:
            raise BadData(field="label", found=None, expected="a string")
        if self._is_open:
            return self._seen.setdefault(label, len(self._seen))
        if label not in self._seen:
            raise BadData(field="label", found=label, expected=f"one of {', '.join(self.labels)}")
        return self._seen[label]

    def close(self) -> None:
        """Make the labels seen so far, sorted, the labels; raises `BadData` where there is no choice between them."""
        self._is_open, self.labels = False, tuple(sorted(self._seen))
        self._ids = [*map(self.labels.index, self._seen), -1]
        if len(self.labels) == 1:
            raise BadData(f"every record has the label {self.labels[0]!r}: there is nothing to tell apart")

    def __str__(self) -> str:
        """Returns what there is to choose from, and how many texts did not fit."""
        return f"labels {', '.join(self.labels)}; {self.cut} cut to {self.max_length} tokens"

    def at_epoch(self, example: Example, epoch: int) -> Example:
        """Returns the example itself: it is the same in every epoch."""
        return example

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch whose targets are the ids of its labels: (B,)."""
        labels = torch.tensor([self._ids[int(example["label"][0])] for example in examples])
        return Batch(packed(examples), {"labels": labels}, {"loss": int((labels >= 0).sum())})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns one product over the pooled vector."""
        return {"classification": ClassificationHead(config)}

    def reorder(self, network: Network, labels: Sequence[str]) -> None:
        """Give the head's rows, which stand in the order of `labels`, that of the task's own."""
        order = [labels.index(label) for label in self.labels]
        for parameter in network.heads["classification"].parameters():
            parameter.data = parameter.data[order]

    def logits(self, network: Network, batch: Batch) -> Tensor:
        """Returns a score for each label: (B, K)."""
        bert = network.bert
        scores: Tensor = network.heads["classification"](bert.pool(bert(batch.packed), batch.packed))
        return scores.float()

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the cross-entropy, summed over the records that have a label."""
        targets = batch.targets["labels"]
        loss = functional.cross_entropy(self.logits(network, batch), targets, ignore_index=-1, reduction="sum")
        return {"loss": loss}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[list[float]]:
        """Returns each example's probabilities."""
        probabilities: list[list[float]] = finite(self.logits(network, batch)).softmax(-1).tolist()
        return probabilities

    def decode(self, record: Record, examples: list[Example], outputs: list[list[float]]) -> Record:
        """Returns the record with the likeliest label and the probability of each."""
        (probabilities,) = outputs
        named = dict(zip(self.labels, probabilities, strict=True))
        return {
            **record,
            "prediction": max(named, key=named.__getitem__),
            "details": {"probabilities": named},
        }

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns accuracy and its kin."""
        return metrics.score(records)

"""A number for a text or two, as in STS-B (section 4.1): squared error, as Devlin had it.

A text that is longer than the model is read in overlapping windows, and its number is the mean of theirs.

Shapes: S sequences, B records.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertcli.errors import BadData
from bertcli.metrics import regression as metrics
from bertcli.model.config import Config
from bertcli.model.heads import Classifier, Network
from bertcli.records import Record, Texts, checker
from bertcli.records import Regression as Schema
from bertcli.tasks.task import Batch, Example, Task, finite, joined, owners, packed, scores, texts
from bertcli.text.wordpiece import WordPiece

LARGEST = 1e18  # numbers whose squares single precision can add up


class Regression(Task):
    """Gives a text, or two, a number."""

    name = "regression"
    architecture = "BertForSequenceClassification"
    pooler = True
    problem_type = "regression"
    labels = ("LABEL_0",)  # transformers' name for a single output
    criteria = ("spearman",)
    errors = ("mse", "mae")

    def __init__(self, wordpiece: WordPiece, max_length: int, *, cut: bool = False) -> None:
        """Take the tokenizer; `cut` reads the first window only, as Google's code does."""
        self.wordpiece, self.max_length, self.is_cut = wordpiece, max_length, cut
        self._count, self._mean, self._squares = 0, 0.0, 0.0  # of the numbers learned; squares of what is off the mean

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window of the text, or of the two."""
        checker(Texts)(record)
        return texts(self, record)

    def learn(self, record: Record) -> list[Example]:
        """Returns one example with all windows, and the record's number."""
        windows, number = self.encode(record), self.gold(record)
        self._count += 1
        off = number - self._mean
        self._mean += off / self._count
        self._squares += off * (number - self._mean)
        return [joined(windows, label=np.array([number], np.float32))]

    def gold(self, record: Record) -> float:
        """Returns the number of a record."""
        checker(Schema)(record)
        number = record.get("label")
        if number is None or not -LARGEST < number < LARGEST:
            raise BadData(field="label", found=number, expected=f"a number below {LARGEST:.0e}")
        return float(number)

    def close(self) -> None:
        """Raise `BadData` where all numbers were the same."""
        if not self._squares:
            raise BadData(f"every record has the label {self._mean:g}: there is nothing to tell apart")

    def __str__(self) -> str:
        """Returns what the numbers are like, and how many texts did not fit."""
        cut = f"; {self.shortened} cut to {self.max_length} tokens" if self.is_cut else ""
        return f"labels {self._mean:.4g} on the mean, with a deviation of {self._deviation:.4g}{cut}"

    @property
    def _deviation(self) -> float:
        return math.sqrt(self._squares / max(1, self._count))

    def padding(self, length: int) -> Example:
        """Returns an example without a number."""
        return joined([super().padding(length)], label=np.array([np.nan], np.float32))

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch with each sequence's owner (S,) and share in its record's mean (S,).

        Where they are known there are the `labels` (B,), and which of them is `real` (B,).
        """
        owner = owners(examples)
        targets = {"owner": owner, "share": 1 / torch.bincount(owner)[owner]}
        if "label" not in examples[0]:
            return Batch(packed(examples), targets, {})
        labels = torch.from_numpy(np.concatenate([example["label"] for example in examples]))
        real = ~labels.isnan()
        return Batch(
            packed(examples), {**targets, "labels": labels.nan_to_num(), "real": real}, {"loss": float(real.sum())}
        )

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns one product of one row over the pooled vector."""
        return {"classifier": Classifier(config, 1)}

    def adapt(self, network: Network, labels: Sequence[str] | None) -> None:
        """Let a fresh head begin at the mean of the numbers, with their deviation: steps are too small to get there."""
        if labels is None:
            weight, bias = network.heads["classifier"].parameters()
            weight.data *= self._deviation
            bias.data += self._mean

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the squared error, summed over the records that have a number."""
        labels, owner = batch.targets["labels"], batch.targets["owner"]
        shares = scores(network, batch)[:, 0] * batch.targets["share"]
        errors = torch.zeros_like(labels).index_add(0, owner, shares) - labels
        return {"loss": (errors.square() * batch.targets["real"]).sum()}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[float]:
        """Returns each sequence's number."""
        numbers: list[float] = finite(scores(network, batch))[:, 0].tolist()
        return numbers

    def combine(self, examples: list[Example], outputs: list[float]) -> float:
        """Returns the mean over the windows."""
        return float(np.mean(outputs))

    def decode(self, record: Record, examples: list[Example], answer: float) -> Record:
        """Returns the record with its number."""
        return {**record, "prediction": float(answer), "details": {}}

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns Pearson's and Spearman's correlations."""
        return metrics.score(records)

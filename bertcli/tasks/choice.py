"""Choosing what goes on after a text, as in SWAG (section 4.4): each choice is scored beside the text.

What is longer than the model is read in overlapping windows, and a choice has its highest score in any of them.

Shapes: S sequences, B records, C choices of the record that has most of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from bertcli.errors import BadData
from bertcli.metrics import choice as metrics
from bertcli.model.config import Config
from bertcli.model.heads import Classifier, Network
from bertcli.records import Choice as Schema
from bertcli.records import Choices, Record, checker
from bertcli.tasks.labels import NONE
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
    readings,
    scores,
    softmax,
)
from bertcli.text.wordpiece import WordPiece


class Choice(Task):
    """Chooses one of the texts that may follow another."""

    name = "choice"
    architecture = "BertForMultipleChoice"
    pooler = True
    criteria = ("accuracy",)

    def __init__(self, wordpiece: WordPiece, max_length: int, *, cut: bool = False) -> None:
        """Take the tokenizer; `cut` reads the first window only, as Google's code does."""
        self.wordpiece, self.max_length, self.is_cut = wordpiece, max_length, cut

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window of each choice, with the choice's index."""
        checker(Choices)(record)
        if not record["choices"]:
            raise BadData(field="choices", found=[], expected="one text or more")
        text = self.wordpiece.text_ids(record["text"])
        shortened, windows = self.shortened, []
        for index, choice in enumerate(record["choices"]):
            own = readings(self, text, self.wordpiece.text_ids(choice))
            windows += [{**window, "choice": array([index])} for window in own]
        self.shortened = min(self.shortened, shortened + 1)  # records are counted, not choices
        return windows

    def learn(self, record: Record) -> list[Example]:
        """Returns one example with all choices, and which of them is right."""
        windows, gold = self.encode(record), self.gold(record)
        choices = np.concatenate([window["choice"] for window in windows])
        return [joined(windows, choice=choices, label=array([gold]))]

    def gold(self, record: Record) -> int:
        """Returns the index of the right choice."""
        checker(Schema)(record)
        label, count = record.get("label"), len(record["choices"])
        if label is None or not 0 <= label < count:
            raise BadData(field="label", found=label, expected=f"the index of a choice, from 0 to {count - 1}")
        return int(label)

    def __str__(self) -> str:
        """Returns how many records did not fit."""
        return (
            f"{self.shortened} cut to {self.max_length} tokens" if self.is_cut else "windows where a text is too long"
        )

    def padding(self, length: int) -> Example:
        """Returns an example without a right choice."""
        return joined([super().padding(length)], choice=array([0]), label=array([NONE]))

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch; where the `labels` (B,) are known, with which choices there are (B, C), and each sequence's
        `place` among those (S,).
        """
        choices = torch.from_numpy(np.concatenate([example["choice"] for example in examples])).long()
        if "label" not in examples[0]:
            return Batch(packed(examples), {}, {})
        labels = torch.tensor([int(example["label"][0]) for example in examples])
        width = int(choices.max()) + 1
        place = owners(examples) * width + choices
        there = torch.zeros(len(labels), width, dtype=torch.bool)
        there.view(-1)[place] = True
        targets = {"place": place, "there": there, "labels": labels}
        return Batch(packed(examples), targets, {"loss": float((labels != NONE).sum())})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns one product of one row over the pooled vector."""
        return {"classifier": Classifier(config, 1)}

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns the cross-entropy over each record's choices, summed over the records."""
        labels, there = batch.targets["labels"], batch.targets["there"]
        rows = highest(scores(network, batch), batch.targets["place"], there.numel()).view(there.shape)
        return {"loss": functional.cross_entropy(rows, labels, ignore_index=NONE, reduction="sum")}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[float]:
        """Returns each sequence's score."""
        numbers: list[float] = finite(scores(network, batch))[:, 0].tolist()
        return numbers

    def combine(self, examples: list[Example], outputs: list[float]) -> NDArray[np.float64]:
        """Returns the probability of each choice by its highest score in any window: (C,)."""
        choices = np.concatenate([example["choice"] for example in examples])
        best = np.full(choices.max() + 1, -np.inf)
        np.maximum.at(best, choices, outputs)
        return softmax(best)

    def decode(self, record: Record, examples: list[Example], answer: NDArray[np.float64]) -> Record:
        """Returns the record with the index of the likeliest choice, and the probability of each."""
        return {**record, "prediction": int(answer.argmax()), "details": {"probabilities": answer.tolist()}}

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns accuracy."""
        return metrics.score(records)

"""The protocol of a task: what the engine knows of it.

A record is encoded into examples, each one sequence of ids with its targets, as small arrays of numbers that a spool
can hold. Examples are collated into a batch of packed tokens; a network makes of a batch losses to train on, or one
output an example, which are decoded into the record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertcli.errors import BertcliError
from bertcli.model.bert import initialize
from bertcli.model.config import Config
from bertcli.model.heads import Network
from bertcli.model.packed import Packed, pack
from bertcli.records import Record
from bertcli.text.wordpiece import WordPiece

# One sequence: `ids`, `segment_b` (one number, -1 for none), and whatever the task adds; every array is flat.
Example = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """Packed sequences and what is to be found in them; `counts` says by what each loss is divided."""

    packed: Packed
    targets: dict[str, Tensor]
    counts: dict[str, int]

    def to(self, device: torch.device) -> Batch:
        """Returns the same batch on a device."""
        moved = {name: tensor.to(device, non_blocking=True) for name, tensor in self.targets.items()}
        return replace(self, packed=self.packed.to(device), targets=moved)


class Task(Protocol):
    """One of the paper's tasks."""

    wordpiece: WordPiece
    max_length: int  # tokens a sequence, specials included
    cut: int  # records that were encoded shorter than they are

    @property
    def name(self) -> str:
        """Returns the task's name."""

    @property
    def architecture(self) -> str | None:
        """Returns the transformers class that reads the folder, None where there is none."""

    @property
    def pooler(self) -> bool:
        """Returns whether the heads stand on the pooled [CLS]."""

    def encode(self, record: Record) -> list[Example]:
        """Returns a record's sequences; raises `BadData` naming the field at fault."""

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns fresh heads by name."""

    def at_epoch(self, example: Example, epoch: int) -> Example:
        """Returns what one epoch sees of an example."""

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns examples as one batch, on the host."""

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns each loss as a sum, by the names of `batch.counts`."""

    def outputs(self, network: Network, batch: Batch) -> list[Any]:
        """Returns what `decode` needs of each example, on the host."""

    def decode(self, record: Record, examples: list[Example], outputs: list[Any]) -> Record:
        """Returns the record with its answer added."""

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns the task's metrics over answered records that hold the truth."""


def build(task: Task, config: Config, seed: int = 0) -> Network:
    """Returns a network for a task, its weights drawn anew; torch's generator goes on from there."""
    torch.manual_seed(seed)
    network = Network(config, task.heads(config), pooler=task.pooler)
    initialize(network, config.initializer_range)
    return network


def sequence(wordpiece: WordPiece, first: list[int], second: list[int] | None, room: int) -> tuple[Example, bool]:
    """Returns `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]` of at most `room` ids, and whether it was cut.

    The longer side is cut from its end, a token at a time (Google's `_truncate_seq_pair`); of equal ones the second.
    """
    if second is None:
        ids = [wordpiece.cls, *first[: room - 2], wordpiece.sep]
        return {"ids": array(ids), "segment_b": array([-1])}, len(first) > room - 2
    space = room - 3
    rest = min(len(second), max(space - len(first), space // 2))
    ids = [wordpiece.cls, *first[: space - rest], wordpiece.sep]
    border = len(ids)
    ids += [*second[:rest], wordpiece.sep]
    return {"ids": array(ids), "segment_b": array([border])}, len(first) + len(second) > space


def finite(numbers: Tensor) -> Tensor:
    """Returns the numbers; raises `BertcliError` where they are not all finite, as with weights that overflow."""
    if not bool(numbers.isfinite().all()):
        raise BertcliError("the model's answer is not a finite number: are its weights whole?")
    return numbers


def array(values: Iterable[int]) -> NDArray[np.int32]:
    """Returns numbers as examples hold them."""
    return np.array(list(values), dtype=np.int32)


def packed(examples: Sequence[Example]) -> Packed:
    """Returns the sequences of some examples end to end."""
    borders = [int(example["segment_b"][0]) for example in examples]
    return pack([example["ids"] for example in examples], [None if b < 0 else b for b in borders])

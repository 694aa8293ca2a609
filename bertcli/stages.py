"""What a command makes of a batch of lines, here or in another process (`parallel/`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Generic, NamedTuple, Self, TypeVar

from bertcli.errors import BadData
from bertcli.lines import Batch
from bertcli.records import Record
from bertcli.stream import BATCH, parsed

T = TypeVar("T")
R = TypeVar("R", covariant=True)


class Made(NamedTuple, Generic[R]):
    """What became of a batch: the result, what was wrong with lines passed over, and the fault that ended it early."""

    result: R
    skipped: list[str]
    fault: BadData | None


@dataclass(frozen=True)
class Tally(ABC):
    """Counts of what was done with a batch; those of several batches can be added up."""

    def __add__(self, other: Self) -> Self:
        """Returns the counts of both together."""
        return type(self)(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @abstractmethod
    def warnings(self) -> list[str]:
        """Returns what looks wrong."""


@dataclass(frozen=True)
class Stage(Generic[T, R]):
    """What a command makes of a batch: something of `each` record and its index, then of the `whole` of them.

    `size` is the batch's, in bytes.
    """

    schema: type
    each: Callable[[Record, int], T]
    whole: Callable[[list[T]], R]
    size: int = BATCH

    def __call__(self, batch: Batch) -> Made[R]:
        """Returns what became of the batch; what came before a bad line is not lost."""
        kept: list[T] = []
        fault = None
        try:
            kept.extend(parsed(batch, self.schema, self.each, text=batch.is_text, index=batch.index))
        except BadData as error:
            fault = error
        return Made(self.whole(kept), batch.skipped, fault)

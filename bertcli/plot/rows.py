"""The numbers that curves are made of, out of a table's rows or out of what training has logged."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BadData, shortened
from bertcli.records import Record
from bertcli.stream import Reader

Numbers = NDArray[np.float64]
Columns = dict[str, tuple[Numbers, Numbers]]  # of each y the rows that have it: their x and their y, [rows] each

LARGEST = 1e100  # of either sign, and what is smaller than its inverse is 0: no square or span over- or underflows
LONGEST_LIST = 200  # characters of the keys that a message names


@dataclass(frozen=True)
class Plan:
    """Which keys of rows are drawn, on which scales, and over how wide a stretch of x rows are averaged.

    `smooth` is in units of x: 0 averages the rows of one x alone, None leaves the width to `chart.width_of`.
    """

    x: str = "step"
    ys: Sequence[str] = ("loss",)
    smooth: float | None = None
    log_x: bool = False
    log_y: bool = False

    def has_log_scale(self, key: str) -> bool:
        """Returns whether only numbers above 0 can be drawn of a key."""
        return (self.log_x and key == self.x) or (self.log_y and key in self.ys)

    @property
    def cuts_decades(self) -> bool:
        """Returns whether stretches of x are shares of a decade, rather than of one length."""
        return self.log_x and self.smooth is None


def read(sources: Iterable[tuple[str, Reader]], plan: Plan, *, is_table: bool) -> Columns:
    """Returns the columns of a table, or of a training's log and, for keys that it has not, of its dev scores.

    A source is its name for messages, and its records; the second is asked for only where the first lacks a key.
    Each row of a table must have every key. In a log `tokens` are those of one step; as an x they are summed up.
    Raises `BadData` for a value that cannot be drawn, for a key that no row has, and where there is no row.
    """
    found: Columns = {}
    names, keys = [], set[str]()
    for name, records in sources:
        names.append(name)
        intake = Intake(plan, [y for y in plan.ys if y not in found], is_table=is_table)
        for _ in records.map(intake.add):
            pass
        found |= intake.columns()
        keys |= intake.keys
        if len(found) == len(plan.ys):
            return found
    if not keys:
        raise BadData("no rows", file=names[0])
    lacking = next(y for y in plan.ys if y not in found)
    there = shortened(", ".join(sorted(keys)), LONGEST_LIST)
    raise BadData(f"no row has {plan.x!r} and {lacking!r}; there are {there}", file=" and ".join(names))


class Intake:
    """Takes in the rows of one source, and keeps the numbers that are to be drawn."""

    def __init__(self, plan: Plan, ys: Sequence[str], *, is_table: bool) -> None:
        """Keep nothing yet."""
        self.keys: set[str] = set()
        self._plan, self._is_table = plan, is_table
        self._kept = {y: (array("d"), array("d")) for y in ys}
        self._sums_up, self._sum = not is_table and plan.x == "tokens", 0.0

    def add(self, record: Record) -> None:
        """Keep a row's numbers, or nothing of it: raises `BadData`, naming the field."""
        if not self.keys.issuperset(record):
            self.keys.update(record)
        x = self._number(record, self._plan.x)
        numbers = [self._number(record, y) for y in self._kept]
        if x is None:
            return
        self._sum += x
        for y, (xs, ys) in zip(numbers, self._kept.values(), strict=True):
            if y is not None:
                xs.append(self._sum if self._sums_up else x)
                ys.append(y)

    def _number(self, record: Record, key: str) -> float | None:
        value: Any = record.get(key)
        if value is None and not self._is_table:
            return None
        if type(value) not in (int, float):
            there = shortened(", ".join(record), LONGEST_LIST)
            raise BadData(field=key, found=value, expected=f"a number; the row's keys are {there}")
        if not -LARGEST < value < LARGEST:  # not float(value): it may be too large
            raise BadData(field=key, found=value, expected=f"a number between -{LARGEST:g} and {LARGEST:g}")
        number = float(value) if abs(value) > 1 / LARGEST else 0.0
        if number <= 0 and self._plan.has_log_scale(key):
            raise BadData(field=key, found=value, expected="a number above 0, as a logarithmic scale needs")
        return number

    def columns(self) -> Columns:
        """Returns the columns that have any row."""
        return {y: (np.array(xs), np.array(ys)) for y, (xs, ys) in self._kept.items() if xs}

"""An input on its way to the spool; one that is given again is known by its marks.

What is on the spool already is passed over, not made again. Whoever has gone some way through the input then knows
whether it is the same, and how it differs where it is not. Files that were read to their end are not even opened, where
their sizes and times are as they were.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from bertcli.engine.settings import Input
from bertcli.engine.spool import Chunk, Spool
from bertcli.lines import Mark

ARRIVING = 1 << 20  # examples that are told at once of those that are there

# Reads an input from its beginning, as `marked` does: given the marks of what is on a spool, and after how many records
# there have to be others. None comes where the next chunk has to be waited for.
Read = Callable[[Sequence[Mark], Collection[int]], Iterator[Chunk | None]]


class Reading(NamedTuple):
    """An input as far as it was read, and in words whether it is the one of before."""

    input: Input
    told: str


class Intake:
    """The examples of an input, which it puts on a spool as they come."""

    def __init__(self, read: Read, spool: Spool, files: Sequence[tuple[int, int]] = ()) -> None:
        """Read nothing yet; `files` are those that will be read, if nothing else is."""
        self._read, self._spool, self._files = read, spool, tuple(files)
        self._chunks: Iterator[Chunk | None] = iter(())
        self._input, self._told = Input(), ""
        self._has_ended = False

    def begin(self, old: Input, done: int) -> int:
        """Read until it is known whether the input is the `old` one, of which `done` steps may be taken.

        Returns how many steps of it were taken. An input without marks is taken for the old one.
        """
        marks = self._spool.marks
        if marks and old.has_ended and old.last == marks[-1] and old.files == self._files != ():
            self._read = whole
        cuts = {mark.records for mark in (old.first, old.last) if mark}
        known = marks[: self._of_use(cuts)]
        chunks = self._read(known, cuts)
        first = next(filter(None, chunks), None) if known else None  # says up to which mark all is as it was
        self._spool.cut(first.mark if first else known[-1] if known else None)
        self._chunks = self._arriving(chunks)
        awaited, place = [old.first, old.last], ""
        if first and old.last in (lost := known[len(self._spool.marks) :]):
            awaited, place = [first.mark, lost[0]], first.place
        while (difference := self._difference(old, [mark for mark in awaited if mark and mark.records], place)) is None:
            next(self._chunks, None)
        is_same = difference == ""
        self._input = old if is_same else replace(old, begun=done)
        self._told = (
            "the same: it goes on at its place" if is_same else f"another{difference}: it begins at its first record"
        )
        return done - self._input.begun

    def _of_use(self, cuts: Collection[int]) -> int:
        """Returns how many of the spool's marks are of use: those before a place that has to have one, and has none.

        It was left by another machine's run, or is of another reading of the input than the checkpoint.
        """
        places = [mark.records for mark in self._spool.marks]
        return min(
            (count for cut in cuts if (count := bisect_left(places, cut)) < len(places) and places[count] != cut),
            default=len(places),
        )

    def _difference(self, old: Input, awaited: Sequence[Mark], place: str) -> str | None:
        """Returns in words how the input differs, "" where it does not, None as long as that is not known.

        Where it is the old one it comes by the marks that are `awaited`; what comes after the first one is at `place`.
        """
        read = self._spool.marks[-1].records if self._spool.marks else 0
        same: Mark | None = None
        for mark in awaited:
            if not self._has_come_by(mark):
                if read >= mark.records:
                    return _between(same, mark, place)
                return _between(same, mark, place, f", and ends after record {read:,}") if self._has_ended else None
            same = mark
        if not old.has_ended or not same:
            return ""
        if read > same.records:
            return f", which goes on after record {same.records:,}"
        return "" if self._has_ended else None

    def _has_come_by(self, mark: Mark) -> bool:
        marks = self._spool.marks
        place = bisect_left(marks, mark.records, key=lambda each: each.records)
        return marks[place : place + 1] == [mark]

    def _arriving(self, chunks: Iterator[Chunk | None]) -> Iterator[Chunk | None]:
        for chunk in chunks:
            if chunk is not None:
                self._spool.extend(chunk)
            yield chunk
        self._has_ended = True

    def arrivals(self) -> Iterator[range | None]:
        """Yields which examples have come, first those that are there; None where the next have to be waited for."""
        known = len(self._spool)
        yield from (range(begin, min(begin + ARRIVING, known)) for begin in range(0, known, ARRIVING))
        for chunk in self._chunks:
            before, known = known, len(self._spool)
            yield None if chunk is None else range(before, known)

    @property
    def reading(self) -> Reading:
        """Returns how far the input was read."""
        if not (marks := self._spool.marks):
            return Reading(self._input, self._told)
        far = {"first": marks[0], "last": marks[-1], "has_ended": self._has_ended, "files": self._files}
        return Reading(replace(self._input, **far), self._told)  # type: ignore[arg-type]  # each of its own type


def whole(known: Sequence[Mark], cuts: Collection[int]) -> Iterator[Chunk | None]:
    """Reads an input that is on the spool to its end."""
    return iter(())


def _between(same: Mark | None, other: Mark, place: str = "", end: str = "") -> str:
    """Returns in words where an input differs: behind the mark up to which it is the same, up to another."""
    if not same:
        return " one"
    where = f", from {place} on" if place else ""
    return f", which differs in records {same.records + 1:,} to {other.records:,}{where}{end}"

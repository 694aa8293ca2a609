"""Marks of how far an input was read: by them it is known again, and what is known of it is passed over."""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import sha256

from bertcli.lines import Batch, Mark, is_blank


def marked(
    batches: Iterable[Batch | None], known: Sequence[Mark] = (), cuts: Collection[int] = ()
) -> Iterator[Batch | None]:
    """Yields batches with their marks, but those up to the last one, in a row, of the marks that are known.

    Where some are known, an empty batch comes first: with its mark everything begins that may be another than before. A
    batch ends where a mark is, and wherever so many records as `cuts` say were read.
    """
    hashed, ends = sha256(), sorted({*cuts, *(mark.records for mark in known)})
    waiting, held = deque(known), list[Batch]()  # marks to come by; batches since the last of them
    place = Mark(0, "")
    part = None
    for batch in batches:
        if batch is None and not waiting:
            yield None
        for part in _parts(batch, ends) if batch else ():
            lines = [line for line in part.lines if not is_blank(line)]
            hashed.update(b"".join(line + b"\n" for line in lines))
            part.mark = Mark(part.index + len(lines), hashed.hexdigest()[:16])
            if not waiting:
                yield part
                continue
            held.append(part)
            if part.mark == waiting[0]:
                place = waiting.popleft()
                held = []
            elif part.mark.records >= waiting[0].records:
                waiting.clear()
            if not waiting:
                yield _empty(held[0] if held else part, place)
                yield from held
    if waiting and part:  # the input has ended before them
        yield _empty(held[0] if held else part, place)
        yield from held


def _parts(batch: Batch, ends: Sequence[int]) -> Iterator[Batch]:
    """Yields a batch in parts that end where so many records were read, all blank lines with the records before."""
    records = [number for number, line in enumerate(batch.lines) if not is_blank(line)]
    first, last = (bisect_right(ends, batch.index + count) for count in (0, len(records) - 1))
    cuts = [records[end - batch.index] for end in ends[first:last]]
    for begin, end in zip([0, *cuts], [*cuts, len(batch.lines)], strict=True):
        part = copy.copy(batch)
        part.lines, part.number = batch.lines[begin:end], batch.number + begin
        part.index = batch.index + bisect_right(records, begin - 1)
        yield part


def _empty(batch: Batch, mark: Mark) -> Batch:
    """Returns the place where a batch begins."""
    empty = copy.copy(batch)
    empty.lines, empty.mark = [], mark
    return empty

"""Marks of how far an input was read: the same for any batches, and what is known is passed over, up to a change."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from bertcli.lines import Batch, Mark, Source
from bertcli.marks import marked
from bertcli.records import Anything
from bertcli.stream import Reader

# Lines that are records, and blank ones between them; sizes of batches in bytes.
LINES = st.lists(st.sampled_from([b"", b" ", b'{"a":1}', b'{"a":2}', b'{"b":[1,2,3]}', b"{}"]), max_size=30)
SIZES = st.integers(1, 40)


def batches(lines: list[bytes], size: int, known: list[Mark] | None = None, cuts: tuple[int, ...] = ()) -> list[Batch]:
    source = Source(io.BytesIO(b"\n".join(lines)), "pairs.jsonl")
    found = marked(Reader([source], Anything).batches(64 * size), known or [], cuts)
    return [batch for batch in found if batch is not None]


def marks(found: list[Batch]) -> list[Mark]:
    return [batch.mark for batch in found if batch.mark]


def records(found: list[Batch]) -> list[bytes]:
    return [line for batch in found for line in batch.lines if line.strip()]


@given(LINES, SIZES, SIZES)
def test_marks_hang_on_the_records_alone(lines: list[bytes], size: int, other: int) -> None:
    """Not on batches, blank lines or the ends of lines."""
    found = batches(lines, size)
    ends = tuple(mark.records for mark in marks(found))
    again = batches([line for text in lines for line in (text + b"\r", b"")], other, cuts=ends)
    assert {*marks(found)} <= {*marks(again), Mark(0, marks(batches([], 1))[0].digest)}
    assert records(found) == records(again) == [line for line in lines if line.strip()]


@given(LINES, SIZES, st.integers(0, 29))
def test_batches_know_their_places(lines: list[bytes], size: int, cut: int) -> None:
    found = batches(lines, size, cuts=(cut,))
    whole = [line for line in lines if line.strip()]
    for batch in found:
        own = [line for line in batch.lines if line.strip()]
        assert whole[batch.index : batch.index + len(own)] == own
        assert lines[batch.number : batch.number + len(batch.lines)] == batch.lines
    assert cut == 0 or cut >= len(whole) or cut in [mark.records for mark in marks(found)]


@given(LINES, SIZES, SIZES, st.data())
def test_what_is_known_is_passed_over_up_to_a_change(
    lines: list[bytes], size: int, other: int, data: st.DataObject
) -> None:
    known = sorted({mark for mark in marks(batches(lines, size)) if mark.records})
    if not known:
        return
    change = data.draw(st.integers(0, len(lines)), "changed line, or none")
    changed = [*lines[:change], b'{"c":"other"}', *lines[change + 1 :]] if change < len(lines) else lines
    start, *rest = batches(changed, other, known)
    whole = [line for line in changed if line.strip()]
    before = len([line for line in lines[:change] if line.strip()])
    assert start.lines == []
    assert start.mark is not None
    kept = [mark for mark in known if mark.records <= before] if change < len(lines) else known
    assert start.mark == (kept[-1] if kept else Mark(0, ""))
    assert records(rest) == whole[start.mark.records :]
    assert marks(rest)[-1:] in ([], marks(batches(changed, 1))[-1:])


@given(LINES, SIZES, st.integers(0, 30))
def test_an_input_that_ends_early_is_known_as_far_as_it_goes(lines: list[bytes], size: int, length: int) -> None:
    known = sorted({mark for mark in marks(batches(lines, size)) if mark.records})
    if not known:
        return
    start, *rest = batches(lines[:length], 7, known)
    whole = [line for line in lines[:length] if line.strip()]
    assert start.mark == max([mark for mark in known if mark.records <= len(whole)], default=Mark(0, ""))
    assert records(rest) == whole[start.mark.records :]

"""Windows: every token covered, and read where its context is greatest."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.text.windows import best_window, halves, paired, windows

SIZES = st.tuples(st.integers(0, 200), st.integers(1, 60), st.integers(1, 80))


@given(SIZES)
def test_windows_cover_every_token_within_the_room(sizes: tuple[int, int, int]) -> None:
    length, room, stride = sizes
    spans = windows(length, room, stride)
    assert {token for start, end in spans for token in range(start, end)} == set(range(length))
    assert all(0 < end - start <= room for start, end in spans)
    assert all(end - start == room for start, end in spans[:-1])
    assert all(later[0] - earlier[0] == min(stride, room) for earlier, later in pairwise(spans))
    assert sum(end == length for _, end in spans) == (length > 0)


def google_is_max_context(spans: list[tuple[int, int]], current: int, position: int) -> bool:
    """The rule as `run_squad.py` has it, in floats."""
    best_score, best_index = None, None
    for index, (start, end) in enumerate(spans):
        if position < start or position > end - 1:
            continue
        score = min(position - start, end - 1 - position) + 0.01 * (end - start)
        if best_score is None or score > best_score:
            best_score, best_index = score, index
    return current == best_index


@given(SIZES)
def test_the_best_window_is_googles(sizes: tuple[int, int, int]) -> None:
    length, room, stride = sizes
    spans = windows(length, room, stride)
    best = best_window(spans, length)
    assert len(best) == length
    assert all(google_is_max_context(spans, window, token) for token, window in enumerate(best))


@given(st.integers(0, 200), st.integers(1, 60))
def test_halves_overlap_by_half(length: int, room: int) -> None:
    spans = halves(length, room)
    assert spans == (windows(length, room, room // 2 or 1) or [(0, 0)])
    assert all(earlier[1] - later[0] == room - (room // 2 or 1) for earlier, later in pairwise(spans))


@given(st.integers(0, 120), st.integers(0, 120), st.integers(2, 40))
def test_two_texts_are_read_whole_side_by_side(first: int, second: int, room: int) -> None:
    spans = paired(first, second, room)
    for side, length in enumerate((first, second)):
        own = [each[side] for each in spans]
        assert {token for start, end in own for token in range(start, end)} == set(range(length))
        assert all(0 <= start <= end <= length for start, end in own)
        assert own == sorted(own)  # from its beginning to its end
        # No step is wider than a window, so that the text is read without a gap, the same way as one alone.
        assert all(later[0] <= earlier[1] for earlier, later in pairwise(own))
    assert all(b - a + d - c <= room for (a, b), (c, d) in spans)
    assert len(set(spans)) == len(spans)
    if first + second <= room:
        assert spans == [((0, first), (0, second))]


@given(st.integers(0, 120), st.integers(0, 120), st.integers(2, 40))
def test_a_text_that_fits_into_half_of_the_room_is_whole_in_every_window(first: int, second: int, room: int) -> None:
    spans = paired(first, second, room)
    for side, (length, half) in enumerate(((first, room - room // 2), (second, room // 2))):
        if length <= half:
            assert {each[side] for each in spans} == {(0, length)}
            other = second if side == 0 else first  # which has all of the rest
            if first + second > room:
                assert [each[1 - side] for each in spans] == halves(other, room - length)


def test_edges() -> None:
    assert windows(0, 5, 2) == []
    assert windows(5, 5, 2) == [(0, 5)]
    assert windows(6, 5, 2) == [(0, 5), (2, 6)]
    assert best_window([(0, 5), (2, 7)], 7) == [0, 0, 0, 0, 1, 1, 1]
    assert paired(0, 50, 10)[:2] == [((0, 0), (0, 10)), ((0, 0), (5, 15))]
    assert paired(50, 0, 10)[:2] == [((0, 10), (0, 0)), ((5, 15), (0, 0))]
    assert paired(9, 7, 8) == [((0, 4), (0, 4)), ((2, 6), (0, 4)), ((4, 8), (2, 6)), ((6, 9), (4, 7))]
    for room, stride in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="window"):
            windows(3, room, stride)

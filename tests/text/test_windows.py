"""Windows: every token covered, and read where its context is greatest."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.text.windows import best_window, windows

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


def test_edges() -> None:
    assert windows(0, 5, 2) == []
    assert windows(5, 5, 2) == [(0, 5)]
    assert windows(6, 5, 2) == [(0, 5), (2, 6)]
    assert best_window([(0, 5), (2, 7)], 7) == [0, 0, 0, 0, 1, 1, 1]
    for room, stride in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="window"):
            windows(3, room, stride)

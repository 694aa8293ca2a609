"""Overlapping windows over a text longer than the model, and where each token is read: index arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Spans = Sequence[tuple[tuple[int, int], ...]]  # of each window where it begins and ends in one text or two


def windows(length: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Returns (start, end) of windows of at most `room` tokens that cover 0…length, `stride` tokens apart.

    The last one ends at `length`; nothing gives no window. A stride over `room` counts as `room`, so that no
    token is lost. Raises `ValueError` where room or stride is below 1. Source: Google's `run_squad.py`.
    """
    if room < 1 or stride < 1:
        raise ValueError(f"a window of {room} tokens with a stride of {stride}")
    spans = []
    start = end = 0
    while end < length:
        end = min(start + room, length)
        spans.append((start, end))
        start += min(stride, room)
    return spans


def halves(length: int, room: int) -> list[tuple[int, int]]:
    """Returns windows that overlap by half; of nothing the one that is empty."""
    return windows(length, room, max(1, room // 2)) if length else [(0, 0)]


def paired(first: int, second: int, room: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns windows over two texts of those lengths, to be read side by side in `room` tokens, so that all is read.

    A text that fits into half of the room is whole in every window; of two longer ones each is read in halves of the
    room, from its beginning to its end at the pace of the one with more windows. Windows overlap by half.
    """
    if first + second <= room:
        return [((0, first), (0, second))]
    rest = min(second, max(room - first, room // 2))
    sides = [halves(length, size) for length, size in ((first, room - rest), (second, rest))]
    count = max(map(len, sides))
    own, other = ([side[number * len(side) // count] for number in range(count)] for side in sides)
    return list(zip(own, other, strict=True))


def best_window(windows: list[tuple[int, int]], length: int) -> list[int]:
    """Returns for each of `length` tokens the index of the window in which it has the most context.

    Context is the shorter side's, and a hundredth of the window's length decides between equals (Google's
    `_check_is_max_context`); of windows that are still equal the first is taken.
    """
    if len(windows) == 1:
        return [0] * length
    best, scores = [0] * length, [-1] * length
    for index, (start, end) in enumerate(windows):
        for token in range(start, end):
            score = 100 * min(token - start, end - 1 - token) + end - start
            if score > scores[token]:
                best[token], scores[token] = index, score
    return best


def shared(windows: Spans, lengths: Sequence[int]) -> list[tuple[Places, Places]]:
    """Returns for each window over one text or two the places of its tokens, and the rows of those it answers for.

    Places count in the whole, [CLS] A [SEP] or [CLS] A [SEP] B [SEP], rows in the window. Each token has one window,
    [CLS] the first one, a [SEP] that of the token before it.
    """
    begins = np.cumsum([1, *(length + 1 for length in lengths)])
    owner = np.zeros(begins[-1], np.int64)
    for begin, length, spans in zip(begins, lengths, zip(*windows, strict=True), strict=False):
        best = best_window(list(spans), length)
        owner[begin : begin + length + 1] = [*best, best[-1] if best else 0]
    found = []
    for number, spans in enumerate(windows):
        sides = zip(begins, lengths, spans, strict=False)
        places = np.concatenate([[0], *(np.r_[begin + a : begin + b, begin + n] for begin, n, (a, b) in sides)])
        found.append((places, np.flatnonzero(owner[places] == number)))
    return found

"""What a run's log says of its speed: pure functions of rows, sizes and moments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

PIECES, HIDDEN = 30_522, 0.15  # of BERT's vocabulary; share of the tokens that the MLM head sees
STRETCH = 50  # steps
PEAKS = {"H100": 989e12, "H200": 989e12}  # bf16 operations a second, dense, of the SXM cards

Row = dict[str, Any]


class Pace(NamedTuple):
    """Real tokens a second after the warm-up: over all steps, and over the slowest and the fastest stretch of them."""

    mean: float
    slowest: float
    fastest: float


def pace(rows: Sequence[Row], warm: int) -> Pace:
    """Returns the pace of the steps after step `warm`, from rows with the `tokens` and the end, `seconds`, of each.

    Raises `ValueError` where there is no step after it.
    """
    if len(rows) <= max(warm, 1):
        raise ValueError(f"{len(rows)} steps, of which {warm} are for warming up")
    first, last = max(warm, 1) - 1, len(rows) - 1
    ends = [*range(first, max(first, last - STRETCH) + 1, STRETCH), last]
    rates = [_rate(rows, start, end) for start, end in pairwise(ends)]
    return Pace(_rate(rows, first, last), min(rates), max(rates))


def _rate(rows: Sequence[Row], start: int, end: int) -> float:
    tokens = sum(row["tokens"] for row in rows[start + 1 : end + 1])
    return float(tokens / max(1e-9, rows[end]["seconds"] - rows[start]["seconds"]))


def flops_per_token(layers: int, width: int, length: int) -> float:
    """Returns the operations of a training step a token: the encoder, attention over `length`, the MLM head's share.

    Six for each weight, two of them forward; it counts as the given peer does.
    """
    encoder, attention = 12 * layers * width**2, 4 * layers * width * length
    head = HIDDEN * (width**2 + width * PIECES)
    return 6 * encoder + 3 * attention + 6 * head


def peak(card: str) -> float | None:
    """Returns the operations a second that a card could make at most in bf16, where they are known."""
    return next((most for name, most in PEAKS.items() if name in card), None)


def after(compilations: Iterable[Row], moment: float) -> list[Row]:
    """Returns what was compiled after a moment, in seconds of the clock: what was recompiled, once it is warm."""
    return [each for each in compilations if each["begun"] > moment]

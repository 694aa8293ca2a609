"""What a drawing shows, however it is drawn: panels of curves, their points, labels and ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bertcli.errors import printable, shortened
from bertcli.plot.rows import LARGEST, Columns, Numbers, Plan

MOST = 200  # points of a curve that are told apart at the width of a page, or of a terminal
LONGEST_NAME = 60  # characters
ROUND = (1, 2, 5, 10)  # times a power of ten: numbers that are easily read
SUFFIXES = {1e9: "G", 1e6: "M", 1e3: "k"}


class Curve(NamedTuple):
    """Points from left to right, [points] each: the means of rows that fell together, and how those spread.

    `spread` is one standard deviation (of the sample: n - 1 divides), 0 where a point is one row.
    """

    x: Numbers
    y: Numbers
    spread: Numbers


class Panel(NamedTuple):
    """The curves of one y; the note says what a point is the mean of, "" where it is a row."""

    label: str
    note: str
    curves: list[Curve]


class Chart(NamedTuple):
    """Panels one below the other, over one x. There are no names where a legend would say nothing."""

    panels: list[Panel]
    names: list[str]
    label: str
    log_x: bool
    log_y: bool


def chart(sources: Sequence[tuple[str, Columns]], plan: Plan, *, has_legend: bool = True) -> Chart:
    """Returns the chart of some named sources; those of one name are one curve, as the runs of several seeds."""
    groups: dict[str, list[Columns]] = {}
    for name, columns in sources:
        groups.setdefault(name, []).append(columns)
    names = [shortened(printable(name), LONGEST_NAME) for name in groups] if has_legend else []
    panels = [panel(key, list(groups.values()), plan) for key in plan.ys]
    return Chart(panels, names, printable(plan.x), plan.log_x, plan.log_y)


def panel(key: str, groups: Sequence[Sequence[Columns]], plan: Plan) -> Panel:
    """Returns the panel of one y, with a curve for each group of sources."""
    xs, ys = ([np.concatenate([columns[key][axis] for columns in group]) for group in groups] for axis in (0, 1))
    width = width_of(xs, plan)
    curves = [curve(x, y, width, plan) for x, y in zip(xs, ys, strict=True)]
    points, distinct = sum(len(each.x) for each in curves), sum(len(np.unique(x)) for x in xs)
    note = f"mean over {stretch(width, plan)}" if points < distinct else "mean" if points < sum(map(len, xs)) else ""
    return Panel(printable(key), note, curves)


def width_of(xs: Sequence[Numbers], plan: Plan) -> float:
    """Returns over how wide a stretch of x rows are averaged, 0 for those of one x alone.

    Left to itself it is 0 where no curve has more than `MOST` points, else the roundest number that leaves no more: a
    step's loss is mostly noise, and a hundred thousand of them are a band in which nobody sees the line. Means of
    stretches are preferred to a moving average, which lags behind and has as many points as before, and to a choice
    among the rows, which keeps the noise. Their spread is drawn too, so that what was smoothed shows. On a logarithmic
    scale stretches are shares of a decade: the beginning keeps its points. All curves of a panel have one width.
    """
    if plan.smooth is not None:
        return plan.smooth if plan.smooth > 1 / LARGEST else 0
    if max(len(np.unique(x)) for x in xs) <= MOST:
        return 0
    places = [_scaled(x, plan) for x in xs]
    return rounded_up(float(max(map(np.max, places)) - min(map(np.min, places))) / MOST)


def curve(x: Numbers, y: Numbers, width: float, plan: Plan) -> Curve:
    """Returns the points of rows, whose x and y are [rows]: one for each stretch of x that has any."""
    cells = _cells(_scaled(x, plan), width) if width else x
    _, cell, count = np.unique(cells, return_inverse=True, return_counts=True)
    mean = np.bincount(cell, y) / count
    squares = np.bincount(cell, (y - mean[cell]) ** 2)
    return Curve(np.bincount(cell, x) / count, mean, np.sqrt(squares / np.maximum(count - 1, 1)))


def _cells(places: Numbers, width: float) -> Numbers:
    """Returns in which stretch each row is, [rows]; the last one is part of the one before where it is but its begin.

    A mean over few rows at the end would look as if something had happened there.
    """
    cells: Numbers = np.floor((places - places.min()) / width)
    _, firsts = np.unique(places, return_index=True)
    numbers, held = np.unique(cells[firsts], return_counts=True)
    if len(held) > 1 and held[-1] < held[-2] / 2:
        cells[cells == numbers[-1]] = numbers[-2]
    return cells


def _scaled(x: Numbers, plan: Plan) -> Numbers:
    return np.log10(x) if plan.cuts_decades else x


def stretch(width: float, plan: Plan) -> str:
    """Returns the width of what is averaged, for people: `500 steps`."""
    if plan.cuts_decades:
        return f"{width:g} decades of {printable(plan.x)}"
    return f"{width:,.12g} {'steps' if plan.x == 'step' else printable(plan.x)}"


# -- ticks ----------------------------------------------------------------------------------------------------------


def rounded_up(number: float) -> float:
    """Returns the least of 1, 2 and 5 times a power of ten that is not below a number above 0."""
    power = 10.0 ** math.floor(math.log10(number))
    return power * next(each for each in ROUND if each * power >= number * (1 - 1e-9))


def ticks(low: float, high: float, most: int, *, is_log: bool) -> list[float]:
    """Returns round numbers from `low` to `high`, which differ: at equal distances about `most` of them, two at least.

    On a logarithmic scale they are powers of ten, where that is but a few with others between them.
    """
    if is_log:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        if last - first >= most // 2:
            return [10.0**power for power in range(first, last + 1, (last - first) // most + 1)]
        fine = [each * 10.0**power for power in range(first - 1, last + 1) for each in ROUND[:-1]]
        if len(within := [each for each in fine if low <= each <= high]) > 2:
            return within
    step = rounded_up((high - low) / most)
    found = [step * count for count in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return found if len(found) > 1 else ticks(low, high, 2 * most, is_log=False)


def numbers(at: Sequence[float]) -> list[str]:
    """Returns the numbers of ticks, which differ, in few characters: `2e-5`, `0.05`, `200k`, `1.5M`."""
    digits = next((digits for digits in range(6, 17) if len({number(value, digits) for value in at}) == len(at)), 17)
    return [number(value, digits) for value in at]


def number(value: float, digits: int = 6) -> str:
    """Returns a number with at most so many digits, and with a suffix in the place of zeros."""
    size = next((size for size in SUFFIXES if size <= abs(value) < 1e12), 1.0)
    return f"{value / size:.{digits}g}{SUFFIXES.get(size, '')}".replace("e-0", "e-")

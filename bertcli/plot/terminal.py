"""A chart as lines of text: dots of braille, eight to a character, and a mark for each curve.

No library draws it: those that do are large, or change their interface from one version to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import shortened
from bertcli.plot.chart import Chart, Panel, numbers, ticks
from bertcli.plot.rows import Numbers

Places = NDArray[np.int64]

LINES = 16  # of a panel, without its labels
NARROWEST = 40  # characters of a line
DOWN, ACROSS = 4, 2  # dots of a character
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)  # [DOWN, ACROSS]
BLANK = 0x2800  # the braille character without a dot; one with dots is it plus those of DOTS
MARKS = "ox+*#@%="
SPARSE, APART = 4, 12  # characters a point from which on each has its mark, and else from one mark to the next
AT_ONCE = 4096  # segments of a line
SAME = 1e-11  # share of numbers up to which they are one: ticks between them, and their logarithms, are rounded away


def drawn(chart: Chart, width: int) -> str:
    """Returns a chart as lines of `width` characters at most, or of `NARROWEST`, each with its end."""
    width = max(width, NARROWEST)
    lines = [f"{mark_of(index)} {shortened(name, width - 2)}" for index, name in enumerate(chart.names)]
    ys = [Scale.over([curve.y for curve in panel.curves], LINES * DOWN, is_log=chart.log_y) for panel in chart.panels]
    margin = max(len(label) for y in ys for _, label in [(0, ""), *y.ticks(LINES // 4)])
    columns = width - margin - 2
    xs = [curve.x for panel in chart.panels for curve in panel.curves]
    x = Scale.over(xs, columns * ACROSS, is_log=chart.log_x)
    for panel, y in zip(chart.panels, ys, strict=True):
        heading = shortened(" · ".join(filter(None, (panel.label, panel.note))), width)
        lines += ["", heading, *_panel(panel, x, y, margin, is_marked=bool(chart.names))]
    lines.append(" " * (margin + 2) + shortened(chart.label, columns).center(columns).rstrip())
    return "".join(f"{line}\n" for line in lines[not chart.names :])


def mark_of(index: int) -> str:
    """Returns the mark of a curve of a panel, counted from 0."""
    return MARKS[index % len(MARKS)]


# -- a panel --------------------------------------------------------------------------------------------------------


def _panel(panel: Panel, x: Scale, y: Scale, margin: int, *, is_marked: bool) -> Iterator[str]:
    """Yields the lines of a panel: the curves beside the ticks of y, in so wide a margin, and the ticks of x below."""
    labels = {LINES - 1 - place // DOWN: label for place, label in y.ticks(LINES // 4)}
    columns = x.dots // ACROSS
    dots, marks = np.zeros((LINES, columns), np.uint8), np.full((LINES, columns), "")
    for index, curve in enumerate(panel.curves):
        across, up = x.places(curve.x), y.places(curve.y)
        for start in range(0, max(len(across) - 1, 1), AT_ONCE):
            join(dots, across[start : start + AT_ONCE + 1], up[start : start + AT_ONCE + 1])
        own = marked(across, columns, index, is_marked=is_marked)
        marks[LINES - 1 - up[own] // DOWN, across[own] // ACROSS] = mark_of(index)
    for row in range(LINES):
        cells = zip(marks[row].tolist(), dots[row].tolist(), strict=True)
        line = "".join(mark or (chr(BLANK + lit) if lit else " ") for mark, lit in cells)
        yield f"{labels.get(row, ''):>{margin}} {'┤' if row in labels else '│'}{line}".rstrip()
    for line in below({place // ACROSS: label for place, label in x.ticks(columns // 12)}, columns):
        yield " " * (margin + 1) + line


def join(dots: NDArray[np.uint8], x: Places, y: Places) -> None:
    """Set the dots of characters, [LINES, columns], on the lines from each point to the next, [points] from below."""
    across, up = np.diff(x), np.diff(y)
    steps = np.maximum(np.maximum(np.abs(across), np.abs(up)), 1)
    begins = np.cumsum(steps) - steps
    share = (np.arange(steps.sum()) - np.repeat(begins, steps)) / np.repeat(steps, steps)
    xs = np.rint(np.repeat(x[:-1], steps) + share * np.repeat(across, steps)).astype(np.int64)
    ys = np.rint(np.repeat(y[:-1], steps) + share * np.repeat(up, steps)).astype(np.int64)
    xs, ys = np.append(xs, x[-1]), LINES * DOWN - 1 - np.append(ys, y[-1])
    np.bitwise_or.at(dots, (ys // DOWN, xs // ACROSS), DOTS[ys % DOWN, xs % ACROSS])


def marked(x: Places, columns: int, index: int, *, is_marked: bool) -> Places:
    """Returns the points of a curve that have its mark: all where they are few, else some, if any are to have it."""
    if len(x) <= columns // SPARSE:
        return np.arange(len(x))
    begins = 3 * index % APART * ACROSS  # not where those of another curve are
    return np.unique(np.searchsorted(x, np.arange(begins, x[-1] + 1 if is_marked else 0, APART * ACROSS)))


def below(labels: dict[int, str], columns: int) -> tuple[str, str]:
    """Returns the line below a panel, and the labels of its ticks, each under its own as far as it can."""
    line, text = ["─"] * columns, [" "] * columns
    for column, label in labels.items():
        start = min(max(column - len(label) // 2, 0), columns - len(label))
        if not "".join(text[max(start - 1, 0) : start + len(label) + 1]).strip():
            line[column] = "┬"
            text[start : start + len(label)] = label
    return "└" + "".join(line), " " + "".join(text).rstrip()


@dataclass(frozen=True)
class Scale:
    """Which dot a number falls on, out of so many from `low` to `high`."""

    low: float
    high: float
    dots: int
    is_log: bool

    @classmethod
    def over(cls, numbers: Sequence[Numbers], dots: int, *, is_log: bool) -> Scale:
        """Returns the scale on which all numbers have their place, a wider one where they are all (nearly) the same."""
        low, high = float(min(map(np.min, numbers))), float(max(map(np.max, numbers)))
        if high - low <= SAME * max(abs(low), abs(high)):
            low, high = (low / 2, high * 2) if is_log else (low - (abs(low) / 2 or 1), high + (abs(high) / 2 or 1))
        return cls(low, high, dots, is_log)

    def places(self, numbers: Numbers) -> Places:
        """Returns the dots of numbers, from 0."""
        low, high, at = (np.log10(each) if self.is_log else each for each in (self.low, self.high, numbers))
        return np.rint((at - low) / (high - low) * (self.dots - 1)).astype(np.int64)

    def ticks(self, most: int) -> list[tuple[int, str]]:
        """Returns the dots of round numbers, with those numbers."""
        at = ticks(self.low, self.high, most, is_log=self.is_log)
        return list(zip(self.places(np.array(at)).tolist(), numbers(at), strict=True))

"""A chart as lines of text: dots of braille, eight to a character, and a mark for each curve.

No library draws it: those that do are large, or change their interface from one version to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import shortened
from bertcli.plot.chart import Chart, Panel, number, ticks
from bertcli.plot.rows import Numbers

Places = NDArray[np.int64]

LINES = 16  # of a panel, without its labels
NARROWEST = 40  # characters of a line
DOWN, ACROSS = 4, 2  # dots of a character
DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]], np.uint8)  # [DOWN, ACROSS]
BLANK = 0x2800  # the braille character without a dot; one with dots is it plus those of DOTS
MARKS = "ox+*#@%="
COLOURS = (32, 166, 36, 175, 178, 74, 245, 97)  # of a terminal's 256: near a picture's, seen on black and on white
SPARSE, APART = 4, 12  # characters a point from which on each has its mark, and else from one mark to the next
AT_ONCE = 4096  # segments of a line
SAME = 1e-11  # share of numbers up to which they are one: ticks between them, and their logarithms, are rounded away


def drawn(chart: Chart, width: int, *, has_colours: bool = False) -> str:
    """Returns a chart as lines of `width` characters at most, or of `NARROWEST`, each with its end."""
    width = max(width, NARROWEST)
    lines = [shortened(chart.title, width).center(width).rstrip()] if chart.title else []
    lines += legend(chart.names, width, has_colours=has_colours)
    ys = [Scale.over([curve.y for curve in panel.curves], LINES * DOWN, is_log=chart.log_y) for panel in chart.panels]
    margin = max(len(label) for y in ys for _, label in [(0, ""), *y.ticks(LINES // 4)])
    columns = width - margin - 2
    xs = [curve.x for panel in chart.panels for curve in panel.curves]
    x = Scale.over(xs, columns * ACROSS, is_log=chart.log_x)
    for panel, y in zip(chart.panels, ys, strict=True):
        heading = shortened(" · ".join(filter(None, (panel.label, panel.note))), width)
        lines += ["", heading, *_panel(panel, x, y, margin, is_marked=bool(chart.names), has_colours=has_colours)]
    lines.append(" " * (margin + 2) + shortened(chart.label, columns).center(columns).rstrip())
    return "".join(f"{line}\n" for line in lines[not (chart.title or chart.names) :])


def legend(names: list[str], width: int, *, has_colours: bool) -> list[str]:
    """Returns the names with their marks, as many on a line as go there."""
    lines: list[list[int]] = []
    cells = [f"{MARKS[index % len(MARKS)]} {shortened(name, width - 2)}" for index, name in enumerate(names)]
    for index, cell in enumerate(cells):
        if not lines or sum(len(cells[each]) + 3 for each in lines[-1]) + len(cell) > width:
            lines.append([])
        lines[-1].append(index)
    return ["   ".join(coloured(cells[each], each, has_colours) for each in line) for line in lines]


def coloured(text: str, index: int, has_colours: bool) -> str:
    """Returns a text in the colour of a curve; index -1 is of none."""
    return f"\x1b[38;5;{COLOURS[index % len(COLOURS)]}m{text}\x1b[0m" if has_colours and index >= 0 else text


# -- a panel --------------------------------------------------------------------------------------------------------


def _panel(panel: Panel, x: Scale, y: Scale, margin: int, *, is_marked: bool, has_colours: bool) -> Iterator[str]:
    """Yields the lines of a panel: the curves beside the ticks of y, in so wide a margin, and the ticks of x below."""
    labels = {LINES - 1 - place // DOWN: label for place, label in y.ticks(LINES // 4)}
    columns = x.dots // ACROSS
    canvas = Canvas(columns)
    for curve in panel.curves:
        canvas.draw(curve.number, x.places(curve.x), y.places(curve.y), is_marked=is_marked)
    for row, line in enumerate(canvas.lines(has_colours=has_colours)):
        yield f"{labels.get(row, ''):>{margin}} {'┤' if row in labels else '│'}{line}".rstrip()
    for line in below({place // ACROSS: label for place, label in x.ticks(columns // 12)}, columns):
        yield " " * (margin + 1) + line


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
        return list(zip(self.places(np.array(at)).tolist(), map(number, at), strict=True))


class Canvas:
    """Dots, [LINES, columns] characters of them, and who has drawn there last."""

    def __init__(self, columns: int) -> None:
        """Begin empty."""
        self._dots = np.zeros((LINES, columns), np.uint8)
        self._owner = np.full((LINES, columns), -1)
        self._marks: dict[tuple[int, int], str] = {}

    def draw(self, index: int, x: Places, y: Places, *, is_marked: bool) -> None:
        """Draw a curve through its points' dots, counted from below, with a mark at its points, or at some of them."""
        for start in range(0, max(len(x) - 1, 1), AT_ONCE):
            self._draw_lines(index, x[start : start + AT_ONCE + 1], y[start : start + AT_ONCE + 1])
        columns = self._dots.shape[1]
        if len(x) <= columns // SPARSE:
            marked = np.arange(len(x))
        elif is_marked:
            begins = 3 * index % APART * ACROSS  # not where those of another curve are
            marked = np.unique(np.searchsorted(x, np.arange(begins, x[-1] + 1, APART * ACROSS)))
        else:
            return
        for row, column in zip(LINES - 1 - y[marked] // DOWN, x[marked] // ACROSS, strict=True):
            self._marks[int(row), int(column)] = MARKS[index % len(MARKS)]
            self._owner[row, column] = index

    def _draw_lines(self, index: int, x: Places, y: Places) -> None:
        """Draw the lines from each dot to the next, [points]."""
        across, down = np.diff(x), np.diff(y)
        steps = np.maximum(np.maximum(np.abs(across), np.abs(down)), 1)
        begins = np.cumsum(steps) - steps
        share = (np.arange(steps.sum()) - np.repeat(begins, steps)) / np.repeat(steps, steps)
        xs = np.rint(np.repeat(x[:-1], steps) + share * np.repeat(across, steps)).astype(np.int64)
        ys = np.rint(np.repeat(y[:-1], steps) + share * np.repeat(down, steps)).astype(np.int64)
        xs, ys = np.append(xs, x[-1]), LINES * DOWN - 1 - np.append(ys, y[-1])
        np.bitwise_or.at(self._dots, (ys // DOWN, xs // ACROSS), DOTS[ys % DOWN, xs % ACROSS])
        self._owner[ys // DOWN, xs // ACROSS] = index

    def lines(self, *, has_colours: bool) -> Iterator[str]:
        """Yields the lines of characters, from above."""
        for row, dots in enumerate(self._dots.tolist()):
            cells = [self._marks.get((row, at)) or (chr(BLANK + sum_) if sum_ else " ") for at, sum_ in enumerate(dots)]
            runs = groupby(zip(self._owner[row].tolist(), cells, strict=True), key=lambda cell: cell[0])
            yield "".join(coloured("".join(text for _, text in run), owner, has_colours) for owner, run in runs)

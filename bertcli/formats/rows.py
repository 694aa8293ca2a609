"""Rows of cells out of lines, with quotes (RFC 4180) or without, and a record out of each."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from bertcli.errors import BadData
from bertcli.lines import Lines, is_blank
from bertcli.records import Record

MOST = 1 << 14  # columns, as many as spreadsheets have: a line of nothing but tabs is not to fill the memory


class Row(NamedTuple):
    """The cells of a row, the number of the first of its lines, and what is wrong with it."""

    line: int
    cells: list[str]
    fault: BadData | None = None


class Layout(Protocol):
    """What the first row of a file says of the others."""

    @property
    def columns(self) -> int:
        """Returns how many cells a row has."""
        ...

    @property
    def has_header(self) -> bool:
        """Returns whether the first row is no record."""
        ...

    def record(self, cells: list[str], index: str) -> Record:
        """Returns the record of a row, `index` its number from "0"; raises `BadData` naming the field."""
        ...


def records(lines: Lines, rows: Iterator[Row], layout_of: Callable[[list[str]], Layout]) -> Iterator[Record]:
    """Yields a record a row; the first row tells the layout.

    Raises `BadData` with file and line for a first row that tells none, whatever `on_error` says. A row that is bad,
    or has more or fewer cells, is the fault of its first line, and is counted in the numbers of those after it.
    """
    first = next(rows, None)
    if first is None:
        return
    try:
        layout = layout_of(_cells(first))
    except BadData as error:
        raise error.at(lines.name, first.line) from None
    index = -1
    for index, row in enumerate(rows if layout.has_header else itertools.chain([first], rows)):
        try:
            cells = _cells(row)
            if len(cells) != layout.columns:
                raise BadData(found=len(cells), expected=f"{layout.columns} columns")
            record = layout.record(cells, str(index))
        except BadData as error:
            lines.fault(error.at(lines.name, row.line))
        else:
            yield record
    if index < 0 and any("\r" in cell for cell in first.cells):
        problem = "nothing but a header with a carriage return in it: are the line ends CR alone?"
        raise BadData(problem, file=lines.name, line=first.line)


def _cells(row: Row) -> list[str]:
    if row.fault:
        raise row.fault
    if len(row.cells) > MOST:
        raise BadData(f"a row of more than {MOST} columns")
    return row.cells


# -- two syntaxes ---------------------------------------------------------------------------------------------------


def tsv(lines: Lines) -> Iterator[Row]:
    """Yields the rows of a file with tabs and no quotes; blank lines are none."""
    for line in lines:
        if b"\t" in line or not is_blank(line):
            text, fault = _decoded(lines, line)
            yield Row(lines.number, text.split("\t", MOST), fault)


def csv(lines: Lines, delimiter: str = ",") -> Iterator[Row]:
    """Yields the rows of a file with quotes; a quoted cell may hold line ends, each of which becomes LF.

    Blank lines between rows are none.
    """
    syntax = Quoting(delimiter)
    held: list[str] = []  # the lines of a row that has begun
    first, size, fault = 0, 0, None
    for line in lines:
        text, wrong = _decoded(lines, line)
        if not held:
            if is_blank(line) and delimiter not in text:
                continue
            first, fault = lines.number, None
        is_open = syntax.continues(text) if held else syntax.opens(text)
        size = lines.grown(size if held else 0, 1 + len(line), "a row (is a quote not closed?)")
        held.append(text)
        fault = fault or wrong
        if not is_open:
            yield syntax.row(first, "\n".join(held), fault)
            held = []
    if held:
        yield syntax.row(first, "\n".join(held), fault)


def _decoded(lines: Lines, line: bytes) -> tuple[str, BadData | None]:
    try:
        return lines.decode(line), None
    except BadData as error:
        return line.decode("utf-8", "replace"), error


class Quoting:
    """Cells with quotes: where a row goes on in the next line, and what its cells are."""

    def __init__(self, delimiter: str) -> None:
        """Prepare the patterns of a cell and of a row whose last cell is not closed."""
        self.delimiter, mark = delimiter, re.escape(delimiter)
        begun = '"[^"]*+(?:""[^"]*+)*+'
        self._cell = re.compile(f'{begun}"|[^"{mark}]*+')
        self._open = re.compile(f'(?:(?:{begun}"|[^"{mark}]*+){mark})*+{begun}')

    def opens(self, text: str) -> bool:
        """Returns whether a row that begins with this line goes on; a stray quote does not make it."""
        return text.count('"') % 2 == 1 and self._open.fullmatch(text) is not None

    def continues(self, text: str) -> bool:
        """Returns whether a row goes on that was within a quoted cell before this line."""
        return text.count('"') % 2 == 0

    def row(self, line: int, text: str, fault: BadData | None) -> Row:
        """Returns a whole row taken apart, with what is wrong with it."""
        if '"' not in text:
            return Row(line, text.split(self.delimiter, MOST), fault)
        cells: list[str] = []
        end = -1
        while end < len(text) and len(cells) <= MOST:
            start = end + 1
            found = self._cell.match(text, start)
            end = found.end() if found else start
            if end < len(text) and text[end] != self.delimiter:
                return Row(line, cells, fault or _malformed(len(cells) + 1, text[start : end + 1]))
            cell = text[start:end]
            cells.append(cell[1:-1].replace('""', '"') if cell.startswith('"') else cell)
        return Row(line, cells, fault)


def _malformed(column: int, found: str) -> BadData:
    if found == '"':
        return BadData(f"column {column}: a quote opens the cell, and none closes it")
    return BadData(f"column {column}", found=found, expected="a cell quoted whole, the quotes in it doubled (RFC 4180)")


def number(cell: str, field: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Returns a cell as a finite number within bounds; raises `BadData` for anything else."""
    try:
        value = float(cell) if "_" not in cell else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and low <= value <= high):
        expected = "a finite number" if high == math.inf else f"a number from {low:g} to {high:g}"
        raise BadData(field=field, found=cell, expected=expected)
    return value

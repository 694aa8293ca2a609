"""GLUE's TSV files, in the official layouts of its tasks (paper §4.1): tabs between columns, no quoting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bertcli.errors import BadData
from bertcli.lines import Lines
from bertcli.records import Record


@dataclass(frozen=True)
class Layout:
    """What the columns of one kind of file hold, counted from 0; without a header their number tells it."""

    columns: int
    text: int
    label: int | None = None
    index: int | None = None
    header: tuple[str, ...] | None = None

    def fits(self, row: list[str]) -> bool:
        """Returns whether a file that begins with this row has this layout."""
        return tuple(row) == self.header if self.header else len(row) == self.columns


TEST = Layout(2, index=0, text=1, header=("index", "sentence"))
COLA = (TEST, Layout(4, label=1, text=3))
SST_2 = (TEST, Layout(2, text=0, label=1, header=("sentence", "label")))


def cola(lines: Lines) -> Iterator[Record]:
    """Yields CoLA's sentences, "1" for acceptable ones; see `_records`."""
    return _records(lines, COLA, ("0", "1"))


def sst_2(lines: Lines) -> Iterator[Record]:
    """Yields SST-2's phrases, "1" for positive ones; see `_records`."""
    return _records(lines, SST_2, ("0", "1"))


def _records(lines: Lines, layouts: tuple[Layout, ...], labels: tuple[str, ...]) -> Iterator[Record]:
    """Yields classification records, their `id` the file's own index or else the row's, from "0".

    The first row tells the layout. Raises `BadData` where a row has other columns or an unknown label.
    """
    layout: Layout | None = None
    first = 0  # the line of row 0

    def record(line: str) -> Record | None:
        nonlocal layout, first
        row = [column.strip() for column in line.split("\t")]
        if row == [""]:
            return None
        if layout is None:
            layout = _layout(row, layouts)
            first = lines.number + bool(layout.header)
        return None if lines.number < first else _record(row, layout, lines.number - first, labels)

    return (found for found in lines.map(record) if found)


def _layout(row: list[str], layouts: tuple[Layout, ...]) -> Layout:
    for layout in layouts:
        if layout.fits(row):
            return layout
    known = [repr("\t".join(layout.header)) if layout.header else f"{layout.columns} columns" for layout in layouts]
    raise BadData("the first line tells no layout", found="\t".join(row), expected=" or ".join(known))


def _record(row: list[str], layout: Layout, index: int, labels: tuple[str, ...]) -> Record:
    if len(row) != layout.columns:
        raise BadData(found=len(row), expected=f"{layout.columns} columns")
    record = {"id": str(index) if layout.index is None else row[layout.index], "text": row[layout.text]}
    if layout.label is not None:
        label = row[layout.label]
        if label not in labels:
            raise BadData(field="label", found=label, expected=" or ".join(labels))
        record["label"] = label
    return record

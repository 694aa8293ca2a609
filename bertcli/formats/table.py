"""People's own tables: csv with quotes (RFC 4180), and tsv without any, as linguists and GLUE write it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bertcli.errors import BadData
from bertcli.formats import Fault, rows, stop
from bertcli.lines import Lines
from bertcli.records import Record
from bertcli.stream import dumps

# Names that no other column may take: the record's own fields, and what is written of its `details`.
FIELDS = {"id", "text", "text_pair", "label", "labels", "words", "prediction", "details", "tokens", "vectors"}
WRITTEN = {"probability"}

# -- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns hold what, by the names in the header, or where there is none by their numbers from "1".

    Where one is None it is the column of the field's own name, if there is one. `number` makes the label a number;
    with `several` the cell holds any number of labels, joined by it.
    """

    text_column: str = "text"
    pair_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    several: str | None = None
    number: bool = False
    headerless: bool = False

    def layout(self, first: list[str]) -> Table:
        """Returns what a file's first row makes of these names; raises `BadData` for a column that is not there."""
        header = [str(n) for n, _ in enumerate(first, 1)] if self.headerless else first
        if len(set(header)) < len(header):
            twice = Counter(header).most_common(1)[0][0]
            raise BadData("two columns have one name", found=twice, expected="each name once in the header")
        asked = {"text": self.text_column, "text_pair": self.pair_column, "id": self.id_column}
        asked[self.answer] = self.label_column
        places = {field: _place(name, header) for field, name in asked.items() if name is not None}
        usual = {"id": ["id"], "text_pair": ["text_pair"], self.answer: [self.answer, "label"]}
        for field, names in (usual | {"prediction": ["prediction"]}).items():
            free = [header.index(name) for name in names if name in header]
            if field not in places and free and free[0] not in places.values():
                places[field] = free[0]
        others = [(place, name) for place, name in enumerate(header) if place not in places.values()]
        return Table(self, len(header), places, {place: _own(name, header) for place, name in others})

    @property
    def answer(self) -> str:
        """Returns the field that holds what is to be predicted."""
        return "label" if self.several is None else "labels"

    def value(self, cell: str, field: str) -> Any:
        """Returns what the cell of a label or prediction means; None where it is empty."""
        if self.several is not None:
            labels = cell.split(self.several) if cell else []
            if "" in labels:
                raise BadData(field=field, found=cell, expected=f"labels with {self.several!r} between them")
            return labels
        if not cell:
            return None
        return rows.number(cell, field) if self.number else cell


def _place(name: str, header: list[str]) -> int:
    if name not in header:
        others = [mark for mark in ";\t|" if len(header) == 1 and mark in header[0]]
        hint = f"; is {others[0]!r} what parts them (--delimiter)?" if others else ""
        raise BadData(f"no column {name!r}", found=", ".join(header), expected=f"a header with it{hint}")
    return header.index(name)


def _own(name: str, header: list[str]) -> str:
    """Returns the name under which a column passes: with `column_` before it where that is taken."""
    free = name
    while free in FIELDS | WRITTEN or (free != name and free in header):
        free = f"column_{free}"
    return free


@dataclass(frozen=True)
class Table:
    """The layout of one file: which column holds which field, and the names under which the others pass."""

    names: Columns
    columns: int
    places: dict[str, int]
    others: dict[int, str]

    @property
    def has_header(self) -> bool:
        """Returns whether the first row is no record."""
        return not self.names.headerless

    def record(self, cells: list[str], index: str) -> Record:
        """Returns the record of a row."""
        found: Record = {"id": index}
        for field in ("id", "text", "text_pair"):
            if field in self.places:
                found[field] = cells[self.places[field]]
        for field in (self.names.answer, "prediction"):
            if field in self.places:
                value = self.names.value(cells[self.places[field]], field)
                found |= {} if value is None else {field: value}
        return found | {name: cells[place] for place, name in self.others.items()}


def read_csv(lines: Lines, *, delimiter: str = ",", **columns: Any) -> Iterator[Record]:
    """Yields the records of a file with quotes; `columns` are those of `Columns`, other columns pass as strings."""
    return rows.records(lines, rows.csv(lines, delimiter), Columns(**columns).layout)


def read_tsv(lines: Lines, **columns: Any) -> Iterator[Record]:
    """Yields the records of a file that knows no quotes; see `read_csv`."""
    return rows.records(lines, rows.tsv(lines), Columns(**columns).layout)


# -- writing --------------------------------------------------------------------------------------------------------

Line = Callable[[list[str], list[str]], str]  # the names of the columns, the cells -> the line with its end


def write_csv(
    records: Iterable[Record], fault: Fault = stop, *, delimiter: str = ",", several: str | None = None
) -> Iterator[bytes]:
    """Yields a header and then a line a record, cells quoted where they must be; see `_written`."""
    return _written(records, fault, functools.partial(_csv_line, delimiter), several)


def write_tsv(records: Iterable[Record], fault: Fault = stop, *, several: str | None = None) -> Iterator[bytes]:
    """Yields a header and then a line a record; what tsv cannot hold is a fault too. See `_written`."""
    return _written(records, fault, _tsv_line, several)


def _written(records: Iterable[Record], fault: Fault, line: Line, several: str | None) -> Iterator[bytes]:
    """Yields the lines of a table, its columns the first record's fields, then `prediction` and `probability`.

    A field that a later record lacks is an empty cell; one that the first record lacked is a fault.
    """
    columns: list[str] = []
    for record in records:
        try:
            row = _flat(record, several)
            names = columns or list(row)
            if unknown := [name for name in row if name not in names]:
                raise BadData(field=unknown[0], found=row[unknown[0]], expected="no field that the first record lacks")
            lines = ("" if columns else line(names, names)) + line(names, [row.get(name, "") for name in names])
        except BadData as error:
            fault(error)
        else:
            columns = names
            yield lines.encode()


def _flat(record: Record, several: str | None) -> dict[str, str]:
    """Returns the cells of a record by their columns, without `details` but for the probability of what it chose."""
    fields = {name: value for name, value in record.items() if name not in ("details", "prediction")}
    prediction = record.get("prediction")
    if prediction is not None:
        fields["prediction"] = prediction
        probability = _probability(prediction, record.get("details"))
        if probability is not None:
            fields.setdefault("probability", probability)  # a field of the user's own stays
    return {name: _cell(name, value, several) for name, value in fields.items()}


def _probability(prediction: Any, details: Any) -> float | None:
    """Returns the probability of the label, or index, that was predicted; None where the details do not tell it."""
    probabilities = details.get("probabilities") if type(details) is dict else None
    if type(probabilities) is dict and type(prediction) is str:
        return probabilities.get(prediction)
    if type(probabilities) is list and type(prediction) is int and 0 <= prediction < len(probabilities):
        found: float = probabilities[prediction]
        return found
    return None


def _cell(name: str, value: Any, several: str | None) -> str:
    if value is None or type(value) is str:
        return value or ""
    if several is not None and name in ("labels", "prediction") and type(value) is list:
        if not all(type(each) is str and each and several not in each for each in value):
            raise BadData(
                f"labels that {several!r} cannot join",
                field=name,
                found=dumps(value).decode(),
                expected="strings that are not empty and do not hold it",
            )
        return several.join(value)
    return dumps(value).decode()


def _csv_line(delimiter: str, _: list[str], cells: list[str]) -> str:
    is_blank = len(cells) == 1 and not cells[0].strip()  # which unquoted would be no row
    special = (delimiter, '"', "\r", "\n")
    marked = [is_blank or each[:1] == "\ufeff" or any(mark in each for mark in special) for each in cells]
    quoted = ['"' + each.replace('"', '""') + '"' if mark else each for each, mark in zip(cells, marked, strict=True)]
    return delimiter.join(quoted) + "\n"


def _tsv_line(names: list[str], cells: list[str]) -> str:
    for name, cell in zip(names, cells, strict=True):
        if any(mark in cell for mark in "\t\r\n"):
            raise BadData(field=name, found=cell, expected="no tab and no line end, which tsv cannot hold (csv can)")
    if len(cells) == 1 and not cells[0].strip():
        raise BadData(field=names[0], found=cells[0], expected="more than a blank line, which is no row (csv can)")
    return "\t".join(cells) + "\n"

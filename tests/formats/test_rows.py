"""Rows of cells, with quotes and without."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bertcli.errors import BadData
from bertcli.formats import rows
from bertcli.lines import Lines, Source


def lines_of(data: str | bytes, **options: Any) -> Lines:
    data = data.encode() if isinstance(data, str) else data
    return Lines(Source(io.BytesIO(data), "in"), **options)  # type: ignore[arg-type]


def read(data: str, delimiter: str = ",") -> list[list[str]]:
    return [row.cells for row in rows.csv(lines_of(data), delimiter) if not row.fault]


def faults(data: str | bytes) -> dict[int, str]:
    return {row.line: str(row.fault) for row in rows.csv(lines_of(data)) if row.fault}


# A lone CR and a BOM have tests of their own.
cells = st.text(st.one_of(st.sampled_from('",;\t\n ab'), st.characters(exclude_characters="\r\ufeff", codec="utf-8")))
tables = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), max_size=5))


@given(
    tables,
    st.sampled_from(",;\t|^]-"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.sampled_from(["\n", "\r\n"]),
)
@example([["a\n\n,b", ""], ['"', '"\n"']], ",", csv.QUOTE_MINIMAL, "\n")
def test_what_python_writes_is_read(table: list[list[str]], delimiter: str, quoting: Any, end: str) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end).writerows(table)
    # Without quotes, a row whose only cell is blank is a blank line.
    expected = [row for row in table if quoting == csv.QUOTE_ALL or len(row) > 1 or not is_blank(row[0])]
    assert read(file.getvalue(), delimiter) == expected


def is_blank(cell: str) -> bool:
    return cell != "" and cell.encode().isspace() and "\n" not in cell


def test_line_ends_in_cells() -> None:
    assert read('a,"b\r\nc"\r\nd,"e\rf"\r\n') == [["a", "b\nc"], ["d", "e\rf"]]
    assert read('a,"\n\n"\n') == [["a", "\n\n"]]
    assert read('\n \n""\n,\n') == [[""], ["", ""]]
    assert read(' "a" \n', " ") == [["", "a", ""]]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('5" pipe,a', """column 1; found '5"', expected a cell quoted whole, the quotes in it doubled (RFC 4180)"""),
        ('a, "b"', """column 2; found ' "', expected a cell quoted whole, the quotes in it doubled (RFC 4180)"""),
        ('a,"b"c,d', """column 2; found '"b"c', expected a cell quoted whole, the quotes in it doubled (RFC 4180)"""),
        ('"a" "b', """column 1; found '"a" ', expected a cell quoted whole, the quotes in it doubled (RFC 4180)"""),
    ],
)
def test_a_stray_quote_is_the_fault_of_its_own_row(row: str, said: str) -> None:
    data = f'a,b\n"c\nc",d\n{row}\n"e",f\n'
    assert faults(data) == {4: said}
    assert read(data) == [["a", "b"], ["c\nc", "d"], ["e", "f"]]


def test_a_quote_that_is_never_closed() -> None:
    assert faults('a,b\n\nc,"d\ne,f\n') == {3: "column 2: a quote opens the cell, and none closes it"}


def test_bytes_that_are_not_utf8_keep_their_line() -> None:
    said = {2: "in:3: not UTF-8: byte 0xff at offset 1 of the line"}
    assert faults(b'a,b\nc,"d\ne\xff\nf"\ng,h\n') == said


def test_a_long_cell_takes_time_that_grows_with_its_length() -> None:
    (row,) = read('"' + "a\n" * 200_000 + '"\n')
    assert row == ["a\n" * 200_000]
    assert len(read('"' + '""' * 500_000 + '"\n')[0][0]) == 500_000
    assert len(faults("a" + '"' * 1_000_001)) == 1


def test_tsv_has_no_quotes() -> None:
    found = list(rows.tsv(lines_of('a "b\t"c\r\n\n  \n\t\nd')))
    assert [(row.line, row.cells) for row in found] == [(1, ['a "b', '"c']), (4, ["", ""]), (5, ["d"])]


@pytest.mark.parametrize("cell", ["nan", "-inf", "1e999", "1_0", "", "a"])
def test_what_is_no_number(cell: str) -> None:
    with pytest.raises(BadData, match=r"field 'x': found '.*', expected a finite number"):
        rows.number(cell, "x")
    assert rows.number(" -1.5e3 ", "x") == -1500

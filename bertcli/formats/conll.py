"""CoNLL's files: a word a line, a blank line after each sentence, as in the shared task of 2003 (section 5.3).

The columns of a row are separated by spaces or tabs; a no-break space is a word like others. The first is the word,
the last its label; those between (parts of speech, chunks) travel as `columns`, a list each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain
from typing import Any

from bertcli.errors import BadData
from bertcli.formats import Fault, stop
from bertcli.lines import BOM, Lines
from bertcli.records import Record, Tagging, checker
from bertcli.schemes import OUTSIDE, borders, check, converted

BORDER = "-DOCSTART-"
NOTHING = "-X-"  # what stands in the middle columns of a border
MOST = 5  # columns
GAP = re.compile("[ \t]+")
COLUMN = re.compile("[^ \t]+")
ROW = 256  # bytes that a row takes in memory beside its text
UNFIT = re.compile("[ \t\n]|\r$")  # in a column

Rows = list[list[str]]

# -- read -----------------------------------------------------------------------------------------------------------


def read(lines: Lines, *, documents: bool = False, scheme: str | None = None) -> Iterator[Record]:
    """Yields a tagging record a sentence, or a document with the `sentences`' first words, as soon as it has ended.

    `document` is the number of the document that a -DOCSTART- line began; what comes before the first one has none.
    A document without a word is none. Files of one column have no `labels`. `scheme`, one of `SCHEMES`, spells the
    labels anew. Raises `BadData` for a row that has other columns than the first; where bad lines are skipped, their
    whole sentences are.
    """
    for index, (document, sentences) in enumerate(_blocks(_sentences(lines, scheme, documents), documents)):
        words, *columns = map(list, zip(*chain.from_iterable(sentences), strict=True))
        record: Record = {"id": str(index), "words": words}
        if columns:
            labels = columns.pop()
            record["labels"] = converted(labels, scheme) if scheme else labels
        if columns:
            record["columns"] = columns
        if documents:
            record["sentences"] = [0, *accumulate(map(len, sentences[:-1]))]
        yield record if document is None else {**record, "document": document}


def _blocks(sentences: Iterable[Rows | None], documents: bool) -> Iterator[tuple[str | None, list[Rows]]]:
    """Yields each sentence, or all of a document, with the number of a document that a border began."""
    number, document = 0, None
    held: list[Rows] = []  # of this document: all, or the last
    for rows in chain(sentences, [None]):
        if rows is None:
            if held and documents:
                yield document, held
            number += bool(held)
            held, document = [], str(number)
        elif documents:
            held.append(rows)
        else:
            held = [rows]
            yield document, held


def _sentences(lines: Lines, scheme: str | None, documents: bool) -> Iterator[Rows | None]:
    """Yields the rows of each sentence, and None for each border."""
    rows: Rows = []
    is_whole, width, size = True, 0, 0
    for line in lines:
        try:
            row = _row(lines.decode(line), width, scheme)
        except BadData as error:
            lines.fault(error)
            is_whole = False
            continue
        if row and row[0] != BORDER:
            width, size = len(row), lines.grown(size, len(line) + ROW, f"a {'document' if documents else 'sentence'}")
            rows.append(row)
            continue
        if rows and is_whole:
            yield rows
        rows, is_whole = [], True
        size = size if documents and not row else 0
        if row:
            yield None
    if rows and is_whole:
        yield rows


def _row(line: str, width: int, scheme: str | None) -> list[str]:
    """Returns a line's columns, none where it is blank; a border may have any number of them."""
    row = [column for column in GAP.split(line.strip(" \t"), MOST) if column]
    if row and row[0] != BORDER:
        if len(row) > MOST or (width and len(row) != width):
            expected = f"{width} columns, as in the first row" if width else f"at most {MOST} columns"
            raise BadData(found=sum(1 for _ in COLUMN.finditer(line)), expected=expected)
        if scheme and len(row) > 1:
            check(row[-1])
    return row


# -- write ----------------------------------------------------------------------------------------------------------


def write(records: Iterable[Record], fault: Fault = stop) -> Iterator[bytes]:
    """Yields each record's rows: word, columns, label and prediction as far as they are there, in their own scheme.

    So the last two columns are what `conlleval` asks for. A -DOCSTART- line stands where `document` changes, and
    before each whole document but a first one without a number. A fault are fields that do not fit each other, the
    first record or the format.
    """
    before: Any = None
    width = 0  # of the first record
    for record in records:
        try:
            columns = _columns(record, width)
            sentences = borders(record.get("sentences"), len(columns[0]))
        except BadData as error:
            fault(error)
            continue
        now, is_first = record.get("document"), not width
        width = len(columns)
        is_whole = record.get("sentences") is not None
        lines = [_border(record, width), ""] if now != before or (is_whole and not (is_first and now is None)) else []
        rows = [" ".join(row) for row in zip(*columns, strict=True)]
        for begin, end in sentences:
            lines += [*rows[begin:end], ""]
        text = "".join(f"{line}\n" for line in lines).encode()
        # What looks like a BOM at the start of a file would be taken for one.
        yield b"\n" + text if is_first and text.startswith(BOM) else text
        before = now


def _border(record: Record, width: int) -> str:
    labels = sum(record.get(name) is not None for name in ("labels", "prediction"))
    return " ".join([BORDER, *[NOTHING] * (width - 1 - labels), *[OUTSIDE] * labels])


def _columns(record: Record, width: int) -> list[list[str]]:
    """Returns the columns of a record, the words first; as many as `width`, unless that is 0."""
    checker(Tagging)(record)
    words = record["words"]
    if not words:
        raise BadData(field="words", found=words, expected="one word or more: a sentence without any is none")
    columns = record.get("columns") or []
    if not isinstance(columns, list):
        raise BadData(field="columns", found=columns, expected="a list of columns")
    named = [("words", words), *(("columns", column) for column in columns)]
    named += [(name, record[name]) for name in ("labels", "prediction") if record.get(name) is not None]
    for name, column in named:
        if not isinstance(column, list) or len(column) != len(words):
            found = len(column) if isinstance(column, list) else column
            raise BadData(field=name, found=found, expected=f"{len(words)} of them, one a word")
        for each in column:
            if not isinstance(each, str) or not each or UNFIT.search(each):
                raise BadData(field=name, found=each, expected="a string that is not empty and has no white space")
    if BORDER in words:
        raise BadData(field="words", found=BORDER, expected="a word")
    if len(named) > MOST + (record.get("prediction") is not None):
        raise BadData(field="columns", found=len(named), expected=f"at most {MOST} columns in all")
    if width not in (0, len(named)):
        raise BadData(field="words", found=len(named), expected=f"{width} columns, as in the first record")
    return [column for _, column in named]

"""CoNLL's columns: what is read is written again, byte for byte where a single space separates."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bertcli.errors import BadData
from bertcli.formats.conll import read, write
from bertcli.lines import Lines, Source
from bertcli.records import Tagging, checker
from bertcli.schemes import SCHEMES, entities

Records = list[dict[str, Any]]


def lines(data: str | bytes, **options: Any) -> Lines:
    return Lines(Source(io.BytesIO(data.encode() if isinstance(data, str) else data), "in"), **options)


def rows(data: str | bytes, **options: Any) -> Records:
    return list(read(lines(data), **options))


TWO = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects\tVBZ  B-VP \tO

Peter NNP B-NP B-PER
\t
-DOCSTART- -X- O O

\u00a0 NN B-NP O
"""


def test_a_record_is_a_sentence() -> None:
    assert rows(TWO) == [
        {
            "id": "0",
            "words": ["EU", "rejects"],
            "labels": ["B-ORG", "O"],
            "columns": [["NNP", "VBZ"], ["B-NP", "B-VP"]],
            "document": "0",
        },
        {"id": "1", "words": ["Peter"], "labels": ["B-PER"], "columns": [["NNP"], ["B-NP"]], "document": "0"},
        {"id": "2", "words": ["\u00a0"], "labels": ["O"], "columns": [["NN"], ["B-NP"]], "document": "1"},
    ]


def test_a_record_is_a_document() -> None:
    found = rows(TWO, documents=True)
    assert [(one["id"], one["words"], one["sentences"], one["document"]) for one in found] == [
        ("0", ["EU", "rejects", "Peter"], [0, 2], "0"),
        ("1", ["\u00a0"], [0], "1"),
    ]
    assert found[0]["columns"] == [["NNP", "VBZ", "NNP"], ["B-NP", "B-VP", "B-NP"]]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("a\nb\n\n\nc", [{"words": ["a", "b"]}, {"words": ["c"]}]),
        ("\ufeffa O\r\n\r\nb O\r\n", [{"words": ["a"], "labels": ["O"]}, {"words": ["b"], "labels": ["O"]}]),
        ("a 1 2 3 O\n", [{"words": ["a"], "labels": ["O"], "columns": [["1"], ["2"], ["3"]]}]),
        # What comes before the first border is a document without a number; one without words is none.
        (
            "a O\n-DOCSTART-\n-DOCSTART- O\n\nb O\n\n-DOCSTART-",
            [{"words": ["a"], "labels": ["O"]}, {"words": ["b"], "labels": ["O"], "document": "1"}],
        ),
    ],
)
def test_layouts(data: str, expected: Records) -> None:
    assert rows(data) == [{"id": str(index)} | record for index, record in enumerate(expected)]


def test_a_record_comes_out_when_its_sentence_has_ended() -> None:
    given = lines("a O\n\nb O\nc\n")
    assert next(read(given))["words"] == ["a"]
    assert given.number == 2


BAD = [
    ("a O\n\nb\nc O\n", "in:3: found 1, expected 2 columns, as in the first row"),
    ("a O\nb X O\n", "in:2: found 3, expected 2 columns, as in the first row"),
    ("1 a b c d O\n", "in:1: found 6, expected at most 5 columns"),
    (b"a O\ncaf\xe9 O\n", "in:2: not UTF-8: byte 0xe9 at offset 3 of the line"),
]


@pytest.mark.parametrize(("data", "said"), BAD)
def test_a_bad_row_is_named(data: str | bytes, said: str) -> None:
    with pytest.raises(BadData) as error:
        rows(data)
    assert str(error.value) == said


@pytest.mark.parametrize("documents", [False, True])
def test_a_sentence_with_a_bad_row_is_skipped(documents: bool) -> None:
    given = lines("a O\nb\nc O\n\nd O\n\ne\n", on_error="skip")
    assert [record["words"] for record in read(given, documents=documents)] == [["d"]]
    assert [said.split(":")[1] for said in given.skipped] == ["2", "7"]


# -- schemes --------------------------------------------------------------------------------------------------------


def test_labels_are_spelled_anew() -> None:
    given = "a I-PER\nb I-PER\nc B-PER\nd O\ne I-LOC\nf I-PER\n"
    expected = {
        "IOB1": ["I-PER", "I-PER", "B-PER", "O", "I-LOC", "I-PER"],
        "IOB2": ["B-PER", "I-PER", "B-PER", "O", "B-LOC", "B-PER"],
        "BIOES": ["B-PER", "E-PER", "S-PER", "O", "S-LOC", "S-PER"],
    }
    assert {scheme: rows(given, scheme=scheme)[0]["labels"] for scheme in SCHEMES} == expected
    assert rows("a\n", scheme="IOB2") == [{"id": "0", "words": ["a"]}]


def test_parts_of_speech_are_no_scheme() -> None:
    with pytest.raises(BadData, match=r"^in:2: field 'labels': found 'NN', expected O, or one of B I E S and a type"):
        rows("a O\nb NN\n", scheme="IOB2")


# -- round trips ----------------------------------------------------------------------------------------------------

COLUMN = st.text(st.characters(exclude_characters=" \t\n\r", exclude_categories=["Cs"]), min_size=1, max_size=3)


@st.composite
def records(draw: st.DrawFn) -> Records:
    """Returns what a file gives: sentences of one layout, with borders from the first or from a later one on."""
    width = draw(st.integers(0, 3))
    found, document, number = [], None, 0
    for index in range(draw(st.integers(0, 6))):
        if draw(st.booleans()):
            number += bool(index) and (found[-1].get("document") == document)
            document = str(number)
        words = draw(st.lists(COLUMN, min_size=1, max_size=4))
        columns = [draw(st.lists(COLUMN, min_size=len(words), max_size=len(words))) for _ in range(width)]
        record: dict[str, Any] = {"id": str(index), "words": words}
        if columns:
            record["labels"] = columns.pop()
        if columns:
            record["columns"] = columns
        found.append(record if document is None else {**record, "document": document})
    return found


@given(records())
def test_what_is_written_is_read_again(sentences: Records) -> None:
    data = b"".join(write(sentences))
    assert rows(data) == sentences
    documents = rows(data, documents=True)
    assert rows(b"".join(write(documents)), documents=True) == documents
    assert [word for record in documents for word in record["words"]] == [w for s in sentences for w in s["words"]]
    for record in documents:
        checker(Tagging)(record)


@pytest.mark.parametrize("documents", [False, True])
@pytest.mark.parametrize("name", ["train.txt", "valid.txt", "test.txt", "eng.testb-iob1"])
def test_official_files(shared: Path, name: str, documents: bool) -> None:
    data = zstandard.ZstdDecompressor().stream_reader((shared / "conll2003" / f"{name}.zst").open("rb")).read()
    found = rows(data, documents=documents)
    # The IOB1 file has each border behind its document, the last one too, which begins nothing.
    assert b"".join(write(found)) == data.removesuffix(b"-DOCSTART- -X- -X- O")
    assert (
        len(found)
        == {
            "train.txt": (14041, 946),
            "valid.txt": (3250, 216),
            "test.txt": (3453, 231),
            "eng.testb-iob1": (3453, 231),
        }[name][documents]
    )


def test_both_spellings_of_the_official_test_set_hold_the_same_entities(shared: Path) -> None:
    def labels(name: str, scheme: str) -> Iterator[list[str]]:
        with (shared / "conll2003" / name).open("rb") as file:
            for record in read(Lines(Source(file, name)), scheme=scheme):  # type: ignore[arg-type]
                yield record["labels"]

    for scheme in SCHEMES:
        first, second = list(labels("test.txt.zst", scheme)), list(labels("eng.testb-iob1.zst", scheme))
        assert first == second
        assert sum(len(entities(each)) for each in first) == 5648


# -- write ----------------------------------------------------------------------------------------------------------


def test_the_prediction_stands_last() -> None:
    record = {**rows(TWO)[0], "prediction": ["B-PER", "O"], "details": {}}
    expected = b"-DOCSTART- -X- -X- O O\n\nEU NNP B-NP B-ORG B-PER\nrejects VBZ B-VP O O\n\n"
    assert b"".join(write([record])) == expected
    assert b"".join(write([{"words": ["a"], "prediction": ["O"]}])) == b"a O\n\n"


def test_a_word_that_begins_like_a_bom_is_kept() -> None:
    record = {"id": "0", "words": ["\ufeffa"]}
    assert rows(b"".join(write([record]))) == [record]


def test_documents_of_several_files_stay_apart() -> None:
    both = [*rows("a O\n", documents=True), *rows("b O\n", documents=True)]
    assert b"".join(write(both)) == b"a O\n\n-DOCSTART- O\n\nb O\n\n"
    assert b"".join(write([*rows(TWO)[2:], *rows("b 1 2 O\n")])).count(b"-DOCSTART-") == 2


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"words": ["a b"]}, "'words': found 'a b', expected a string that is not empty and has no white space"),
        ({"words": ["-DOCSTART-"]}, "'words': found '-DOCSTART-', expected a word"),
        ({"words": ["a"], "labels": []}, "'labels': found 0, expected 1 of them, one a word"),
        ({"words": ["a"], "prediction": ["O", "O"]}, "'prediction': found 2, expected 1 of them, one a word"),
        ({"words": ["a"], "prediction": "O"}, "'prediction': found 'O', expected 1 of them, one a word"),
        ({"words": ["a"], "columns": [[""]]}, "'columns': found '', expected a string that is not empty"),
        ({"words": ["a"], "labels": None, "text": "a"}, "'words': found 1, expected 2 columns, as in the first record"),
        ({"text": "a"}, "'words': found nothing, expected a list of strings"),
        (
            {"words": ["a", "b"], "labels": ["O", "O"], "sentences": [0, 2]},
            "'sentences': found '[0, 2]', expected the rising indices of each sentence's first word",
        ),
    ],
)
def test_what_has_no_rows_is_named(record: dict[str, Any], said: str) -> None:
    good = {"words": ["a"], "labels": ["O"]}
    with pytest.raises(BadData) as error:
        list(write([good, record]))
    assert str(error.value).startswith(f"field {said}")

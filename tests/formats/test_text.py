"""Plain text to documents."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.formats import text
from bertcli.lines import Lines, Source

TEXT = b"\n  One. Two.\r\nThree.\n\n \t \nFour.\n"

words = st.text("ab.é ", min_size=1, max_size=6).map(str.strip).filter(bool)


def documents(data: bytes, **options: object) -> list[dict[str, object]]:
    return list(text.documents(Lines(Source(io.BytesIO(data), "in")), **options))  # type: ignore[arg-type]


@given(st.lists(st.lists(words, min_size=1, max_size=4), max_size=5), st.integers(1, 3), st.booleans())
def test_blank_lines_part_documents_and_lines_sentences(corpus: list[list[str]], blanks: int, has_end: bool) -> None:
    data = ("\n" * (blanks + 1)).join("\n".join(sentences) for sentences in corpus) + "\n" * has_end
    expected = [{"id": str(n), "sentences": sentences} for n, sentences in enumerate(corpus)]
    assert documents(data.encode(), split=str.splitlines) == expected


def test_what_ends_a_document() -> None:
    assert [document["text"] for document in documents(TEXT)] == ["One. Two.\nThree.", "Four."]
    assert [document["text"] for document in documents(TEXT, border="line")] == [
        "One. Two.",
        "Three.",
        "Four.",
    ]
    assert [document["text"] for document in documents(TEXT, border="file")] == ["One. Two.\nThree.\n\n\nFour."]
    for border in ("blank-line", "file", "line"):
        assert documents(b"\n \n", border=border) == []


def test_only_one_document_is_held() -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"A sentence.\n\n"

    stream = text.documents(Lines(Source(Endless(), "in")))  # type: ignore[arg-type]
    assert [next(stream)["id"] for _ in range(3)] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [{"sentences": ["One. Two.", "Three."]}, {"sentences": ["Four."]}]),
        ("--split rules", [{"sentences": ["One.", "Two.", "Three."]}, {"sentences": ["Four."]}]),
        ("--document file", [{"sentences": ["One. Two.", "Three.", "Four."]}]),
        ("--document line", [{"text": "One. Two."}, {"text": "Three."}, {"text": "Four."}]),
        (
            "--document line --split rules",
            [{"sentences": ["One.", "Two."]}, {"sentences": ["Three."]}, {"sentences": ["Four."]}],
        ),
        (
            "--document line --split lines",
            [{"sentences": ["One. Two."]}, {"sentences": ["Three."]}, {"sentences": ["Four."]}],
        ),
    ],
)
def test_options(invoke: Callable[..., Result], options: str, expected: list[dict[str, object]]) -> None:
    result = invoke("read", "text", *options.split(), stdin=TEXT)
    numbered = [{"id": str(n), **document} for n, document in enumerate(expected)]
    assert (result.status, result.records, result.err) == (0, numbered, "")


def test_several_files_give_their_names_to_the_ids(shell: Callable[..., Result]) -> None:
    result = shell("printf 'a\\n\\nb\\n' > x.txt; printf 'c\\n' | bertcli read text --document line x.txt - x.txt")
    assert [record["id"] for record in result.records] == [
        "x.txt:0",
        "x.txt:1",
        "<stdin>:0",
        "x.txt:0",
        "x.txt:1",
    ]


def test_ids_do_not_depend_on_where_the_files_lie(shell: Callable[..., Result]) -> None:
    make = "mkdir -p one/a one/b; echo x > one/a/x.txt; echo y > one/b/x.txt; cp -r one two; "
    for files in ("one/a/x.txt one/b/x.txt", "$PWD/two/a/x.txt two/../two/b/x.txt"):
        records = shell(f"{make}bertcli read text {files}").records
        assert [record["id"] for record in records] == ["a/x.txt:0", "b/x.txt:0"]


def test_more_files_than_a_process_may_hold_open(shell: Callable[..., Result]) -> None:
    line = "ulimit -n 40; for n in {1..90}; do echo $n > $n; done; bertcli read text --document file {1..90}"
    assert [record["sentences"] for record in shell(line).records] == [[str(n)] for n in range(1, 91)]


def test_a_missing_file_is_said_before_anything_is_written(shell: Callable[..., Result]) -> None:
    result = shell("echo a > a.txt; bertcli read text a.txt nowhere.txt")
    assert result == (66, b"", "bertcli read: nowhere.txt: No such file or directory\n")


def test_a_line_that_is_not_utf8(shell: Callable[..., Result]) -> None:
    make = "printf 'a\\nb\\xff\\nc\\n' > bad.txt; "
    stopped = shell(make + "bertcli read text bad.txt")
    said = "bad.txt:2: not UTF-8: byte 0xff at offset 1 of the line\n"
    assert (stopped.status, stopped.err) == (65, f"bertcli read: {said}")
    skipped = shell(make + "bertcli read text --on-error skip bad.txt")
    assert skipped == (
        0,
        b'{"id":"0","sentences":["a","c"]}\n',
        f"bad lines skipped: 1; the first: {said}",
    )

"""TriviaQA's layout, with pages made up here."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.errors import BadData, NoInput
from bertcli.formats.triviaqa import _answers, read
from bertcli.lines import Lines, Source
from bertcli.records import Span, checker

PAGES = {
    "Gans.txt": "  Die Gans  GROSSE STRAẞE und die Straße\n\n am Ende",
    "Fox.txt": "A fox lives in a den.\nIts tail is a brush.",
    "Late.txt": " ".join(f"word{number}" for number in range(399)) + " \u00a0 last one more",
    "Blank.txt": " \n",
}


def question(identity: str, names: list[str], value: str | None, *aliases: str) -> dict[str, Any]:
    pages = [{"Filename": name, "Title": name, "DocSource": "TagMe"} for name in names]
    asked = {"QuestionId": identity, "Question": "What?", "EntityPages": pages, "SearchResults": [{"Filename": "x"}]}
    folded = [alias.lower() for alias in aliases]
    answer = {"Value": value, "Aliases": list(aliases), "NormalizedAliases": folded, "NormalizedValue": "?"}
    return asked if value is None else {**asked, "Answer": answer}


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    (tmp_path / "wikipedia").mkdir()
    for name, text in PAGES.items():
        (tmp_path / "wikipedia" / name).write_bytes(text.encode())
    return tmp_path


def lines(*questions: Any, **options: Any) -> Lines:
    return Lines(Source(io.BytesIO(json.dumps({"Data": questions}).encode()), "in"), **options)


def rows(evidence: Path, *questions: Any, **options: Any) -> list[dict[str, Any]]:
    found = list(read(lines(*questions), evidence=evidence, **options))
    for row in found:
        checker(Span)(row)
    return found


def test_a_record_is_a_question_and_a_page_that_answers_it(evidence: Path) -> None:
    notes: list[str] = []
    asked = question(
        "q_1", ["Gans.txt", "Fox.txt", "Fox.txt", "Blank.txt"], "Brush", "Quill", "große  strasse", "GROßE"
    )
    found = rows(evidence, asked, question("q_2", ["Fox.txt"], "wolf"), note=notes.append)
    assert found == [
        {
            "id": "q_1--Gans.txt",
            "question": "What?",
            "context": PAGES["Gans.txt"],
            "answers": [{"text": "GROSSE", "start": 12}],
        },
        {
            "id": "q_1--Fox.txt",
            "question": "What?",
            "context": PAGES["Fox.txt"],
            "answers": [{"text": "brush", "start": 36}],
        },
    ]
    assert notes == ["in: 2 of 4 pages kept, the others without an answer in their first 400 words"]


def test_offsets_are_those_of_the_text_as_it_is_written(evidence: Path) -> None:
    for alias, text in (("grosse strasse", "GROSSE STRAẞE"), ("strasse am", None), ("Straße\n\n am", "Straße\n\n am")):
        found = rows(evidence, question("q", ["Gans.txt"], alias))
        assert [row["answers"][0]["text"] for row in found] == ([text] if text else [])
        for row in found:
            assert row["context"].startswith(text, row["answers"][0]["start"])


def test_the_context_is_the_first_words(evidence: Path) -> None:
    assert rows(evidence, question("q", ["Late.txt"], "more")) == []
    (found,) = rows(evidence, question("q", ["Late.txt"], "LAST"))
    assert found["context"] == PAGES["Late.txt"].removesuffix(" one more")
    (found,) = rows(evidence, question("q", ["Fox.txt"], "fox"), words=2)
    assert found["context"] == "A fox"


def test_without_an_answer_all_pages_come_out(evidence: Path) -> None:
    found = rows(evidence, question("q", ["Blank.txt", "Fox.txt"], None))
    assert [(row["id"], "answers" in row) for row in found] == [("q--Blank.txt", False), ("q--Fox.txt", False)]


def test_the_evidence_may_be_the_folder_of_the_pages(evidence: Path) -> None:
    asked = question("q", ["Fox.txt"], "fox")
    assert rows(evidence / "wikipedia", asked) == rows(evidence, asked)


def test_a_blank_file_has_no_questions(evidence: Path) -> None:
    assert list(read(Lines(Source(io.BytesIO(b"\n"), "in")), evidence=evidence)) == []


@given(st.text("aßİsſKẞ \n", max_size=12), st.text("aßisſkSs", min_size=1, max_size=3))
def test_an_answer_is_there_whatever_its_case(context: str, alias: str) -> None:
    found = _answers(context, [alias])
    assert bool(found) == (alias.casefold() in context.casefold())
    for answer in found:
        assert context.startswith(answer["text"], answer["start"])
        assert alias.casefold() in answer["text"].casefold()


def test_a_page_that_is_not_there_is_named(evidence: Path) -> None:
    with pytest.raises(NoInput) as error:
        rows(evidence, question("q", ["Wolf.txt"], "wolf"))
    assert str(error.value) == f"{evidence / 'wikipedia' / 'Wolf.txt'}: No such file or directory"


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            {**question("a", [], "a"), "EntityPages": None},
            "in: field 'Data[1].EntityPages': found nothing, expected a list",
        ),
        (
            {**question("a", ["Fox.txt"], "a"), "Question": 1},
            "in: field 'Data[1].Question': found 1, expected a string",
        ),
        (
            {**question("a", ["Fox.txt"], "a"), "Answer": {"Value": "a", "Aliases": [1]}},
            "in: field 'Data[1].Answer.Aliases[0]': found 1, expected a string",
        ),
        (question("a", ["Fox.txt", "bad.txt"], "a"), "{evidence}/wikipedia/bad.txt: not UTF-8: byte 0xe9 at offset 3"),
        *(
            (
                question("a", [name], "a"),
                f"in: field 'Data[1].EntityPages[0].Filename': found {name!r}, expected a file of the evidence",
            )
            for name in ("../secret.txt", "/etc/passwd", "a/../../b")
        ),
    ],
)
def test_what_is_not_as_it_should_be_has_a_place(evidence: Path, bad: dict[str, Any], said: str) -> None:
    (evidence / "wikipedia" / "bad.txt").write_bytes(b"caf\xe9")
    good = question("q", ["Fox.txt"], "fox")
    with pytest.raises(BadData) as error:
        rows(evidence, good, bad)
    assert str(error.value) == said.format(evidence=evidence)
    skipping = lines(good, bad, good, on_error="skip")
    assert len(list(read(skipping, evidence=evidence))) == 2
    assert skipping.skipped == [str(error.value)]

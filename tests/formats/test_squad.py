"""SQuAD's files, real and broken, and those that its scripts read."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertcli.errors import BadData
from bertcli.formats import squad
from bertcli.lines import Lines, Source
from bertcli.records import Span, checker

CONTEXT = "A cat sat; the cat ate."


def lines(data: Any, **options: Any) -> Lines:
    content = data if isinstance(data, bytes) else json.dumps(data, indent=1).encode()
    return Lines(Source(io.BytesIO(content), "in"), **options)


def rows(data: Any, **options: Any) -> list[dict[str, Any]]:
    return list(squad.read(lines(data, **options)))


def tree(*questions: dict[str, Any], context: Any = CONTEXT) -> dict[str, Any]:
    """Returns a file in which a paragraph and an article come before the questions'."""
    other = [question("0"), question("1")]
    paragraphs = [{"context": "Nothing.", "qas": other[:1]}, {"context": context, "qas": list(questions)}]
    return {
        "version": "v2.0",
        "data": [{"title": "One", "paragraphs": [{"context": "", "qas": other[1:]}]}, {"paragraphs": paragraphs}],
    }


def question(identity: Any, **more: Any) -> dict[str, Any]:
    return {"id": identity, "question": "Who?", **more}


def answers(*found: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"text": text, "answer_start": start} for text, start in found]


# -- read -----------------------------------------------------------------------------------------------------------


def test_both_versions_and_test_files() -> None:
    given = tree(
        question("a", answers=answers(("cat", 2), ("A cat", 0))),
        question("b", answers=[], is_impossible=True, plausible_answers=answers(("cat", 2))),
        question("c", answers=answers(("cat", 2)), is_impossible=False),
        question("d"),
    )
    found = {row["id"]: row for row in rows(given)}
    assert list(found) == ["1", "0", "a", "b", "c", "d"]
    assert found["a"] == {
        "id": "a",
        "question": "Who?",
        "context": CONTEXT,
        "answers": [{"text": "cat", "start": 2}, {"text": "A cat", "start": 0}],
    }
    assert found["b"]["answers"] == []
    assert found["c"]["answers"] == [{"text": "cat", "start": 2}]
    assert found["d"] == {"id": "d", "question": "Who?", "context": CONTEXT}


@pytest.mark.parametrize(
    ("text", "given", "start"),
    [
        ("cat", 15, 15),
        ("cat", 13, 15),  # the nearest, before or behind
        ("cat", 3, 2),
        ("cat", -1, 2),
        ("cat", 999, 15),
        ("Cat", 15, 15),  # nowhere: it stays as it is
        ("dog", -1, -1),
        ("", 4, 4),
    ],
)
def test_an_answer_stands_where_it_says_or_nearby(text: str, given: int, start: int) -> None:
    assert rows(tree(question("a", answers=answers((text, given)))))[2]["answers"] == [{"text": text, "start": start}]


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=2), st.integers(-3, 15))
def test_the_nearest_place_is_found(context: str, text: str, given: int) -> None:
    places = [place for place in range(len(context)) if context.startswith(text, place)]
    (found,) = rows(tree(question("a", answers=answers((text, given))), context=context))[2]["answers"]
    expected = min((abs(place - given) for place in places), default=0)
    assert abs(found["start"] - given) == expected
    assert found["start"] in places or not places


@pytest.mark.parametrize("blank", [b"", b" \n\r\n", b"\xef\xbb\xbf\n"])
def test_a_blank_file_has_no_questions(blank: bytes) -> None:
    assert rows(blank) == []
    assert squad.predictions(lines(blank)) == {}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            b'{"data": [\n{"paragraphs": ]}',
            "in:2: not a JSON document (unexpected character, expected a JSON value at column 16)",
        ),
        (b'{"data":\n "caf\xe9"}', "in:2: not UTF-8: byte 0xe9 at offset 5 of the line"),
        (b"[" * 2000, "in:1: not a JSON document ("),
        (b"[1]", "in: found a list, expected an object"),
        ({"Data": []}, "in: field 'data': found nothing, expected a list"),
        ({"data": [{}]}, "in: field 'data[0].paragraphs': found nothing, expected a list"),
        ({"data": [7]}, "in: field 'data[0]': found 7, expected an object"),
        (tree(question(7)), "in: field 'data[1].paragraphs[1].qas[0].id': found 7, expected a string"),
        (tree({"id": "a"}), "in: field 'data[1].paragraphs[1].qas[0].question': found nothing, expected a string"),
        (
            tree(question("a"), context=None),
            "in: field 'data[1].paragraphs[1].context': found nothing, expected a string",
        ),
        (
            tree(question("a"), question("b", answers=[{"text": "cat"}])),
            "in: field 'data[1].paragraphs[1].qas[1].answers[0].answer_start': found nothing, expected an integer",
        ),
        (
            tree(question("a", answers="cat")),
            "in: field 'data[1].paragraphs[1].qas[0].answers': found 'cat', expected a list",
        ),
        (
            tree(question("a", is_impossible="no")),
            "in: field 'data[1].paragraphs[1].qas[0].is_impossible': found 'no', expected true or false",
        ),
        (
            tree(question("a"), question("a")),
            "in: field 'data[1].paragraphs[1].qas[1].id': found 'a', expected an id that no other question has",
        ),
    ],
)
def test_what_is_not_as_it_should_be_has_a_place(bad: Any, said: str) -> None:
    with pytest.raises(BadData) as error:
        rows(bad)
    assert str(error.value).startswith(said)


def test_bad_questions_can_be_skipped() -> None:
    given = lines(tree(question("a"), question(7), question("a"), question("b")), on_error="skip")
    assert [row["id"] for row in squad.read(given)] == ["1", "0", "a", "b"]
    assert [said.split("'")[1] for said in given.skipped] == [
        "data[1].paragraphs[1].qas[1].id",
        "data[1].paragraphs[1].qas[2].id",
    ]


@pytest.mark.parametrize(
    ("name", "count", "unanswerable"),
    [
        ("dev-v1.1", 10570, 0),
        ("dev-v2.0", 11873, 5945),
        ("split-train", 11972, 0),
        ("split-dev-v2", 2239, 1224),
        ("xquad.en", 1190, 0),
        ("xquad.zh", 1190, 0),
    ],
)
def test_official_files(shared: Path, name: str, count: int, unanswerable: int) -> None:
    with (shared / "squad" / f"{name}.json.zst").open("rb", buffering=0) as file:
        found = list(squad.read(Lines(Source(file, name))))  # type: ignore[arg-type]
    assert len({row["id"] for row in found}) == len(found) == count
    assert sum(row["answers"] == [] for row in found) == unanswerable
    for row in found:
        checker(Span)(row)
        assert all(row["context"].startswith(each["text"], each["start"]) for each in row["answers"])


# -- predictions ----------------------------------------------------------------------------------------------------


def test_published_predictions() -> None:
    assert squad.predictions(lines({"a": "a cat", "b": ""})) == {"a": "a cat", "b": ""}
    for bad, said in (
        (["a"], "in: found a list, expected an object"),
        ({"a": 1}, "in: field 'a': found 1, expected a"),
    ):
        with pytest.raises(BadData) as error:
            squad.predictions(lines(bad))
        assert str(error.value).startswith(said)


# -- write ----------------------------------------------------------------------------------------------------------


def written(write: Callable[..., Any], *records: dict[str, Any]) -> Any:
    return json.loads(b"".join(write(records)))


def answered(identity: str, prediction: str, *nbest: tuple[str, float], **details: float) -> dict[str, Any]:
    listed = [{"text": text, "start": 0, "end": 1, "score": score, "probability": 0.5} for text, score in nbest]
    return {"id": identity, "prediction": prediction, "details": {**details, "nbest": listed}}


def test_every_id_is_written_once() -> None:
    records = [{"id": "b", "prediction": "Zürich"}, {"id": 7, "prediction": "", "answers": [{"text": "x", "start": 0}]}]
    assert b"".join(squad.write(records)) == '{\n    "b": "Zürich",\n    "7": ""\n}\n'.encode()
    assert list(written(squad.write, *records)) == ["b", "7"]
    assert written(squad.write) == {}


def test_where_nothing_was_predicted_the_right_answer_stands_in() -> None:
    first = tree(question("a", answers=answers(("cat", 2), ("A cat", 0))), question("b", is_impossible=True))
    assert written(squad.write, *rows(first)[2:]) == {"a": "cat", "b": ""}


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=5))
def test_what_is_written_is_read_again(given: dict[str, str]) -> None:
    records = [{"id": identity, "prediction": prediction} for identity, prediction in given.items()]
    assert squad.predictions(lines(b"".join(squad.write(records)))) == given


def test_nbest_is_a_distribution_with_the_answer_in_it() -> None:
    records = [
        answered("a", "", ("cat", 2.0), ("dog", 1.0), null_score=3.0),
        answered("b", "", ("cat", 2.0), ("", 1.0), null_score=1.0),
        answered("c", "cat", ("cat", 1000.0), ("dog", -1000.0), null_score=2000.0),
        answered("d", "dog"),
    ]
    found = written(squad.write_nbest, *records)
    texts = {identity: [each["text"] for each in best] for identity, best in found.items()}
    assert texts == {"a": ["", "cat", "dog"], "b": ["cat", ""], "c": ["cat", "dog"], "d": ["empty"]}
    assert [each["probability"] for each in found["a"]] == pytest.approx([0.66524, 0.24473, 0.09003], abs=1e-5)
    assert found["c"][0] == {"text": "cat", "probability": 1.0, "score": 1000.0}
    for best in found.values():
        assert sum(each["probability"] for each in best) == pytest.approx(1)


def test_odds_are_the_lead_of_no_answer() -> None:
    records = [answered("a", "", null_score=3.5, score=2.0), answered("b", "cat", null_score=-1, score=4)]
    assert written(squad.write_odds, *records) == {"a": 1.5, "b": -5.0}


@pytest.mark.parametrize("write", [squad.write, squad.write_nbest, squad.write_odds])
def test_an_id_that_comes_twice_or_lacks(write: Callable[..., Any]) -> None:
    good = answered("a", "", ("cat", 2.0), null_score=3.0, score=2.0)
    for bad, said in (
        (good, "found 'a', expected a question's id, which no other record has"),
        ({**good, "id": None}, "found nothing, expected a question's id, which no other record has"),
    ):
        with pytest.raises(BadData, match=f"^field 'id': {said}$"):
            list(write([good, bad]))


@pytest.mark.parametrize(
    ("write", "record", "said"),
    [
        (squad.write, {}, "'prediction': found nothing, expected a string"),
        (squad.write, {"prediction": 3}, "'prediction': found 3, expected a string"),
        (
            squad.write_nbest,
            {"prediction": "a"},
            "'details.nbest': found nothing, expected a list, as `predict --nbest`",
        ),
        (squad.write_nbest, {"details": {}}, "'details.nbest': found nothing, expected a list, as `predict --nbest`"),
        (
            squad.write_nbest,
            {"details": {"nbest": [{"text": "a"}]}},
            "'details.nbest.score': found nothing, expected a number, as predict makes it",
        ),
        (squad.write_odds, {"details": {"score": 1}}, "'details.null_score': found nothing, expected a number"),
        (squad.write_odds, {"details": []}, "'details.null_score': found nothing, expected a number"),
    ],
)
def test_what_lacks_is_named(write: Callable[..., Any], record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as error:
        list(write([{"id": "a", **record}]))
    assert str(error.value).startswith(f"field {said}")


def test_nothing_comes_out_before_the_input_has_ended_well() -> None:
    with pytest.raises(BadData):
        next(squad.write([{"id": "a", "prediction": "x"}, {"id": "b"}]))

"""SQuAD's published figures to the last digit, and its two rules as told here once more."""

from __future__ import annotations

import collections
import json
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.formats import squad
from bertcli.lines import Lines, Source
from bertcli.metrics.span import best_threshold, observe, score

# -- the official rules, in the words of the scripts ----------------------------------------------------------------


def normalize(text: str) -> str:
    text = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def f1(gold: str, said: str, version: int) -> float:
    gold_tokens, said_tokens = normalize(gold).split(), normalize(said).split()
    if version == 2 and (not gold_tokens or not said_tokens):
        return int(gold_tokens == said_tokens)
    common = sum((collections.Counter(gold_tokens) & collections.Counter(said_tokens)).values())
    if common == 0:
        return 0
    precision, recall = common / len(said_tokens), common / len(gold_tokens)
    return 2 * precision * recall / (precision + recall)


def marks(record: dict[str, Any], said: str, version: int) -> tuple[int, float]:
    golds = [answer["text"] for answer in record["answers"]]
    if version == 2:
        golds = [gold for gold in golds if normalize(gold)] or [""]
    return max(int(normalize(gold) == normalize(said)) for gold in golds), max(
        f1(gold, said, version) for gold in golds
    )


def official(records: list[dict[str, Any]], version: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    both = [(bool(record["answers"]), *marks(record, record["prediction"], version)) for record in records]
    for name, chosen in (
        ("", both),
        ("has_answer_", [each for each in both if each[0]]),
        ("no_answer_", [each for each in both if not each[0]]),
    ):
        if chosen and (version == 2 or not name):
            found[f"{name}exact"] = 100.0 * sum(each[1] for each in chosen) / len(chosen)
            found[f"{name}f1"] = 100.0 * sum(each[2] for each in chosen) / len(chosen)
        if version == 2 or not name:
            found[f"{name}total"] = len(chosen)
    return found


def find_best_thresh(records: list[dict[str, Any]], kind: int) -> tuple[float, float]:
    """Returns the best sum in percent and its threshold; kind is 0 for exact, 1 for F1."""
    uncovered = {n: r["context"][r["details"]["start"] : r["details"]["end"]] for n, r in enumerate(records)}
    na_probs = {n: r["details"]["null_score"] - r["details"]["score"] for n, r in enumerate(records)}
    cur_score = best_score = float(sum(not record["answers"] for record in records))
    best_thresh = 0.0
    for number in sorted(na_probs, key=lambda n: na_probs[n]):
        if records[number]["answers"]:
            cur_score += marks(records[number], uncovered[number], 2)[kind]
        elif uncovered[number]:
            cur_score -= 1
        if cur_score > best_score:
            best_score, best_thresh = cur_score, na_probs[number]
    return 100.0 * best_score / len(records), best_thresh


# -- parity ---------------------------------------------------------------------------------------------------------

TEXT = st.lists(st.sampled_from(["a", "An", "the", "cat", "Cat.", "dog", "theatre", "!", "-", "é"]), max_size=4)
WORDS = TEXT.map(" ".join)


@st.composite
def records(draw: st.DrawFn, unanswerable: bool) -> list[dict[str, Any]]:
    found = []
    for number in range(draw(st.integers(1, 8))):
        context = draw(WORDS)
        texts = draw(st.lists(WORDS, min_size=0 if unanswerable and number else 1 - unanswerable, max_size=3))
        texts = [] if unanswerable and not number else texts
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(context))] * 2)))
        scores = {name: draw(st.integers(-3, 3) | st.floats(-9, 9)) for name in ("score", "null_score")}
        found.append(
            {
                "context": context,
                "answers": [{"text": text, "start": 0} for text in texts],
                "prediction": draw(st.just("") | WORDS),
                "details": {"start": start, "end": end, **scores},
            }
        )
    return found


@given(records(unanswerable=False))
def test_version_1(given: list[dict[str, Any]]) -> None:
    assert score(given) == pytest.approx(official(given, 1), abs=1e-9)


@given(records(unanswerable=True))
def test_version_2(given: list[dict[str, Any]]) -> None:
    found = score(given)
    for name, kind in (("exact", 0), ("f1", 1)):
        best = found.pop(f"best_{name}"), found.pop(f"best_{name}_threshold")
        assert best == pytest.approx(find_best_thresh(given, kind), abs=1e-9)
    assert found == pytest.approx(official(given, 2), abs=1e-9)


def test_the_versions_differ_about_what_is_nothing() -> None:
    articles = {"answers": [{"text": "The", "start": 0}], "prediction": "a!"}
    assert score([articles]) == {"exact": 100.0, "f1": 0.0, "total": 1}
    found = score([articles, {"answers": [], "prediction": ""}])
    assert (found["exact"], found["f1"], found["has_answer_f1"], found["no_answer_f1"]) == (100.0, 100.0, 100.0, 100.0)
    assert score([]) == {"total": 0}


PUBLISHED = [
    ("dev-v1.1", "predictions-v1.1-bert-ensemble", "86.206", "92.196"),
    ("dev-v2.0", "predictions-v2.0-bert-single", "78.742", "81.775"),
]


@pytest.mark.parametrize(("questions", "answers", "exact", "f1"), PUBLISHED)
def test_published_predictions(shared: Path, questions: str, answers: str, exact: str, f1: str) -> None:
    def lines(name: str) -> Lines:
        return Lines(Source((shared / "squad" / f"{name}.json.zst").open("rb", buffering=0), name))  # type: ignore[arg-type]

    given = squad.predictions(lines(answers))
    found = [{**record, "prediction": given[record["id"]]} for record in squad.read(lines(questions))]
    scores = score(found)
    assert (f"{scores['exact']:.3f}", f"{scores['f1']:.3f}") == (exact, f1)
    assert scores == pytest.approx(official(found, int(questions[5])), abs=1e-9)


# -- thresholds -----------------------------------------------------------------------------------------------------


def decided(given: list[dict[str, Any]], threshold: float) -> float:
    """Returns the F1 that predict's rule gives under a threshold."""
    said = []
    for record in given:
        details = record["details"]
        is_none = details["null_score"] - details["score"] > threshold
        said.append({**record, "prediction": "" if is_none else record["context"][details["start"] : details["end"]]})
    return float(score(said)["f1"])


@settings(max_examples=40)
@given(records(unanswerable=True))
def test_no_threshold_is_better_than_the_fitted_one(given: list[dict[str, Any]]) -> None:
    leads = [record["details"]["null_score"] - record["details"]["score"] for record in given]
    fitted = decided(given, best_threshold(map(observe, given)))
    assert fitted == pytest.approx(max(decided(given, each) for each in [*leads, -99.0]), abs=1e-9)


def answered(lead: float, *answers: str) -> dict[str, Any]:
    right = [{"text": text, "start": 0} for text in answers]
    details = {"start": 0, "end": 3, "score": 0.0, "null_score": lead}
    return {"context": "cat", "answers": right, "prediction": "", "details": details}


def test_equal_leads_are_answered_together_and_silence_may_be_best() -> None:
    # The official walk stops between the two that no threshold parts, and has no threshold for silence but 0.
    equal = [answered(-1.0, "cat"), answered(-1.0), answered(-1.0)]
    found = score(equal)
    assert (found["best_f1"], found["best_f1_threshold"]) == (100.0, -1.0)
    assert -1.1 < best_threshold(map(observe, equal)) < -1.0
    silent = score([answered(-1.0)])
    assert (silent["best_f1"], silent["best_f1_threshold"]) == (100.0, 0.0)
    assert best_threshold([]) == 0.0


def test_best_figures_need_the_details_of_every_question() -> None:
    bare = {"answers": [], "prediction": ""}
    assert "best_f1" in score([answered(1.0), answered(2.0, "cat")])
    assert "best_f1" not in score([answered(1.0), bare])
    assert "best_f1" not in score([answered(1.0), {**answered(1.0), "context": None}])
    assert "best_f1" not in score([answered(1.0, "cat")]), "all have answers"
    with pytest.raises(BadData, match=r"^field 'details': found nothing, expected an object with start, end, score"):
        best_threshold([observe(bare)])


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"null_score": 1.0}, "'details.start': found nothing, expected an integer"),
        ({"null_score": 1.0, "start": 0, "end": 1.5}, "'details.end': found 1.5, expected an integer"),
        (
            {"null_score": "1", "start": 0, "end": 1},
            "'details.null_score': found '1', expected a number, as predict makes it",
        ),
        (
            {"null_score": 1, "start": 0, "end": 1},
            "'details.score': found nothing, expected a number, as predict makes it",
        ),
    ],
)
def test_what_does_not_fit_is_named(details: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as error:
        observe({"context": "cat", "answers": [], "prediction": "", "details": details})
    assert str(error.value) == f"field {said}"


def test_command(invoke: Callable[..., Result]) -> None:
    given = [answered(-2.0, "A cat", "dog") | {"prediction": "Cat!"}, answered(1.0)]
    lines = b"".join(orjson.dumps(each) + b"\n" for each in given)
    result = invoke("score", "span", stdin=lines)
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out) == {
        "exact": 100.0,
        "f1": 100.0,
        "total": 2,
        "has_answer_exact": 100.0,
        "has_answer_f1": 100.0,
        "has_answer_total": 1,
        "no_answer_exact": 100.0,
        "no_answer_f1": 100.0,
        "no_answer_total": 1,
        "best_exact": 100.0,
        "best_exact_threshold": -2.0,
        "best_f1": 100.0,
        "best_f1_threshold": -2.0,
    }
    said = "<stdin>:3: field 'answers': found nothing, expected a list of answers"
    bad = invoke("score", "span", stdin=lines + b'{"question": "a", "context": "b", "prediction": ""}\n')
    assert bad == (65, b"", f"bertcli score: {said}\n")

"""Parity with conlleval and seqeval, on real sentences and on labels that nobody would write."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.formats import conll
from bertcli.lines import Lines, Source
from bertcli.metrics.tagging import observe, score
from bertcli.schemes import converted

theirs = pytest.importorskip("conlleval", reason="conlleval is not installed")
others = pytest.importorskip("seqeval.metrics", reason="seqeval is not installed")

Sentences = list[list[tuple[str, str]]]  # (gold, predicted) of each word


def records(sentences: Sentences) -> list[dict[str, Any]]:
    return [{"labels": [g for g, _ in each], "prediction": [p for _, p in each]} for each in sentences]


def by_conlleval(sentences: Sentences) -> dict[str, Any]:
    """Returns conlleval's figures under our names; its precision is 1 where nothing was predicted, ours 0."""
    rows = [line for each in sentences for line in [*(f"word {g} {p}" for g, p in each), ""]]
    found = theirs.evaluate(rows)

    def figures(one: dict[str, Any]) -> dict[str, Any]:
        counts, scores = one["stats"], one["evals"]
        return {
            "precision": 100 * scores["prec"] if counts["pred"] else 0.0,
            "recall": 100 * scores["rec"],
            "f1": 100 * scores["f1"],
            "gold": counts["gold"],
            "predicted": counts["pred"],
            "correct": counts["correct"],
        }

    words = found["overall"]["tags"]["stats"]
    types = {name: figures(one) for name, one in found["slots"]["chunks"].items()}
    overall = figures(found["overall"]["chunks"])
    return {"accuracy": 100 * words["correct"] / words["gold"], **overall, "types": types, "words": words["gold"]}


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    for name, figure in expected.items():
        if name == "types":
            given = {kind: one for kind, one in figure.items() if one["gold"] or one["predicted"]}
            assert found["types"].keys() == given.keys()
            for kind, one in given.items():
                assert found["types"][kind] == pytest.approx(one, abs=1e-9)
        else:
            assert found[name] == pytest.approx(figure, abs=1e-9), name


def labels(letters: str, types: list[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just("O"), st.builds("{}-{}".format, st.sampled_from(letters), st.sampled_from(types)))


def sentences(letters: str, types: list[str]) -> st.SearchStrategy[Sentences]:
    word = st.tuples(labels(letters, types), labels(letters, types))
    return st.lists(st.lists(word, min_size=1, max_size=7), min_size=1, max_size=4)


@given(sentences("IB", ["X", "Y"]) | sentences("IBES", ["X", "Y", "X-Y"]))
def test_all_labels_equal_conlleval_and_seqeval(given: Sentences) -> None:
    found = score(records(given))
    if all(label == "O" for each in given for word in each for label in word):
        assert "f1" not in found
        return
    assert_equal(found, by_conlleval(given))
    gold, predicted = ([[word[side] for word in each] for each in given] for side in (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of figures that are not defined
        theirs = [
            100 * metric(gold, predicted)
            for metric in (others.precision_score, others.recall_score, others.f1_score, others.accuracy_score)
        ]
    assert [found[name] for name in ("precision", "recall", "f1", "accuracy")] == pytest.approx(theirs, abs=1e-9)


@given(st.lists(st.lists(st.tuples(*[st.sampled_from("OBI")] * 2), min_size=1, max_size=7), min_size=1, max_size=4))
def test_entities_without_types_equal_conlleval(given: Sentences) -> None:
    found = score(records(given))
    if "f1" in found:
        assert_equal(found, by_conlleval(given))


@pytest.mark.parametrize(("name", "scheme"), [("test.txt", "IOB2"), ("eng.testb-iob1", "IOB1"), ("test.txt", "BIOES")])
def test_real_sentences_with_corrupted_predictions(shared: Path, name: str, scheme: str) -> None:
    with (shared / "conll2003" / f"{name}.zst").open("rb", buffering=0) as file:
        lines = Lines(Source(file, name))  # type: ignore[arg-type]
        gold = [record["labels"] for record in conll.read(lines, scheme=scheme)]
    names, rng = sorted({label for each in gold for label in each}), random.Random(0)
    given = [[(g, rng.choice(names) if rng.random() < 0.1 else g) for g in each] for each in gold]
    found = score(records(given))
    assert found["scheme"] == scheme
    assert (found["words"], found["total"], found["gold"]) == (46435, 3453, 5648)
    assert 50 < found["f1"] < 90
    assert_equal(found, by_conlleval(given))
    right, said = ([[word[side] for word in each] for each in given] for side in (0, 1))
    assert found["f1"] == pytest.approx(100 * others.f1_score(right, said), abs=1e-9)


@given(sentences("IB", ["X", "Y"]))
def test_the_spelling_is_nothing_to_the_entities(given: Sentences) -> None:
    first = score(records(given))
    for scheme in ("IOB1", "IOB2", "BIOES"):
        again = [{side: converted(labels, scheme) for side, labels in record.items()} for record in records(given)]
        found = score(again)
        assert {key: found.get(key) for key in ("f1", "types")} == {key: first.get(key) for key in ("f1", "types")}


@pytest.mark.parametrize(
    ("gold", "scheme"),
    [
        ("B-X I-X O B-X", "IOB2"),
        ("I-X I-X B-X O", "IOB1"),
        ("B-X E-X S-X O", "BIOES"),
        ("B-X L-X U-X O", "BIOES"),
        ("B-X I-X O I-X", "mixed"),
        ("O O O O", None),
    ],
)
def test_the_scheme_is_told(gold: str, scheme: str | None) -> None:
    other = {"labels": ["O", "O"], "prediction": ["O", "I-Y"]}
    assert score([other, {"labels": gold.split(), "prediction": ["O", "B-X", "O", "O"]}])["scheme"] == scheme


@given(sentences("IB", ["X", "Y"]))
def test_a_document_is_its_sentences(given: Sentences) -> None:
    starts = [sum(map(len, given[:number])) for number in range(len(given))]
    (whole,) = records([[word for each in given for word in each]])
    expected = score(records(given)) | {"total": 1}
    assert score([whole | {"sentences": starts}]) == expected
    assert score([whole | {"sentences": None}]) == score([whole])


def test_parts_of_speech_have_their_accuracy() -> None:
    given = [[("NN", "NN"), ("VB", "NN")], [("-LRB-", "-LRB-"), ("NN", "NN")]]
    assert score(records(given)) == {
        "accuracy": 75.0,
        "labels": {
            "-LRB-": {"gold": 1, "predicted": 1, "correct": 1},
            "NN": {"gold": 2, "predicted": 3, "correct": 2},
            "VB": {"gold": 1, "predicted": 0, "correct": 0},
        },
        "words": 4,
        "total": 2,
    }


def test_nothing_to_count() -> None:
    assert score([]) == {"total": 0}
    assert score([{"labels": [], "prediction": []}]) == {"words": 0, "total": 1}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"prediction": ["O"]}, "'prediction': found 1, expected 2 labels, one a word"),
        ({"sentences": [1]}, "'sentences': found '[1]', expected the rising indices of each sentence's first word"),
        ({"sentences": [0, 3]}, "'sentences': found '[0, 3]', expected the rising indices"),
        ({"sentences": [0, 2, 1]}, "'sentences': found '[0, 2, 1]', expected the rising indices"),
        ({"sentences": [0, 0]}, "'sentences': found '[0, 0]', expected the rising indices"),
    ],
)
def test_what_does_not_fit_is_named(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as error:
        observe({"labels": ["O", "O"], "prediction": ["O", "O"], **bad})
    assert str(error.value).startswith(f"field {said}")


def test_command(invoke: Callable[..., Result]) -> None:
    lines = b'{"words": ["EU", "is"], "labels": ["B-ORG", "O"], "prediction": ["B-ORG", "B-LOC"]}\n'
    result = invoke("score", "tagging", stdin=lines)
    assert (result.status, result.err) == (0, "")
    counts = {"gold": 1, "predicted": 1, "correct": 1}
    assert result.records == [
        {
            "accuracy": 50.0,
            "precision": 50.0,
            "recall": 100.0,
            "f1": pytest.approx(200 / 3),
            **counts,
            "predicted": 2,
            "scheme": "IOB2",
            "types": {
                "LOC": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "gold": 0, "predicted": 1, "correct": 0},
                "ORG": {"precision": 100.0, "recall": 100.0, "f1": 100.0, **counts},
            },
            "words": 2,
            "total": 1,
        }
    ]
    said = "<stdin>:2: field 'labels': found nothing, expected a list of strings"
    bad = invoke("score", "tagging", stdin=lines + b'{"words": ["a"], "prediction": ["O"]}\n')
    assert bad == (65, b"", f"bertcli score: {said}\n")

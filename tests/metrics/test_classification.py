"""Parity with scikit-learn, and what it leaves to us."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.metrics.classification import score, summarize

peer = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")


def lists(labels: str) -> st.SearchStrategy[list[tuple[str, str]]]:
    label = st.sampled_from(labels)
    return st.lists(st.tuples(label, label), min_size=1, max_size=30)


@given(lists("01"))
def test_two_labels_equal_scikit_learn(observed: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*observed, strict=True)
    found = summarize(observed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = {
            "accuracy": peer.accuracy_score(gold, predicted),
            "matthews": peer.matthews_corrcoef(gold, predicted),
            "precision": peer.precision_score(gold, predicted, pos_label="1", zero_division=0),
            "recall": peer.recall_score(gold, predicted, pos_label="1", zero_division=0),
            "f1": peer.f1_score(gold, predicted, pos_label="1", zero_division=0),
        }
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert found["total"] == len(observed)
    assert not any(name.startswith("macro") for name in found)


@given(lists("abcd"))
def test_several_labels_equal_scikit_learn(observed: list[tuple[str, str]]) -> None:
    gold, predicted = zip(*observed, strict=True)
    names = sorted({*gold, *predicted})
    found = summarize(observed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        precision, recall, f1, count = peer.precision_recall_fscore_support(
            gold, predicted, labels=names, zero_division=0
        )
        assert found["matthews"] == pytest.approx(peer.matthews_corrcoef(gold, predicted), abs=1e-12)
    assert [found["labels"][name]["gold"] for name in names] == list(count)
    assert sum(label["predicted"] for label in found["labels"].values()) == len(observed)
    if len(names) > 1:
        means = [found[f"macro_{name}"] for name in ("precision", "recall", "f1")]
        assert means == pytest.approx([precision.mean(), recall.mean(), f1.mean()], abs=1e-12)
        assert "f1" not in found


def test_one_class_has_no_correlation() -> None:
    assert summarize([("1", "1"), ("0", "1")])["matthews"] == 0
    assert summarize([("1", "1")])["matthews"] == 0
    assert summarize([("0", "0")])["f1"] == 0


def test_the_positive_label_is_chosen() -> None:
    observed = [("entailment", "entailment"), ("entailment", "not"), ("not", "not")]
    assert "macro_f1" in summarize(observed)
    assert summarize(observed, positive="entailment")["recall"] == 0.5
    assert summarize(observed, positive="not")["recall"] == 1
    assert score({"label": gold, "prediction": said} for gold, said in observed) == summarize(observed)


def test_command(invoke: Callable[..., Result]) -> None:
    lines = b'{"label": "1", "prediction": "1"}\n{"label": "0", "prediction": "1", "more": 1}\n'
    result = invoke("score", "classification", "--positive", "0", stdin=lines)
    assert (result.status, result.err) == (0, "")
    assert result.records == [
        {
            "accuracy": 0.5,
            "matthews": 0.0,
            "precision": 0.0,
            "recall": 0.0,
            "f1": 0.0,
            "total": 2,
            "labels": {
                "0": {"gold": 1, "predicted": 0, "correct": 0},
                "1": {"gold": 1, "predicted": 2, "correct": 1},
            },
        }
    ]
    assert invoke("score", "classification").out == b'{"total":0}\n'


@pytest.mark.parametrize(("lacking", "kept"), [("label", "prediction"), ("prediction", "label")])
def test_a_record_that_lacks_a_side(invoke: Callable[..., Result], lacking: str, kept: str) -> None:
    lines = b'{"label": "1", "prediction": "1"}\n{"%b": "1"}\n' % kept.encode()
    said = f"<stdin>:2: field '{lacking}': found nothing, expected a string\n"
    assert invoke("score", "classification", stdin=lines) == (65, b"", f"bertcli score: {said}")
    skipped = invoke("score", "classification", "--on-error", "skip", stdin=lines)
    assert skipped.records[0]["total"] == 1
    assert (skipped.status, skipped.err) == (0, f"bad lines skipped: 1; the first: {said}")

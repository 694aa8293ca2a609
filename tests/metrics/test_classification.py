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


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b'{"prediction": "1"}', "'label': found nothing, expected one of label, labels"),
        (b'{"prediction": "1", "labels": ["1"]}', "'label': found nothing, expected a string, as is the prediction"),
        (b'{"prediction": ["1"], "label": "1"}', "'labels': found nothing, expected a list, as is the prediction"),
        (b'{"label": "1"}', "'prediction': found nothing, expected a string or a list of strings"),
    ],
)
def test_a_record_that_lacks_a_side(invoke: Callable[..., Result], bad: bytes, said: str) -> None:
    lines = b'{"label": "1", "prediction": "1"}\n%b\n' % bad
    said = f"<stdin>:2: field {said}\n"
    assert invoke("score", "classification", stdin=lines) == (65, b"", f"bertcli score: {said}")
    skipped = invoke("score", "classification", "--on-error", "skip", stdin=lines)
    assert skipped.records[0]["total"] == 1
    assert (skipped.status, skipped.err) == (0, f"bad lines skipped: 1; the first: {said}")


# -- several labels a text ------------------------------------------------------------------------------------------

SEVERAL = st.lists(st.sampled_from("abcd"), max_size=5)  # perhaps with one twice


@given(st.lists(st.tuples(SEVERAL, SEVERAL), min_size=1, max_size=20))
def test_several_labels_a_text_equal_scikit_learn(pairs: list[tuple[list[str], list[str]]]) -> None:
    found = score({"labels": gold, "prediction": predicted} for gold, predicted in pairs)
    names = sorted({label for pair in pairs for side in pair for label in side})
    gold, predicted = ([[int(name in pair[side]) for name in names] for pair in pairs] for side in (0, 1))
    assert found["accuracy"] == pytest.approx(sum(set(a) == set(b) for a, b in pairs) / len(pairs))
    assert [found["labels"][name]["gold"] for name in names] == [sum(row[n] for row in gold) for n in range(len(names))]
    for average in ("micro", "macro") if len(names) > 1 else ():  # of one column scikit-learn makes two classes
        given = peer.precision_recall_fscore_support(gold, predicted, average=average, zero_division=0)
        expected = dict(zip(("precision", "recall", "f1"), given[:3], strict=True))
        assert {name: found[f"{average}_{name}"] for name in expected} == pytest.approx(expected, abs=1e-12)
        assert found["accuracy"] == pytest.approx(peer.accuracy_score(gold, predicted), abs=1e-12)
    assert (found["total"], list(found["labels"])) == (len(pairs), names)
    assert not {"f1", "matthews"} & set(found)


def test_the_order_of_several_labels_is_nothing() -> None:
    assert score([{"labels": ["a", "b"], "prediction": ["b", "a", "b"]}])["accuracy"] == 1


def test_one_label_and_several_do_not_mix(invoke: Callable[..., Result]) -> None:
    lines = b'{"label": "1", "prediction": "1"}\n{"labels": ["1"], "prediction": ["1"]}\n'
    said = "field 'prediction': 1 record with one label, 1 with a list: it is to be the same in all"
    assert invoke("score", "classification", stdin=lines) == (65, b"", f"bertcli score: {said}\n")


@pytest.mark.parametrize("task", ["regression", "tagging", "span", "choice", "pretraining"])
def test_the_positive_label_is_one_of_classification(invoke: Callable[..., Result], task: str) -> None:
    result = invoke("score", task, "--positive", "1")
    assert (result.status, result.out) == (2, b"")
    assert f"--positive is an option of classification, not of {task}" in result.err

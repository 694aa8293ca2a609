"""Means over tokens, not over records; pairs only where there are pairs."""

from __future__ import annotations

import math
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.metrics.pretraining import observe, score


def record(gold: list[str], said: list[str], losses: list[float], **more: object) -> dict[str, object]:
    prediction = [[{"token": token, "probability": 0.5}, {"token": "x", "probability": 0.1}] for token in said]
    details: dict[str, object] = {"loss": sum(losses) / len(losses)} if losses else {}
    if "probability" in more:
        details["is_next_probability"] = more.pop("probability")
    return {"masked_tokens": gold, "prediction": prediction, "details": details, **more}


tokens = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.floats(0, 12)), max_size=6)


@given(st.lists(tokens, max_size=5))
def test_every_token_weighs_the_same(pairs: list[list[tuple[str, str, float]]]) -> None:
    records = [record([g for g, _, _ in pair], [s for _, s, _ in pair], [x for _, _, x in pair]) for pair in pairs]
    found, every = score(records), [token for pair in pairs for token in pair]
    assert (found["masked"], found["pairs"], found["total"]) == (len(every), 0, len(pairs))
    assert "nsp_accuracy" not in found
    if every:
        assert found["mlm_loss"] == pytest.approx(sum(loss for _, _, loss in every) / len(every))
        assert found["perplexity"] == pytest.approx(math.exp(found["mlm_loss"]))
        assert found["mlm_accuracy"] == sum(gold == said for gold, said, _ in every) / len(every)
    else:
        assert "mlm_loss" not in found


def test_next_sentences_count_where_truth_and_prediction_are_there() -> None:
    records = [
        record(["a"], ["a"], [1.0], is_next=True, probability=0.9),
        record(["a"], ["a"], [1.0], is_next=False, probability=0.6),
        record(["a"], ["a"], [1.0], is_next=False, probability=0.1),
        record(["a"], ["a"], [1.0], is_next=False),
        record(["a"], ["a"], [1.0], probability=0.9),
    ]
    found = score(records)
    assert (found["pairs"], found["nsp_accuracy"]) == (3, pytest.approx(2 / 3))


def whole(given: str, said: str, loss: float) -> dict[str, object]:
    """Returns what a left-to-right model says of a pair in which nothing is masked."""
    return {"tokens": given.split(), "prediction": [[{"token": token}] for token in said.split()]} | {
        "details": {"loss": loss}
    }


def test_of_a_left_to_right_model_every_token_but_the_first_counts() -> None:
    found = score([whole("[CLS] a b [SEP]", "a a [SEP]", 2.0), whole("[CLS] [SEP]", "b", 6.0)])
    assert found == {"lm_loss": 3.0, "perplexity": math.exp(3.0), "lm_accuracy": 0.5, "predicted": 4, "total": 2}
    both = score([whole("[CLS] a", "a", 1.0), record(["a"], ["b"], [2.0])])
    assert (both["lm_loss"], both["mlm_loss"], both["predicted"], both["masked"]) == (1.0, 2.0, 1, 1)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (
            record(["a", "b"], ["a"], [1.0]),
            "'prediction': found 1, expected 2 positions, as in masked_tokens",
        ),
        (whole("[CLS] a b", "a", 1.0), "'prediction': found 1, expected 2 positions, as in tokens"),
        (record(["a"], ["a"], []), "'details.loss': found nothing, expected a number"),
        (record(["a"], ["a"], [1.0]) | {"prediction": [[]]}, "'prediction': a position without a token"),
        (record(["a"], ["a"], [1.0]) | {"prediction": [["a"]]}, "'prediction': a position without a token"),
        (
            record(["a"], ["a"], [1.0], is_next=True, probability="high"),
            "'details.is_next_probability': found 'high', expected a number",
        ),
    ],
)
def test_what_does_not_fit_is_named(bad: dict[str, object], said: str) -> None:
    with pytest.raises(BadData) as error:
        observe(bad)
    assert str(error.value) == f"field {said}"


def test_a_loss_beyond_reason_still_ends_in_numbers() -> None:
    assert score([record(["a"], ["b"], [1e300])])["perplexity"] < math.inf


def test_command(invoke: Callable[..., Result]) -> None:
    good = orjson.dumps(record(["a", "b"], ["a", "a"], [0.5, 1.5], is_next=True, probability=0.5)) + b"\n"
    result = invoke("score", "pretraining", stdin=good)
    assert (result.status, result.err) == (0, "")
    assert result.records == [
        {
            "mlm_loss": 1.0,
            "perplexity": math.e,
            "mlm_accuracy": 0.5,
            "nsp_accuracy": 1.0,
            "masked": 2,
            "pairs": 1,
            "total": 1,
        }
    ]
    said = "<stdin>:2: field 'prediction': found nothing, expected a list of lists"
    bad = invoke("score", "pretraining", stdin=good + b'{"masked_tokens": ["a"]}\n')
    assert bad == (65, b"", f"bertcli score: {said}\n")
    assert invoke("score", "pretraining").records == [{"masked": 0, "pairs": 0, "total": 0}]

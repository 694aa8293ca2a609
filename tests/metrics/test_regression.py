"""Parity with scipy and scikit-learn, and numbers at the ends of a double's range."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.metrics.regression import observe, score, summarize

stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
peer = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")

TIED = st.integers(-2, 2).map(float)
WIDE = st.floats(-1e6, 1e6).filter(lambda number: number == 0 or abs(number) > 1e-3)


def pairs(numbers: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[float, float]]]:
    return st.lists(st.tuples(numbers, numbers), min_size=2, max_size=30)


@settings(max_examples=60)
@given(pairs(TIED) | pairs(WIDE), st.sampled_from([1.0, 1e150, 1e-150]))
def test_figures_equal_scipy(observed: list[tuple[float, float]], scale: float) -> None:
    gold, predicted = zip(*observed, strict=True)
    scaled = [(a * scale, b * scale) for a, b in observed]  # by which numbers that hardly differ may become one
    assume(all(len(set(column)) > 1 for column in zip(*scaled, strict=True)))
    found = summarize(scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            expected = stats.pearsonr(gold, predicted).statistic
        except stats.NearConstantInputWarning:
            assume(False)
    assert found["pearson"] == pytest.approx(expected, abs=1e-9)
    assert found["spearman"] == pytest.approx(stats.spearmanr(scaled).statistic, abs=1e-9)
    error = peer.mean_squared_error(gold, predicted) * scale * scale
    assert found["mse"] == pytest.approx(min(error, sys.float_info.max), rel=1e-9)
    assert found["mae"] == pytest.approx(peer.mean_absolute_error(gold, predicted) * scale, rel=1e-9)
    assert found["total"] == len(observed)


@given(pairs(st.floats(allow_nan=False, allow_infinity=False)))
def test_all_numbers_give_numbers(observed: list[tuple[float, float]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = summarize(observed)
    assert all(map(math.isfinite, found.values()))
    assert -1 <= found["pearson"] <= 1
    assert -1 <= found["spearman"] <= 1


@pytest.mark.parametrize(
    ("observed", "pearson", "spearman"),
    [
        ([(1.0, 5.0)], 0, 0),
        ([(0.1, 1.0), (0.1, 2.0), (0.1, 3.0)], 0, 0),
        ([(1.0, 0.1), (2.0, 0.1), (3.0, 0.1)], 0, 0),
        ([(0.0, 0.0), (0.0, 0.0)], 0, 0),
        ([(0.0, 1e308), (1.0, -1e308)], -1, -1),
        ([(1.0, 1e8), (2.0, 1e8 + 1), (3.0, 1e8 + 2)], 1, 1),
        ([(1.0, 5e-324), (2.0, 1e-323)], 1, 1),
        ([(1.0, 1.0), (2.0, 10.0), (3.0, 100.0)], 0.904194, 1),
    ],
)
def test_correlations(observed: list[tuple[float, float]], pearson: float, spearman: float) -> None:
    found = summarize(observed)
    assert (found["pearson"], found["spearman"]) == pytest.approx((pearson, spearman), abs=1e-6)


def test_an_error_beyond_reason_still_ends_in_a_number() -> None:
    found = summarize([(1e308, -1e308), (-1e308, 1e308)])
    assert (found["mse"], found["mae"]) == (sys.float_info.max, sys.float_info.max)


def test_an_integer_beyond_a_double_is_named() -> None:
    with pytest.raises(BadData, match=r"^field 'label': found 1000.*…, expected a number up to 1.798e\+308$"):
        observe({"label": 10**400, "prediction": 1})


def test_command(invoke: Callable[..., Result]) -> None:
    given = [{"label": 1, "prediction": 1.5}, {"label": 2.0, "prediction": 3, "more": 1}]
    lines = b"".join(orjson.dumps(each) + b"\n" for each in given)
    result = invoke("score", "regression", stdin=lines)
    assert (result.status, result.err) == (0, "")
    expected = {"pearson": 1.0, "spearman": 1.0, "mse": 0.625, "mae": 0.75, "total": 2}
    assert result.records == [pytest.approx(expected)]
    assert list(result.records[0]) == list(expected)
    assert invoke("score", "regression").records == [{"total": 0}] == [score([])]
    said = "<stdin>:3: field 'label': found '1', expected a number"
    bad = invoke("score", "regression", stdin=lines + b'{"label": "1", "prediction": 1}\n')
    assert bad == (65, b"", f"bertcli score: {said}\n")

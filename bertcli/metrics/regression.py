"""Pearson's and Spearman's correlation and the errors of regression (STS-B, paper §4.1)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BadData
from bertcli.records import Record, RegressionPrediction

SCHEMA = RegressionPrediction

LARGEST = sys.float_info.max


def observe(record: Record) -> tuple[float, float]:
    """Returns one record's true number and the predicted one; raises `BadData` for one beyond a double's range."""
    return _number(record, "label"), _number(record, "prediction")


def _number(record: Record, field: str) -> float:
    try:
        return float(record[field])
    except OverflowError:
        raise BadData(field=field, found=record[field], expected=f"a number up to {LARGEST:.4g}") from None


def score(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records))


def summarize(observed: Iterable[tuple[float, float]]) -> dict[str, Any]:
    """Returns `pearson`, `spearman` (equal numbers share their mean rank), `mse` and `mae`; of no records, the total.

    A correlation is 0 where all true numbers or all predicted ones are equal: it is not defined there. An error beyond
    a double's range is the largest double.
    """
    pairs = np.array(list(observed), dtype=np.float64).reshape(-1, 2)
    if not len(pairs):
        return {"total": 0}
    gold, predicted = pairs.T
    scale = float(np.abs(pairs).max()) or 1.0  # so that nothing overflows on the way
    errors = gold / scale - predicted / scale
    return {
        "pearson": pearson(gold, predicted),
        "spearman": pearson(ranks(gold), ranks(predicted)),
        "mse": min(float(np.square(errors).mean()) * scale * scale, LARGEST),
        "mae": min(float(np.abs(errors).mean()) * scale, LARGEST),
        "total": len(pairs),
    }


def pearson(gold: NDArray[np.float64], predicted: NDArray[np.float64]) -> float:
    """Returns the correlation of numbers, 0 where one side is constant: (n,), (n,)."""
    first, second = _centred(gold), _centred(predicted)
    return min(1.0, max(-1.0, math.fsum(first * second)))


def _centred(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns numbers less their mean, of length 1; of equal ones zeros."""
    if numbers.min() == numbers.max():
        return np.zeros_like(numbers)
    scaled = numbers / np.abs(numbers).max()
    scaled -= math.fsum(scaled) / len(scaled)
    scaled /= np.abs(scaled).max()
    length: NDArray[np.float64] = scaled / np.linalg.norm(scaled)
    return length


def ranks(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns each number's rank from 1, equal ones' the mean of theirs: (n,)."""
    _, inverse, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    means: NDArray[np.float64] = ends - (counts - 1) / 2
    return means[inverse]

"""Accuracy, F1 and Matthews correlation of classification, as fractions of 1 like GLUE's (paper §4.1)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from bertcli.records import ClassificationPrediction, Record

SCHEMA = ClassificationPrediction


def observe(record: Record) -> tuple[str, str]:
    """Returns what the score needs of one record: its gold label and the predicted one."""
    return record["label"], record["prediction"]


def score(records: Iterable[Record], *, positive: str = "1") -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records), positive=positive)


def summarize(observed: Iterable[tuple[str, str]], *, positive: str = "1") -> dict[str, Any]:
    """Returns the metrics; of no records, the total alone.

    `f1`, `precision` and `recall` are those of the positive label where there are at most two labels and it
    is one of them; otherwise their means over the labels are `macro_f1`, `macro_precision`, `macro_recall`.
    """
    cells = Counter(observed)  # (gold, predicted) -> records
    total = cells.total()
    if not total:
        return {"total": 0}
    names = sorted({label for cell in cells for label in cell})
    counts = {name: _counts(cells, name) for name in names}
    scores: dict[str, Any] = {
        "accuracy": sum(count["correct"] for count in counts.values()) / total,
        "matthews": matthews(list(counts.values())),
    }
    if len(names) <= 2 and (positive in names or len(names) == 1):
        scores |= _precision_recall_f1(counts.get(positive, _counts(cells, positive)))
    else:
        each = [_precision_recall_f1(count) for count in counts.values()]
        scores |= {f"macro_{key}": sum(one[key] for one in each) / len(each) for key in each[0]}
    return {**scores, "total": total, "labels": counts}


def _counts(cells: Counter[tuple[str, str]], label: str) -> dict[str, int]:
    return {
        "gold": sum(count for (gold, _), count in cells.items() if gold == label),
        "predicted": sum(count for (_, predicted), count in cells.items() if predicted == label),
        "correct": cells[label, label],
    }


def _precision_recall_f1(count: dict[str, int]) -> dict[str, float]:
    """Returns one label's three figures, each 0 where there is nothing to divide by."""
    return {
        "precision": count["correct"] / max(count["predicted"], 1),
        "recall": count["correct"] / max(count["gold"], 1),
        "f1": 2 * count["correct"] / max(count["gold"] + count["predicted"], 1),
    }


def matthews(counts: list[dict[str, int]]) -> float:
    """Returns Matthews' correlation of any number of labels (Gorodkin's R_K), 0 where a side has but one."""
    gold, predicted = [count["gold"] for count in counts], [count["predicted"] for count in counts]
    total, correct = sum(gold), sum(count["correct"] for count in counts)
    covariance = correct * total - sum(g * p for g, p in zip(gold, predicted, strict=True))
    spread = (total**2 - sum(g * g for g in gold)) * (total**2 - sum(p * p for p in predicted))
    return covariance / math.sqrt(spread) if spread else 0.0

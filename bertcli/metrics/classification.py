"""Accuracy, F1 and Matthews correlation of classification, as fractions of 1 like GLUE's (paper §4.1).

A text has one label, or any number of them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from bertcli.errors import BadData, many
from bertcli.records import ClassificationPrediction, Record

SCHEMA = ClassificationPrediction

Labels = str | tuple[str, ...]  # one, or several: each once, sorted
Counts = dict[str, dict[str, int]]  # by label: how often it is "gold", "predicted", and both: "correct"


def observe(record: Record) -> tuple[Labels, Labels]:
    """Returns what the score needs of one record: its gold label and the predicted one, or several of each."""
    predicted = record["prediction"]
    is_one = isinstance(predicted, str)
    field = "label" if is_one else "labels"
    gold = record.get(field)
    if gold is None:
        raise BadData(field=field, found=None, expected=f"{'a string' if is_one else 'a list'}, as is the prediction")
    return (gold, predicted) if is_one else (tuple(sorted(set(gold))), tuple(sorted(set(predicted))))


def score(records: Iterable[Record], *, positive: str = "1", labels: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records), positive=positive, labels=labels)


def summarize(
    observed: Iterable[tuple[Labels, Labels]], *, positive: str = "1", labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Returns the metrics; of no records, the total alone. `labels` are those that there are beside the ones seen.

    `f1`, `precision` and `recall` are those of the positive label where there are at most two labels and it
    is one of them; otherwise their means over the labels are `macro_f1`, `macro_precision`, `macro_recall`.
    With several labels a text, `micro_f1`, `micro_precision` and `micro_recall` of all labels together stand beside
    those, and `accuracy` is the share of texts with exactly their labels. Raises `BadData` where some records have one
    label and others several.
    """
    cells = Counter(observed)  # (gold, predicted) -> records
    total = cells.total()
    if not total:
        return {"total": 0}
    one = sum(count for (gold, _), count in cells.items() if isinstance(gold, str))
    if 0 < one < total:
        found = f"{many(one, 'record')} with one label, {total - one} with a list"
        raise BadData(field="prediction", problem=f"{found}: it is to be the same in all")
    counts = _counts(cells)
    scores: dict[str, Any] = {"accuracy": sum(n for (gold, predicted), n in cells.items() if gold == predicted) / total}
    if not one:
        scores |= _named("micro", [_sum(counts)]) | _named("macro", list(counts.values()))
    else:
        scores["matthews"] = matthews(list(counts.values()))
        names = {*counts, *labels}
        if len(names) <= 2 and (positive in names or len(names) == 1):
            scores |= _precision_recall_f1(counts.get(positive, _sum({})))
        else:
            scores |= _named("macro", list(counts.values()))
    return {**scores, "total": total, "labels": counts}


def _counts(cells: Counter[tuple[Labels, Labels]]) -> Counts:
    gold: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for sides, count in cells.items():
        truth, said = ({side} if isinstance(side, str) else set(side) for side in sides)
        for counter, labels in ((gold, truth), (predicted, said), (correct, truth & said)):
            counter.update(dict.fromkeys(labels, count))
    names = sorted(gold | predicted)
    return {name: {"gold": gold[name], "predicted": predicted[name], "correct": correct[name]} for name in names}


def _sum(counts: Counts) -> dict[str, int]:
    return {key: sum(count[key] for count in counts.values()) for key in ("gold", "predicted", "correct")}


def _named(name: str, counts: list[dict[str, int]]) -> dict[str, float]:
    """Returns the means of the three figures under a name; 0 where there is nothing to count."""
    each = [_precision_recall_f1(count) for count in counts]
    keys = ("precision", "recall", "f1")
    return {f"{name}_{key}": sum(one[key] for one in each) / max(len(each), 1) for key in keys}


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

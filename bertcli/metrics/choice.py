"""Accuracy of a choice, as a fraction of 1 (paper §4.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from bertcli.records import ChoicePrediction, Record

SCHEMA = ChoicePrediction


def observe(record: Record) -> bool:
    """Returns whether what was chosen of one record is right."""
    return bool(record["label"] == record["prediction"])


def score(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records))


def summarize(observed: Iterable[bool]) -> dict[str, Any]:
    """Returns `accuracy`; of no records, the total alone."""
    counts = Counter(observed)
    total = counts.total()
    return {"accuracy": counts[True] / total, "total": total} if total else {"total": 0}

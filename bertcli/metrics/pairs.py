"""Accuracy on minimal pairs, by phenomenon and by paradigm, as fractions of 1 (Warstadt et al. 2020)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from bertcli.records import MinimalPairPrediction, Record

SCHEMA = MinimalPairPrediction

Observed = tuple[bool, str | None, str | None]  # whether the good sentence was likelier; phenomenon, paradigm


def observe(record: Record) -> Observed:
    """Returns what the score needs of one record."""
    return record["prediction"], record.get("phenomenon"), record.get("paradigm")


def score(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records))


def summarize(observed: Iterable[Observed]) -> dict[str, Any]:
    """Returns `accuracy`, and under `phenomena` and `paradigms` that of each; of no records, the total alone.

    A pair that lacks either counts in none of them; where all pairs do, they are left out.
    """
    whole: Counter[bool] = Counter()
    groups: dict[str, dict[str, Counter[bool]]] = {"phenomena": {}, "paradigms": {}}
    for is_right, *names in observed:
        whole[is_right] += 1
        for group, name in zip(groups.values(), names, strict=True):
            if name is not None:
                group.setdefault(name, Counter())[is_right] += 1
    if not whole:
        return {"total": 0}
    parts = {kind: {name: _accuracy(group[name]) for name in sorted(group)} for kind, group in groups.items() if group}
    return _accuracy(whole) | parts


def _accuracy(counts: Counter[bool]) -> dict[str, Any]:
    return {"accuracy": counts[True] / counts.total(), "total": counts.total()}

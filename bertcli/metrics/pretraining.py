"""Loss, perplexity, accuracy of the masked language model; next-sentence accuracy (paper §3.1, Table 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from bertcli.errors import BadData
from bertcli.records import PretrainingPrediction, Record

SCHEMA = PretrainingPrediction


class Observed(NamedTuple):
    """What one masked pair adds to the sums."""

    masked: int
    loss: float  # summed over the masked positions, in nats
    correct: int
    pairs: int  # 1 where the truth and a probability are there to be compared, else 0
    next_correct: int


def observe(record: Record) -> Observed:
    """Returns one record's counts; raises `BadData` where prediction or loss does not fit its tokens."""
    details = record["details"]
    gold = record.get("masked_tokens") or []
    best = _best(record["prediction"], len(gold)) if gold else []
    correct = sum(token == guess for token, guess in zip(gold, best, strict=True))
    loss = _number(details, "loss") * len(gold) if gold else 0.0
    is_next = record.get("is_next")
    if is_next is None or details.get("is_next_probability") is None:
        return Observed(len(gold), loss, correct, 0, 0)
    return Observed(len(gold), loss, correct, 1, (_number(details, "is_next_probability") >= 0.5) == is_next)


def _best(prediction: list[list[dict[str, Any]]], expected: int) -> list[str]:
    """Returns each position's first token."""
    if len(prediction) != expected:
        raise BadData(field="prediction", found=len(prediction), expected=f"{expected} positions, as in masked_tokens")
    try:
        return [candidates[0]["token"] for candidates in prediction]
    except (IndexError, KeyError, TypeError):
        raise BadData("a position without a token", field="prediction") from None


def _number(details: dict[str, Any], name: str) -> float:
    value = details.get(name)
    if not isinstance(value, int | float):
        raise BadData(field=f"details.{name}", found=value, expected="a number")
    return float(value)


def score(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records))


def summarize(observed: Iterable[Observed]) -> dict[str, Any]:
    """Returns `mlm_loss` (mean cross-entropy a masked token), `perplexity` (its exponential) and accuracies.

    Metrics of which there was nothing to count are left out: `nsp_accuracy` under `pairs --single`, and all
    where there are no records. `masked` and `pairs` say how many tokens and pairs were counted.
    """
    total = masked = correct = pairs = next_correct = 0
    loss = 0.0
    for one in observed:
        total, masked, loss = total + 1, masked + one.masked, loss + one.loss
        correct, pairs, next_correct = (
            correct + one.correct,
            pairs + one.pairs,
            next_correct + one.next_correct,
        )
    scores: dict[str, Any] = {}
    if masked:
        # exp(709.8) is the end of a double's range.
        scores |= {"mlm_loss": loss / masked, "perplexity": math.exp(min(loss / masked, 709))}
        scores["mlm_accuracy"] = correct / masked
    if pairs:
        scores["nsp_accuracy"] = next_correct / pairs
    return {**scores, "masked": masked, "pairs": pairs, "total": total}

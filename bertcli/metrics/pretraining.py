"""Loss, perplexity and accuracy of masked and left-to-right language models; next-sentence accuracy (§3.1, 5.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from bertcli.errors import BadData
from bertcli.records import PretrainingPrediction, Record

SCHEMA = PretrainingPrediction


class Observed(NamedTuple):
    """What one pair adds to the sums."""

    tokens: int  # that were predicted
    loss: float  # summed over them, in nats
    correct: int
    is_whole: bool  # they are all but the first, each from those before it; else those that were masked
    pairs: int  # 1 where the truth and a probability are there to be compared, else 0
    next_correct: int


def observe(record: Record) -> Observed:
    """Returns one record's counts; raises `BadData` where prediction or loss does not fit its tokens."""
    details, gold = record["details"], record.get("masked_tokens") or []
    is_whole = record.get("masked_tokens") is None and details.get("loss") is not None
    if is_whole:  # of a masked language model no loss is known where nothing was masked
        gold = (record.get("tokens") or [])[1:]
    best = _best(record["prediction"], len(gold), "tokens" if is_whole else "masked_tokens") if gold else []
    correct = sum(token == guess for token, guess in zip(gold, best, strict=True))
    loss = _number(details, "loss") * len(gold) if gold else 0.0
    is_next = record.get("is_next")
    if is_next is None or details.get("is_next_probability") is None:
        return Observed(len(gold), loss, correct, is_whole, 0, 0)
    is_right = (_number(details, "is_next_probability") >= 0.5) == is_next
    return Observed(len(gold), loss, correct, is_whole, 1, is_right)


def _best(prediction: list[list[dict[str, Any]]], expected: int, field: str) -> list[str]:
    """Returns each position's first token."""
    if len(prediction) != expected:
        raise BadData(field="prediction", found=len(prediction), expected=f"{expected} positions, as in {field}")
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

    Of a left-to-right model that was asked for all tokens they are `lm_loss`, `perplexity` and `lm_accuracy`. Metrics
    of which there was nothing to count are left out: `nsp_accuracy` under `pairs --single`, and all where there are no
    records. `masked` and `pairs`, or `predicted`, say how many tokens and pairs were counted.
    """
    total = pairs = next_correct = 0
    sums = {name: [0, 0.0, 0] for name in ("lm", "mlm")}  # tokens, loss, correct
    for one in observed:
        own = sums["lm" if one.is_whole else "mlm"]
        own[0], own[1], own[2] = own[0] + one.tokens, own[1] + one.loss, own[2] + one.correct
        total, pairs, next_correct = total + 1, pairs + one.pairs, next_correct + one.next_correct
    scores: dict[str, Any] = {}
    for name, (tokens, loss, correct) in sums.items():
        if tokens:
            # exp(709.8) is the end of a double's range.
            scores |= {f"{name}_loss": loss / tokens, "perplexity": math.exp(min(loss / tokens, 709))}
            scores[f"{name}_accuracy"] = correct / tokens
    if pairs:
        scores["nsp_accuracy"] = next_correct / pairs
    predicted, masked = int(sums["lm"][0]), int(sums["mlm"][0])
    counts = {"masked": masked, "pairs": pairs} if masked or pairs or not predicted else {}
    return {**scores, **({"predicted": predicted} if predicted else {}), **counts, "total": total}

"""Precision, recall and F1 of entities, and accuracy of words, in percent, as `conlleval` counts them (section 5.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from bertcli.errors import BadData
from bertcli.records import Record, TaggingPrediction
from bertcli.schemes import SCHEMES, borders, entities, fitting, spell_entities

SCHEMA = TaggingPrediction

SIDES = ("gold", "predicted", "correct")
Tally = Counter[tuple[str, str]]  # (side, label or type) -> how many; correct is what is both gold and predicted


class Observed(NamedTuple):
    """What one record adds: its labels and entities, and the schemes in which its gold labels are well formed."""

    labels: Tally
    entities: Tally
    fits: frozenset[str]


def observe(record: Record) -> Observed:
    """Returns one record's counts; entities end where a sentence does.

    Raises `BadData` where there are not as many predictions as labels, or `sentences` do not fit them.
    """
    gold, predicted = record["labels"], record["prediction"]
    if len(gold) != len(predicted):
        raise BadData(field="prediction", found=len(predicted), expected=f"{len(gold)} labels, one a word")
    labels = _tally(gold, predicted, [a for a, b in zip(gold, predicted, strict=True) if a == b])
    found, fits = Tally(), frozenset(SCHEMES)
    for begin, end in borders(record.get("sentences"), len(gold)):
        right, said = entities(gold[begin:end]), entities(predicted[begin:end])
        found += _tally(*([entity.type for entity in each] for each in (right, said, set(right) & set(said))))
        fits &= fitting(gold[begin:end])
    return Observed(labels, found, fits)


def _tally(*sides: Iterable[str]) -> Tally:
    return Counter((side, name) for side, names in zip(SIDES, sides, strict=True) for name in names)


def score(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records))


def summarize(observed: Iterable[Observed]) -> dict[str, Any]:
    """Returns `accuracy` of the words, `precision`, `recall` and `f1` of the entities, and the same of each type.

    `scheme` is that of the gold labels, "mixed" where none fits them all, null where they hold no entity. Labels that
    spell no entities, as parts of speech, have their accuracy alone, and each its counts. Of no records there is the
    total alone.
    """
    labels, found, fits, total = Tally(), Tally(), frozenset(SCHEMES), 0
    for one in observed:
        labels.update(one.labels)
        found.update(one.entities)
        fits, total = fits & one.fits, total + 1
    words = _sum(labels)
    scores: dict[str, Any] = {"accuracy": 100 * words["correct"] / words["gold"]} if words["gold"] else {}
    if spell_entities(name for _, name in labels):
        scheme = next(iter(fits), "mixed") if len(fits) < len(SCHEMES) else None
        scores |= {**_figures(_sum(found)), "scheme": scheme, "types": {k: _figures(v) for k, v in _each(found) if k}}
    elif words["gold"]:
        scores["labels"] = dict(_each(labels))
    return {**scores, "words": words["gold"], "total": total} if total else {"total": 0}


def _sum(tally: Tally) -> dict[str, int]:
    return {side: sum(count for (own, _), count in tally.items() if own == side) for side in SIDES}


def _each(tally: Tally) -> list[tuple[str, dict[str, int]]]:
    names = sorted({name for _, name in tally})
    return [(name, {side: tally[side, name] for side in SIDES}) for name in names]


def _figures(counts: dict[str, int]) -> dict[str, float]:
    """Returns the three figures and the counts they are of; each is 0 where there is nothing to divide by."""
    return {
        "precision": 100 * counts["correct"] / max(counts["predicted"], 1),
        "recall": 100 * counts["correct"] / max(counts["gold"], 1),
        "f1": 200 * counts["correct"] / max(counts["gold"] + counts["predicted"], 1),
        **counts,
    }

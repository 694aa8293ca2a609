"""SQuAD's exact match and F1, in percent, by the rules of its two scripts (sections 4.2 and 4.3).

`evaluate-v1.1.py` judges where every question has an answer, `evaluate-v2.0.py` where some have none.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BadData
from bertcli.records import Record, SpanPrediction, score_of

SCHEMA = SpanPrediction

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Marks(NamedTuple):
    """How well an answer agrees with the right one that is nearest to it, as fractions of 1."""

    exact: float
    f1: float


class Best(NamedTuple):
    """The best span that is not empty: no answer's lead over it, and its marks were it the answer."""

    lead: float  # null_score - score
    has_text: bool
    marks: Marks


class Observed(NamedTuple):
    """What one question adds."""

    has_answer: bool
    strict: Marks  # by the rules of 1.1
    marks: Marks  # by those of 2.0
    silence: float  # what no answer would get, by those too
    best: Best | None  # where the record says what it is


# -- one question ---------------------------------------------------------------------------------------------------


def normalized(text: str) -> str:
    """Returns a text as it is compared: lower case, without punctuation and articles, its words by single spaces."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def observe(record: Record) -> Observed:
    """Returns how well one question was answered; raises `BadData` where `details` do not fit the context."""
    right = [normalized(answer["text"]) for answer in record["answers"]]
    # 2.0 ignores right answers of which nothing is left, and no answer is right where there is no other.
    known = list(filter(None, right)) or [""]
    said = normalized(record["prediction"])
    strict, marks = _marks(said, right, silence=0.0), _marks(said, known)
    return Observed(bool(right), strict, marks, float(known == [""]), _best(record, known))


def _marks(said: str, right: list[str], silence: float = 1.0) -> Marks:
    """Returns the highest marks by any right answer; `silence` is the F1 of nothing where nothing is right."""
    exact = max((float(said == each) for each in right), default=0.0)
    return Marks(exact, max((_f1(said.split(), each.split(), silence) for each in right), default=0.0))


def _f1(said: list[str], right: list[str], silence: float) -> float:
    if not said or not right:
        return silence if said == right else 0.0
    same = (Counter(said) & Counter(right)).total()
    if not same:
        return 0.0
    precision, recall = same / len(said), same / len(right)
    return 2 * precision * recall / (precision + recall)


def _best(record: Record, known: list[str]) -> Best | None:
    details, context = record.get("details") or {}, record.get("context")
    if context is None or "null_score" not in details:
        return None
    start, end = (_index(details, name) for name in ("start", "end"))
    text = context[start:end]
    null, best = (score_of(details, name, f"details.{name}") for name in ("null_score", "score"))
    return Best(null - best, bool(text), _marks(normalized(text), known))


def _index(details: dict[str, Any], name: str) -> int:
    value = details.get(name)
    if type(value) is not int:
        raise BadData(field=f"details.{name}", found=value, expected="an integer")
    return value


# -- all of them ----------------------------------------------------------------------------------------------------


def score(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the metrics of records; see `summarize`."""
    return summarize(map(observe, records))


def summarize(observed: Iterable[Observed]) -> dict[str, Any]:
    """Returns `exact` and `f1` in percent; of no records, the total alone.

    Where some questions have no answer, they and the others also stand apart, as `no_answer_…` and `has_answer_…`;
    and where every record has `details` and `context`, `best_exact` and `best_f1` are what would have been reached with
    the thresholds beside them, as the official script finds these.
    """
    questions = list(observed)
    if not questions:
        return {"total": 0}
    if all(each.has_answer for each in questions):
        return _means("", [each.strict for each in questions])
    scores = _means("", [each.marks for each in questions])
    for name, has_answer in (("has_answer_", True), ("no_answer_", False)):
        scores |= _means(name, [each.marks for each in questions if each.has_answer is has_answer])
    if all(each.best for each in questions):
        for field in ("exact", "f1"):
            scores |= _official(questions, field)
    return scores


def _means(name: str, marks: list[Marks]) -> dict[str, Any]:
    if not marks:
        return {f"{name}total": 0}
    exact, f1 = (100 * math.fsum(column) / len(marks) for column in zip(*marks, strict=True))
    return {f"{name}exact": exact, f"{name}f1": f1, f"{name}total": len(marks)}


# -- thresholds -----------------------------------------------------------------------------------------------------


def _walk(rows: list[tuple[float, float]], silent: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns rising thresholds and the sum of marks with each of them.

    A row is the lead of no answer over a question's best span and what that span adds to the `silent` sum, which is
    that of no answers at all: a threshold lets those stand whose lead is not above it.
    """
    leads, gains = np.array(rows, dtype=np.float64).T
    order = np.argsort(leads, kind="stable")
    return leads[order], np.cumsum([silent, *gains[order]])[1:]


def _official(questions: list[Observed], field: str) -> dict[str, float]:
    """Returns the best sum, in percent, and its threshold as `find_best_thresh` does.

    Which gives 0 where silence is best, and walks through equal leads one by one.
    """
    silent = sum(not each.has_answer for each in questions)
    rows = [
        (best.lead, getattr(best.marks, field) if has_answer else -float(best.has_text))
        for has_answer, *_, best in questions
        if best
    ]
    leads, sums = _walk(rows, silent)
    at = int(sums.argmax())
    best, threshold = (float(sums[at]), float(leads[at])) if sums[at] > silent else (silent, 0.0)
    return {f"best_{field}": 100 * best / len(questions), f"best_{field}_threshold": threshold}


def best_threshold(observed: Iterable[Observed]) -> float:
    """Returns the threshold of no answer's lead with the best F1 that can be reached: the lowest of several.

    It lies in the middle between the last lead that it lets stand and the next. Questions with equal leads are answered
    together, and where silence is best the threshold is below all leads.
    Raises `BadData` for a question whose best span is not known.
    """
    rows, silent = [], 0.0
    for *_, silence, best in observed:
        if best is None:
            raise BadData(field="details", found=None, expected="an object with start, end, score and null_score")
        rows.append((best.lead, best.marks.f1 - silence))
        silent += silence
    if not rows:
        return 0.0
    leads, sums = _walk(rows, silent)
    is_last = np.append(leads[1:] > leads[:-1], True)  # of equal ones
    sums = np.where(is_last, sums, -np.inf)
    at = int(sums.argmax())
    if sums[at] <= silent:
        return float(np.nextafter(leads[0], -np.inf))
    return float(leads[at : at + 2].mean())

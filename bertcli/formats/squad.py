"""SQuAD's JSON, 1.1 and 2.0 (sections 4.2 and 4.3), and the files that its scripts read: predictions, n-best, odds.

The files that are written are objects by question id, held back until the input has ended well.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from bertcli.errors import BadData
from bertcli.formats import Fault, stop
from bertcli.formats.tree import Node, document, elements
from bertcli.lines import Lines
from bertcli.records import Record, SpanPrediction, as_text, checker, score_of

# -- read -----------------------------------------------------------------------------------------------------------


def read(lines: Lines) -> Iterator[Record]:
    """Yields a span record a question, without `answers` where the file has none, as in a test set.

    A question that `is_impossible` has the answers []. An answer that does not stand at its `answer_start` gets the
    nearest place at which it does stand, if there is one. Raises `BadData` with the place of what is not as it should
    be, and for an id that comes twice.
    """
    root = document(lines)
    seen: set[str] = set()
    for article in elements(root, "data", lines) if root else ():
        for paragraph in elements(article, "paragraphs", lines):
            for question in elements(paragraph, "qas", lines):
                try:
                    record = _record(paragraph, question, seen)
                except BadData as error:
                    lines.fault(error.at(lines.name, None))
                else:
                    yield record


def _record(paragraph: Node, question: Node, seen: set[str]) -> Record:
    context, identity = paragraph["context"].text, question["id"]
    record: Record = {"id": identity.text, "question": question["question"].text, "context": context}
    if question["is_impossible"].flag:
        record["answers"] = []
    elif question["answers"].value is not None:
        record["answers"] = [_answer(context, answer) for answer in question["answers"].elements()]
    if identity.text in seen:
        raise BadData(field=identity.place, found=identity.text, expected="an id that no other question has")
    seen.add(identity.text)
    return record


def _answer(context: str, answer: Node) -> dict[str, Any]:
    text, start = answer["text"].text, answer["answer_start"].number
    if start >= 0 and context.startswith(text, start):
        return {"text": text, "start": start}
    # Not by rfind, which takes the product of both lengths where they repeat themselves.
    before = context[: max(start, 0) + len(text)]
    behind = before[::-1].find(text[::-1])
    places = len(before) - len(text) - behind if behind >= 0 else -1, context.find(text, max(start, 0))
    nearest = min((place for place in places if place >= 0), key=lambda place: abs(place - start), default=start)
    return {"text": text, "start": nearest}


def predictions(lines: Lines) -> dict[str, str]:
    """Returns the answers of a published predictions.json by question id, "" for none."""
    root = document(lines)
    try:
        return {name: answer.text for name, answer in root.members().items()} if root else {}
    except BadData as error:
        raise error.at(lines.name, None) from None


# -- write ----------------------------------------------------------------------------------------------------------


def write(records: Iterable[Record], fault: Fault = stop) -> Iterator[bytes]:
    """Yields predictions.json: each question's answer, "" for none.

    Where nothing was predicted the first right answer stands in. A fault is for all writers here an id that comes twice
    or lacks, and a question with neither.
    """
    return _official(records, fault, _prediction)


def _prediction(record: Record) -> str:
    prediction: str | None = record.get("prediction")
    if prediction is None and record.get("answers") is not None:
        checker(SpanPrediction)(record | {"prediction": "", "details": None, "context": None})
        prediction = record["answers"][0]["text"] if record["answers"] else ""
    if not isinstance(prediction, str):
        raise BadData(field="prediction", found=prediction, expected="a string")
    return prediction


def write_nbest(records: Iterable[Record], fault: Fault = stop) -> Iterator[bytes]:
    """Yields nbest_predictions.json: each question's answers with probability and score, the likeliest first.

    Where the answer is none it is among them, and where there would be nothing there is "empty", as in Google's code.
    """
    return _official(records, fault, _nbest)


def _nbest(record: Record) -> list[dict[str, Any]]:
    details = _details(record)
    found = details.get("nbest")
    if not isinstance(found, list):
        raise BadData(field="details.nbest", found=found, expected="a list, as `predict --nbest` makes it")
    scores: dict[str, float] = {}
    for answer in found:
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise BadData("an answer without a text", field="details.nbest")
        scores[answer["text"]] = score_of(answer, "score", "details.nbest.score")
    if record.get("prediction") == "":
        scores.setdefault("", score_of(details, "null_score", "details.null_score"))
    best = sorted(scores.items(), key=lambda each: -each[1]) or [("empty", 0.0)]
    weights = [math.exp(score - best[0][1]) for _, score in best]
    return [
        {"text": text, "probability": weight / sum(weights), "score": score}
        for (text, score), weight in zip(best, weights, strict=True)
    ]


def write_odds(records: Iterable[Record], fault: Fault = stop) -> Iterator[bytes]:
    """Yields null_odds.json: the lead of no answer over each question's best span, Google's sign."""
    return _official(records, fault, _odds)


def _odds(record: Record) -> float:
    null, best = (score_of(_details(record), name, f"details.{name}") for name in ("null_score", "score"))
    return null - best


def _details(record: Record) -> dict[str, Any]:
    details = record.get("details")
    return details if isinstance(details, dict) else {}


def _official(records: Iterable[Record], fault: Fault, function: Callable[[Record], Any]) -> Iterator[bytes]:
    """Yields one JSON object of what a function makes of each record, by id."""
    made: dict[str, Any] = {}
    for record in records:
        identity = record.get("id")
        try:
            if identity is None or as_text(identity) in made:
                raise BadData(field="id", found=identity, expected="a question's id, which no other record has")
            made[as_text(identity)] = function(record)
        except BadData as error:
            fault(error)
    yield json.dumps(made, indent=4, ensure_ascii=False).encode() + b"\n"

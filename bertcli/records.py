"""The records that travel between commands: one frozen dataclass a stage, their names and types spelled here alone.

Records travel as plain dicts, so that unknown fields pass through; the dataclasses are the schema by which
`checker` judges them. A field with a default may be absent, and JSON's null means absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from bertcli.errors import BadData

Record = dict[str, Any]

LARGEST_SCORE = 1e300


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text, or its sentences; a sentence given as words keeps its word borders."""

    id: Any = None
    text: str | None = None
    sentences: list[str | list[str]] | None = None

    one_of = ("text", "sentences")


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two segments with [CLS] and [SEP] (one under `pairs --single`).

    `segment_b` is the index of the first token of segment 1, `word_starts` the indices at which words begin.
    """

    id: Any = None
    tokens: list[str]
    segment_b: int | None = None
    is_next: bool | None = None
    word_starts: list[int] | None = None


@dataclass(frozen=True, kw_only=True)
class MaskedPair(Pair):
    """A pair whose `tokens` hold the corruption; `masked_tokens` are the originals at `masked_positions`."""

    masked_positions: list[int]
    masked_tokens: list[str]


@dataclass(frozen=True, kw_only=True)
class Words:
    """What `tokenize` reads: words, a text, or two texts."""

    id: Any = None
    words: list[str] | None = None
    text: str | None = None
    text_pair: str | None = None

    one_of = ("text", "words")


@dataclass(frozen=True, kw_only=True)
class Texts:
    """A text or two, of which something is to be said."""

    id: Any = None
    text: str
    text_pair: str | None = None


@dataclass(frozen=True, kw_only=True)
class Classification(Texts):
    """A text or two, and the name of their class, or the names of any number of classes."""

    label: str | None = None
    labels: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Regression(Texts):
    """A text or two, and a number."""

    label: float | None = None


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """Words, each of which is to have a label; of a document `sentences` are each sentence's first words, by index."""

    id: Any = None
    words: list[str]
    sentences: list[int] | None = None


@dataclass(frozen=True, kw_only=True)
class Tagging(Sentence):
    """Words and a label for each."""

    labels: list[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A stretch of a context, and the code point at which it starts."""

    text: str
    start: int


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question, and a context that may answer it."""

    id: Any = None
    question: str
    context: str


@dataclass(frozen=True, kw_only=True)
class Span(Question):
    """A question, its context, and the right answers: none of them, and the context does not answer it."""

    answers: list[Answer] | None = None


@dataclass(frozen=True, kw_only=True)
class Choices:
    """A text, and what may follow it."""

    id: Any = None
    text: str
    choices: list[str]


@dataclass(frozen=True, kw_only=True)
class Choice(Choices):
    """A text, what may follow it, and the index of what does."""

    label: int | None = None


@dataclass(frozen=True, kw_only=True)
class MinimalPair:
    """A good sentence and a bad one that hardly differs; its paradigm is one way to show a phenomenon of grammar."""

    id: Any = None
    good: str
    bad: str
    phenomenon: str | None = None
    paradigm: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClassificationPrediction:
    """A predicted label beside the gold one, or labels beside labels, as `score classification` reads them."""

    label: str | None = None
    labels: list[str] | None = None
    prediction: str | list[str]

    one_of = ("label", "labels")


@dataclass(frozen=True, kw_only=True)
class RegressionPrediction:
    """A predicted number beside the true one, as `score regression` reads them."""

    label: float
    prediction: float


@dataclass(frozen=True, kw_only=True)
class TaggingPrediction:
    """A predicted label a word beside the gold ones, as `score tagging` reads them."""

    labels: list[str]
    prediction: list[str]
    sentences: list[int] | None = None


@dataclass(frozen=True, kw_only=True)
class SpanPrediction:
    """A predicted answer beside the right ones, as `score span` reads them."""

    id: Any = None
    context: str | None = None
    answers: list[Answer]
    prediction: str
    details: dict[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class ChoicePrediction:
    """A predicted index beside the right one, as `score choice` reads them."""

    label: int
    prediction: int


@dataclass(frozen=True, kw_only=True)
class PretrainingPrediction:
    """What a pre-trained model said of a pair, masked or not, beside the truth, as `score pretraining` reads it."""

    masked_tokens: list[str] | None = None
    tokens: list[str] | None = None
    prediction: list[list[dict[str, Any]]]
    details: dict[str, Any]
    is_next: bool | None = None


@dataclass(frozen=True, kw_only=True)
class MinimalPairPrediction:
    """Whether a minimal pair's good sentence was found likelier, as `score pairs` reads it."""

    phenomenon: str | None = None
    paradigm: str | None = None
    prediction: bool


@dataclass(frozen=True, kw_only=True)
class Anything:
    """A record of which nothing is asked: a command that names its field by option checks it itself."""


class FieldType(NamedTuple):
    """What a JSON value may be: how that is told, what it is called, and of a list what its elements may be."""

    is_valid: Callable[[Any], bool]
    name: str
    element: FieldType | None = None

    def fault(self, field: str, value: Any, place: str = "") -> BadData:
        """Returns the error for a value that is not valid, of a list for its first element that is not."""
        for index, each in enumerate(value if type(value) is list and self.element else ()):
            if self.element and not self.element.is_valid(each):
                return self.element.fault(field, each, f"{place}[{index}]")
        return BadData(field=field, found=value, expected=f"{self.name} at {place}" if place else self.name)


def _is_list_of(kind: type) -> Callable[[Any], bool]:
    kinds = {kind}
    return lambda value: type(value) is list and kinds.issuperset(map(type, value))


def _is_sentence(value: Any) -> bool:
    return type(value) is str or _is_words(value)


def _is_answer(value: Any) -> bool:
    return type(value) is dict and type(value.get("text")) is str and type(value.get("start")) is int


_is_words = _is_list_of(str)
# type(value) is …: JSON's true is no integer, although Python's is.
STRING = FieldType(lambda value: type(value) is str, "a string")
INTEGER = FieldType(lambda value: type(value) is int, "an integer")
LIST = FieldType(lambda value: type(value) is list, "a list")
SENTENCE = FieldType(_is_sentence, "a string or a list of words", STRING)
ANSWER = FieldType(_is_answer, 'an answer {"text": string, "start": integer}')
TYPES: dict[Any, FieldType] = {
    str: STRING,
    int: INTEGER,
    float: FieldType(lambda value: type(value) in (int, float), "a number"),
    bool: FieldType(lambda value: type(value) is bool, "true or false"),
    list[str]: FieldType(_is_words, "a list of strings", STRING),
    list[int]: FieldType(_is_list_of(int), "a list of integers", INTEGER),
    list[list[dict[str, Any]]]: FieldType(_is_list_of(list), "a list of lists", LIST),
    str | list[str]: FieldType(_is_sentence, "a string or a list of strings", STRING),
    list[Answer]: FieldType(
        lambda value: type(value) is list and all(map(_is_answer, value)), "a list of answers", ANSWER
    ),
    list[str | list[str]]: FieldType(
        lambda value: type(value) is list and all(map(_is_sentence, value)), "a list of sentences", SENTENCE
    ),
    dict[str, Any]: FieldType(lambda value: type(value) is dict, "an object"),
}


@cache
def checker(schema: type) -> Callable[[Record], None]:
    """Returns a function that raises `BadData`, naming the field, where a record does not follow the schema."""
    hints = get_type_hints(schema)
    rows = []
    for field in fields(schema):
        optional = field.default is not MISSING
        hint = next((known for known in TYPES if hints[field.name] in (known, known | None)), None)
        if hint is not None:
            rows.append((field.name, optional, TYPES[hint]))
    one_of: tuple[str, ...] = getattr(schema, "one_of", ())

    def check(record: Record) -> None:
        for name, optional, kind in rows:
            value = record.get(name)
            if not (kind.is_valid(value) or (value is None and optional)):
                raise kind.fault(name, value)
        if one_of and all(record.get(name) is None for name in one_of):
            raise BadData(field=one_of[0], found=None, expected=f"one of {', '.join(one_of)}")

    return check


def _refusing_depth(encode: Callable[[Any], str]) -> Callable[[Any], str]:
    def encoded(identity: Any) -> str:
        try:
            return encode(identity)
        except RecursionError:
            raise BadData("an id is nested too deeply", field="id") from None

    return encoded


_canonical, _plainly = (_refusing_depth(json.JSONEncoder(sort_keys=is_sorted).encode) for is_sorted in (True, False))


def key(record: Record, index: int) -> str:
    """Returns what a record's randomness depends on: its id, or its index in the stream where it has none."""
    identity = record.get("id")
    return f"#{index}" if identity is None else _canonical(identity)


def as_text(identity: Any) -> str:
    """Returns an id as a string: itself if it is one, else its JSON."""
    return identity if isinstance(identity, str) else _plainly(identity)


def score_of(details: dict[str, Any], name: str, field: str) -> float:
    """Returns a score out of what `predict` told of a span; raises `BadData`, naming the field, for what is none.

    One so large that the difference of two might overflow is none either.
    """
    value: Any = details.get(name)
    if type(value) not in (int, float) or not -LARGEST_SCORE < value < LARGEST_SCORE:
        raise BadData(field=field, found=value, expected="a number, as predict makes it")
    return float(value)

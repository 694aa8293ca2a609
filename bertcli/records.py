"""The records that travel between commands: one frozen dataclass a stage, their names and types spelled here alone.

Records travel as plain dicts, so that unknown fields pass through; the dataclasses are the schema by which
`checker` judges them. A field with a default may be absent, and JSON's null means absent.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from bertcli.errors import BadData

Record = dict[str, Any]


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
    """What `tokenize` and `embed` read: words, a text, or two texts."""

    id: Any = None
    words: list[str] | None = None
    text: str | None = None
    text_pair: str | None = None

    one_of = ("words", "text")


@dataclass(frozen=True, kw_only=True)
class Classification:
    """A text or two, and the name of their class."""

    id: Any = None
    text: str
    text_pair: str | None = None
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class ClassificationPrediction:
    """A predicted label beside the gold one, as `score classification` reads them."""

    label: str
    prediction: str


@dataclass(frozen=True, kw_only=True)
class PretrainingPrediction:
    """What a pre-trained model said of a pair, masked or not, beside the truth, as `score pretraining` reads it."""

    masked_tokens: list[str] | None = None
    prediction: list[list[dict[str, Any]]]
    details: dict[str, Any]
    is_next: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Anything:
    """A record of which nothing is asked: a command that names its field by option checks it itself."""


def _is_list_of(kind: type) -> Callable[[Any], bool]:
    kinds = {kind}
    return lambda value: type(value) is list and kinds.issuperset(map(type, value))


def _is_sentences(value: Any) -> bool:
    is_words = _is_list_of(str)
    return type(value) is list and all(type(item) is str or is_words(item) for item in value)


# type(value) is …: JSON's true is no integer, although Python's is.
TYPES: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: type(value) is str, "a string"),
    int: (lambda value: type(value) is int, "an integer"),
    bool: (lambda value: type(value) is bool, "true or false"),
    list[str]: (_is_list_of(str), "a list of strings"),
    list[int]: (_is_list_of(int), "a list of integers"),
    list[list[dict[str, Any]]]: (_is_list_of(list), "a list of lists"),
    list[str | list[str]]: (_is_sentences, "a list of sentences, each a string or a list of words"),
    dict[str, Any]: (lambda value: type(value) is dict, "an object"),
}


@cache
def checker(schema: type) -> Callable[[Record], None]:
    """Returns a function that raises `BadData`, naming the field, where a record does not follow the schema."""
    hints = get_type_hints(schema)
    rows = []
    for field in fields(schema):
        optional = field.default is not MISSING
        kind = next((known for known in TYPES if hints[field.name] in (known, known | None)), None)
        if kind is not None:
            rows.append((field.name, optional, *TYPES[kind]))
    one_of: tuple[str, ...] = getattr(schema, "one_of", ())

    def check(record: Record) -> None:
        for name, optional, is_valid, expected in rows:
            value = record.get(name)
            if not (is_valid(value) or (value is None and optional)):
                raise BadData(field=name, found=value, expected=expected)
        if one_of and all(record.get(name) is None for name in one_of):
            raise BadData(field=one_of[0], found=None, expected=f"one of {', '.join(one_of)}")

    return check


_canonical = json.JSONEncoder(sort_keys=True).encode


def key(record: Record, index: int) -> str:
    """Returns what a record's randomness depends on: its id, or its index in the stream where it has none."""
    identity = record.get("id")
    return f"#{index}" if identity is None else _canonical(identity)


def as_text(identity: Any) -> str:
    """Returns an id as a string: itself if it is one, else its JSON."""
    return identity if isinstance(identity, str) else json.dumps(identity)


def randomness(seed: int, epoch: int, key: str) -> random.Random:
    """Returns the random numbers of one record in one epoch (or copy), the same on every machine and version.

    They depend on nothing else, so that a record can be made again without replaying the stream.
    """
    digest = hashlib.blake2b(f"{seed} {epoch} {key}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))

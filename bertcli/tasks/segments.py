"""What a record of any type is to BERT: sequences of one segment or two, as pieces, before windows are made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BadData
from bertcli.records import TYPES, Choices, Document, MinimalPair, Pair, Question, Record, Sentence, Texts, checker
from bertcli.schemes import borders
from bertcli.text.wordpiece import WordPiece


class Segments(NamedTuple):
    """Pieces of one segment or two, without [CLS] and the last [SEP] of each.

    Of words there is also where each one's first piece is: (W,).
    """

    first: list[int]
    second: list[int] | None = None
    words: NDArray[np.int64] | None = None


def segments(wordpiece: WordPiece, record: Record, field: str | None = None) -> list[Segments]:
    """Returns the sequences of a record: one for each choice where it has some, of a minimal pair two, else one.

    The first of `READERS` whose fields are there reads it, unless `field` names a string or a list of words. Raises
    `BadData` naming the field at fault.
    """
    if field is not None:
        return [_of_field(wordpiece, record, field)]
    for names, read in READERS.items():
        if all(record.get(name) is not None for name in names):
            return read(wordpiece, record)
    expected = "words, or question and context, or text, or sentences, or tokens, or good and bad"
    raise BadData(f"nothing to read: none of {expected}", field="text")


def document(
    wordpiece: WordPiece, words: Sequence[str], starts: list[int] | None
) -> tuple[list[int], NDArray[np.int64]]:
    """Returns the pieces of words, with [SEP] between sentences, and where each word's first piece is: (W,).

    `starts` are the sentences' first words, None for a single sentence. Raises `BadData` where they are not.
    """
    pieces = wordpiece.encode_words(words)
    for _, end in borders(starts, len(words))[:-1]:
        pieces[end - 1] = [*pieces[end - 1], wordpiece.sep]
    firsts = np.array([*accumulate(map(len, pieces), initial=0)][:-1], np.int64)
    return list(chain.from_iterable(pieces)), firsts


def _of_words(wordpiece: WordPiece, words: Sequence[str], starts: list[int] | None = None) -> Segments:
    ids, firsts = document(wordpiece, words, starts)
    return Segments(ids, words=firsts)


def _of_field(wordpiece: WordPiece, record: Record, field: str) -> Segments:
    value, kind = record.get(field), TYPES[str | list[str]]
    if not kind.is_valid(value):
        raise kind.fault(field, value)
    return Segments(wordpiece.text_ids(value)) if isinstance(value, str) else _of_words(wordpiece, value or [])


def _of_tagging(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(Sentence)(record)
    return [_of_words(wordpiece, record["words"], record.get("sentences"))]


def _of_question(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(Question)(record)
    return [Segments(wordpiece.text_ids(record["question"]), wordpiece.text_ids(record["context"]))]


def _of_choices(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(Choices)(record)
    if not record["choices"]:
        raise BadData(field="choices", found=[], expected="one text or more")
    text = wordpiece.text_ids(record["text"])
    return [Segments(text, wordpiece.text_ids(choice)) for choice in record["choices"]]


def _of_texts(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(Texts)(record)
    text, pair = wordpiece.text_ids(record["text"]), record.get("text_pair")
    return [Segments(text, None if pair is None else wordpiece.text_ids(pair))]


def _of_sentences(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(Document)(record)
    sentences = [sentence for sentence in record["sentences"] if sentence]
    if all(isinstance(sentence, list) for sentence in sentences):
        starts = [*accumulate(map(len, sentences), initial=0)][:-1]
        return [_of_words(wordpiece, list(chain.from_iterable(sentences)), starts)]
    pieces = [
        wordpiece.text_ids(each) if isinstance(each, str) else [*chain.from_iterable(wordpiece.encode_words(each))]
        for each in sentences
    ]
    return [Segments([*chain.from_iterable([wordpiece.sep, *own] for own in pieces if own)][1:])]


def _of_pair(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(Pair)(record)
    ids, border = wordpiece.ids_of(record["tokens"]), record.get("segment_b")
    ends = [len(ids)] if border is None else [border, len(ids)]
    is_framed = ids[:1] == [wordpiece.cls] and 1 < ends[0] <= ends[-1] <= len(ids) and border != len(ids)
    if not is_framed or any(ids[end - 1] != wordpiece.sep for end in ends):
        told = "[CLS] A [SEP], or [CLS] A [SEP] B [SEP] with B from segment_b on, as pairs makes them"
        raise BadData("tokens without their frame", field="tokens", found=" ".join(record["tokens"]), expected=told)
    return [Segments(ids[1 : ends[0] - 1], None if border is None else ids[border:-1])]


def _of_minimal_pair(wordpiece: WordPiece, record: Record) -> list[Segments]:
    checker(MinimalPair)(record)
    return [Segments(wordpiece.text_ids(record[name])) for name in ("good", "bad")]


READERS: dict[tuple[str, ...], Callable[[WordPiece, Record], list[Segments]]] = {
    ("words",): _of_tagging,
    ("question", "context"): _of_question,
    ("text", "choices"): _of_choices,
    ("text",): _of_texts,
    ("sentences",): _of_sentences,
    ("tokens",): _of_pair,
    ("good", "bad"): _of_minimal_pair,
}  # by the fields that have to be there, in the order in which they are looked for

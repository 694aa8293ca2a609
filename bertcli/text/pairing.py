"""The pairs of a stream of documents, of which no more is held than a window.

Inside, a token is a code: its id, or ~id where it goes on with a word or is special, so that word borders travel with
the ids at four bytes a token.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from bertcli.errors import BadData, many
from bertcli.randomness import randomness
from bertcli.records import Record, as_text, key
from bertcli.text import sentences
from bertcli.text.batch import BatchEncoder
from bertcli.text.pairs import Sentences, make_pairs, pack
from bertcli.text.wordpiece import WordPiece, unknown_warnings
from bertcli.text.words import portions

WINDOW, WINDOW_TOKENS = 1000, 1 << 25  # documents and tokens that a window holds at most: 128 MB


@dataclass(frozen=True)
class PairRule:
    """How documents are cut; lengths in tokens, [CLS] and [SEP] included."""

    max_length: int = 128
    short: float = 0.1
    copies: int = 1
    window: int | None = None
    single: bool = False


# -- documents to codes ----------------------------------------------------------------------------------------------


class SplitDocument(NamedTuple):
    """A document's sentences; `name` is its id as a string, `key` what its randomness depends on."""

    name: str
    key: str
    sentences: list[str | list[str]]


class CodedDocument(NamedTuple):
    """The same as codes."""

    name: str
    key: str
    sentences: Sentences[int]
    empty: int  # sentences left out
    unknown: int  # tokens that are [UNK]


class Codebook:
    """Turns documents into codes, and codes into pieces."""

    def __init__(self, wordpiece: WordPiece, split: sentences.Split) -> None:
        """Take the vocabulary, and how a text is cut into sentences."""
        self._wordpiece, self._encoder, self._split = wordpiece, BatchEncoder(wordpiece), split
        ids = np.arange(len(wordpiece.pieces), dtype=np.int32)
        goes_on = np.array([piece.startswith("##") for piece in wordpiece.pieces])
        self._codes = np.where(goes_on, ~ids, ids)
        # A negative index counts from the end: the one array finds the pieces of ids and of ~ids.
        self._pieces = np.array(wordpiece.pieces + wordpiece.pieces[::-1], dtype=object)
        self._cls, self._sep = array("i", [~wordpiece.cls]), array("i", [~wordpiece.sep])

    def split(self, record: Record, index: int) -> SplitDocument:
        """Returns a document's name, key and sentences; `index` is its place in the stream."""
        identity, given = record.get("id"), record.get("sentences")
        name = str(index) if identity is None else as_text(identity)
        return SplitDocument(name, key(record, index), [*self._split(record["text"])] if given is None else given)

    def documents(self, split: Sequence[SplitDocument]) -> list[CodedDocument]:
        """Returns documents as codes, their sentences tokenised many at once."""
        encoded = self._of_texts(each for document in split for each in document.sentences if isinstance(each, str))
        return [self._coded(document, encoded) for document in split]

    def _coded(self, document: SplitDocument, encoded: Iterator[array[int]]) -> CodedDocument:
        parts = [next(encoded) if isinstance(each, str) else self._of_words(each) for each in document.sentences]
        tokens = array("i")
        for part in parts:
            tokens += part
        coded = Sentences(tokens, array("i", [0, *accumulate(filter(None, map(len, parts)))]))
        unknown = tokens.count(self._wordpiece.unk) + tokens.count(~self._wordpiece.unk)
        return CodedDocument(document.name, document.key, coded, len(parts) - len(coded), unknown)

    def _of_texts(self, texts: Iterable[str]) -> Iterator[array[int]]:
        for together in portions(texts):
            encodings = self._encoder.encode(together)
            codes = array("i", self._codes[encodings.ids].tobytes())
            yield from (codes[start:end] for start, end in pairwise(encodings.bounds.tolist()))

    def _of_words(self, sentence: list[str]) -> array[int]:
        words = map(self._wordpiece.text_ids, sentence)  # a word of which nothing is left is none
        return array("i", [index if place == 0 else ~index for word in words for place, index in enumerate(word)])

    def record(self, first: Sequence[int], second: Sequence[int] = (), is_next: bool | None = None) -> Record:
        """Returns a pair, or a segment, of codes as a record without its id."""
        sequence = self._cls + array("i", first) + self._sep
        if second:
            sequence += array("i", second) + self._sep
        codes = np.frombuffer(sequence, dtype=np.int32)
        pair = {"segment_b": len(first) + 2, "is_next": is_next} if second else {}
        tokens = self._pieces.take(codes).tolist()
        return {"tokens": tokens, **pair, "word_starts": np.flatnonzero(codes >= 0).tolist()}


# -- over a stream ---------------------------------------------------------------------------------------------------


@dataclass
class Summary:
    """What was read and made, for people."""

    documents: int = 0
    sentences: int = 0
    pieces: int = 0
    unknown: int = 0
    empty_documents: int = 0
    empty_sentences: int = 0
    pairs: int = 0
    next_pairs: int = 0
    single: bool = False
    lone: bool = False

    def __str__(self) -> str:
        """Returns one line of counts."""
        ratio = self.sentences / self.documents if self.documents else 0
        unknown = self.unknown / self.pieces if self.pieces else 0
        made = many(self.pairs, "segment" if self.single else "pair")
        balance = "" if self.single else f", {self.share:.0%} is_next"
        empty = f"{many(self.empty_documents, 'empty document')} and {many(self.empty_sentences, 'empty sentence')}"
        return (
            f"{many(self.documents, 'document')}, {ratio:.1f} sentences a document, {unknown:.2%} of the pieces [UNK], "
            f"{made}{balance}; {empty} skipped"
        )

    @property
    def share(self) -> float:
        """The share of the pairs that are is_next."""
        return self.next_pairs / self.pairs if self.pairs else 0

    def warnings(self) -> list[str]:
        """Returns what looks wrong with the pairs."""
        unknown = unknown_warnings(self.unknown, self.pieces)
        error = self.pairs**-0.5 if self.pairs else 0  # two standard errors of a share: a few pairs prove nothing
        if self.single or not self.documents or (self.pairs and 0.4 - error <= self.share <= 0.6 + error):
            return unknown
        if not self.pairs:
            return [*unknown, "no pair: one sentence alone needs another document to take a segment from"]
        if self.lone:
            return [*unknown, "a lone document has no other to take a random segment from: every pair is is_next"]
        few = "where a document, or the room for a pair, holds one sentence, none can follow"
        cause = few if self.share < 0.4 else "do the documents repeat?"
        return [*unknown, f"{self.share:.0%} of the pairs are is_next, not 40-60% ({cause})"]


class Pairing:
    """Makes the pairs of a stream of documents."""

    def __init__(self, codebook: Codebook, rule: PairRule, seed: int) -> None:
        """Read nothing yet."""
        self._codebook, self._rule, self._seed = codebook, rule, seed
        self._window = rule.window or WINDOW
        self.summary = Summary(single=rule.single)

    def pairs(
        self, documents: Iterable[CodedDocument], pool: Sequence[CodedDocument] | None = None
    ) -> Iterator[Record]:
        """Yields the pairs of the documents in order, those of a document once the next one has been read.

        Random segments come from the pool, else from the last `window` documents besides the pair's own.
        """
        others = [document.sentences for document in pool or () if document.sentences]
        if pool is not None and not others:
            raise BadData("the pool has no document to take a random segment from")
        window: deque[Sentences[int]] = deque()
        held = 0  # tokens and borders
        waiting: CodedDocument | None = None
        for document in filter(self._counted, documents):
            if pool is not None:
                yield from self._records(document, others)
                continue
            held += _weight(document.sentences)
            if waiting is not None:
                window.append(document.sentences)
                while len(window) > 1 and (len(window) > self._window or held > WINDOW_TOKENS):
                    held -= _weight(window.popleft())
                yield from self._records(waiting, window)
                window[-1] = waiting.sentences  # no longer out of its own window, and its follower not yet in it
            waiting = document
        if waiting is not None:
            self.summary.lone = self.summary.documents == 1
            yield from self._records(waiting, window)

    def _counted(self, document: CodedDocument) -> bool:
        """Returns whether there is anything in a document."""
        self.summary.empty_sentences += document.empty
        self.summary.sentences += len(document.sentences)
        self.summary.pieces += len(document.sentences.tokens)
        self.summary.unknown += document.unknown
        self.summary.documents += len(document.sentences) > 0
        self.summary.empty_documents += len(document.sentences) == 0
        return len(document.sentences) > 0

    def _records(self, document: CodedDocument, others: Sequence[Sentences[int]]) -> Iterator[Record]:
        number = 0
        for copy in range(self._rule.copies):
            rng = randomness(self._seed, copy, document.key)
            made = self._segments(document, copy, rng) if self._rule.single else self._cut(document, others, rng)
            for record in made:
                self.summary.pairs += 1
                yield {"id": f"{document.name}-{number}", **record}
                number += 1

    def _segments(self, document: CodedDocument, copy: int, rng: random.Random) -> Iterator[Record]:
        room = self._rule.max_length - 2
        for segment in pack(document.sentences, room, self._rule.short, rng, is_copy=copy > 0):
            yield self._codebook.record(segment)

    def _cut(self, document: CodedDocument, others: Sequence[Sentences[int]], rng: random.Random) -> Iterator[Record]:
        room = self._rule.max_length - 3
        for first, second, is_next in make_pairs(document.sentences, others, room, self._rule.short, rng):
            self.summary.next_pairs += is_next
            yield self._codebook.record(first, second, is_next)


def _weight(sentences: Sentences[int]) -> int:
    return len(sentences.tokens) + len(sentences.borders)

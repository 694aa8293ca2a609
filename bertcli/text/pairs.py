"""Documents to pairs of segments for next-sentence prediction (paper §3.1 and §A.2).

`make_pairs` and `pack` are the algorithms, on any tokens. `Pairing` runs them over a stream of documents and
holds no more of it than a window. Inside, a token is a code: its id, or ~id where it goes on with a word, so
that word borders travel with the ids at four bytes a token.
"""

from __future__ import annotations

import random
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeVar

from bertcli.folder import CLS, SEP
from bertcli.records import Record, as_text, key, randomness
from bertcli.text.sentences import Split
from bertcli.text.wordpiece import WordPiece

T = TypeVar("T")
Tokens = Sequence[T]

TRIES = 10  # draws for another document before a segment is taken from A's own document, as is_next


@dataclass(frozen=True)
class PairRule:
    """How documents are cut; lengths in tokens, [CLS] and [SEP] included."""

    max_length: int = 128
    short: float = 0.1
    copies: int = 1
    window: int = 1000
    single: bool = False


# -- the algorithms ------------------------------------------------------------------------------------------


def make_pairs(
    document: Sequence[Tokens[T]],
    others: Sequence[Sequence[Tokens[T]]],
    room: int,
    short: float,
    rng: random.Random,
) -> Iterator[tuple[list[T], list[T], bool]]:
    """Yields (segment A, segment B, is_next) of one document, at most `room` tokens together, neither empty.

    A is the beginning of the next `target` tokens' sentences; B is the rest of them, or with probability 0.5,
    and where there is no rest, a passage of another document; sentences not used then are put back. The
    target is the room, or for a share `short` of the documents a uniform draw from 2…room. `others` may hold
    the document itself, from which no random segment comes; where nothing else is found B is the rest, and a
    lone last sentence is left out. Source: Google's `create_instances_from_document`.
    """
    target = 2 + _below(room - 1, rng) if rng.random() < short else room
    chunk: list[Tokens[T]] = []
    position = length = 0
    while position < len(document):
        chunk.append(document[position])
        length += len(document[position])
        position += 1
        if position < len(document) and length < target:
            continue
        passage = None
        end = 1 + _below(len(chunk) - 1, rng) if len(chunk) > 1 else 1
        first = list(chain.from_iterable(chunk[:end]))
        if len(chunk) == 1 or rng.random() < 0.5:
            passage = _passage(document, others, target - len(first), rng)
        if passage is not None:
            position -= len(chunk) - end
        elif len(chunk) == 1:
            continue
        second = list(chain.from_iterable(chunk[end:])) if passage is None else passage
        yield *_truncated(first, second, room, rng), passage is None
        chunk, length = [], 0


def pack(document: Sequence[Tokens[T]], room: int, short: float, rng: random.Random) -> Iterator[list[T]]:
    """Yields a document's sentences packed whole into segments of at most `room` tokens, each token once.

    A sentence that is longer than a segment is cut. As for pairs, a share `short` of the documents is packed
    shorter.
    """
    target = 2 + _below(room - 1, rng) if rng.random() < short else room
    segment: list[T] = []
    for sentence in document:
        if segment and len(segment) + len(sentence) > target:
            yield segment
            segment = []
        segment.extend(sentence)
        if len(segment) > target:
            *full, segment = [segment[start : start + target] for start in range(0, len(segment), target)]
            yield from full
    if segment:
        yield segment


def _passage(
    document: Sequence[Tokens[T]], others: Sequence[Sequence[Tokens[T]]], length: int, rng: random.Random
) -> list[T] | None:
    """Returns sentences from a random place in another document, until they make `length` tokens."""
    for _ in range(TRIES if others else 0):
        other = others[_below(len(others), rng)]
        if other is document or other == document:
            continue
        passage: list[T] = []
        for index in range(_below(len(other), rng), len(other)):
            passage += other[index]
            if len(passage) >= length:
                break
        return passage
    return None


def _truncated(first: list[T], second: list[T], room: int, rng: random.Random) -> tuple[list[T], list[T]]:
    """Returns the segments cut to `room`, token by token off the longer one's front or back by a coin."""
    lengths, fronts = [len(first), len(second)], [0, 0]
    while sum(lengths) > room:
        longer = 0 if lengths[0] > lengths[1] else 1
        lengths[longer] -= 1
        fronts[longer] += rng.random() < 0.5
    kept = [part[front : front + size] for part, front, size in zip((first, second), fronts, lengths, strict=True)]
    return kept[0], kept[1]


def _below(limit: int, rng: random.Random) -> int:
    # random() alone gives the same numbers in every version of Python.
    return int(rng.random() * limit)


# -- over a stream -------------------------------------------------------------------------------------------


class Sentences(Sequence["array[int]"]):
    """A document's sentences as codes in one flat array."""

    def __init__(self, sentences: Iterable[Iterable[int]]) -> None:
        """Keep the sentences that are not empty."""
        self._codes, self._ends = array("i"), array("i", [0])
        for sentence in sentences:
            self._codes.extend(sentence)
            if len(self._codes) > self._ends[-1]:
                self._ends.append(len(self._codes))

    def __len__(self) -> int:
        """Returns the number of sentences."""
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> array[int]:  # type: ignore[override]  # no slices
        """Returns one sentence's codes."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._codes[self._ends[index] : self._ends[index + 1]]

    def __eq__(self, other: object) -> bool:
        """Returns whether two documents have the same sentences."""
        return isinstance(other, Sentences) and (self._ends, self._codes) == (other._ends, other._codes)

    __hash__ = None  # type: ignore[assignment]


class Encoded(NamedTuple):
    """A document as codes; `name` is its id as a string, `key` what its randomness depends on."""

    name: str
    key: str
    sentences: Sentences


@dataclass
class Summary:
    """What was read and made, for people."""

    documents: int = 0
    sentences: int = 0
    empty_documents: int = 0
    empty_sentences: int = 0
    pairs: int = 0
    next_pairs: int = 0
    single: bool = False
    lone: bool = False

    def __str__(self) -> str:
        """Returns one line of counts."""
        ratio = self.sentences / self.documents if self.documents else 0
        made = f"{self.pairs} segments" if self.single else f"{self.pairs} pairs, {self.share:.0%} is_next"
        skipped = f"{self.empty_documents} empty documents and {self.empty_sentences} empty sentences skipped"
        return f"{self.documents} documents, {ratio:.1f} sentences a document, {made}; {skipped}"

    @property
    def share(self) -> float:
        """The share of the pairs that are is_next."""
        return self.next_pairs / self.pairs if self.pairs else 0

    def lines(self) -> list[str]:
        """Returns what to tell people: the counts, and what looks wrong with the pairs, if anything."""
        warning = self._warning()
        return [str(self), warning] if warning else [str(self)]

    def _warning(self) -> str | None:
        if self.single or not self.pairs or 0.4 <= self.share <= 0.6:
            return None
        if self.lone:
            return "warning: a lone document has no other to take a random segment from: every pair is is_next"
        cause = "documents of few sentences?" if self.share < 0.4 else "do the documents repeat?"
        return f"warning: {self.share:.0%} of the pairs are is_next, not 40-60% ({cause})"


class Pairing:
    """Makes the pairs of a stream of documents."""

    def __init__(self, wordpiece: WordPiece, rule: PairRule, split: Split, seed: int) -> None:
        """Read nothing yet."""
        self._wordpiece, self._rule, self._split, self._seed = wordpiece, rule, split, seed
        self._codes = [~index if piece.startswith("##") else index for index, piece in enumerate(wordpiece.pieces)]
        # A negative index counts from the end: the one list finds the pieces of ids and of ~ids.
        self._pieces = wordpiece.pieces + wordpiece.pieces[::-1]
        self._read = 0
        self.summary = Summary(single=rule.single)

    def encode(self, record: Record) -> Encoded:
        """Returns a document as codes."""
        index, self._read = self._read, self._read + 1
        sentences, empty = self._sentences(record)
        self.summary.empty_sentences += empty
        identity = record.get("id")
        name = str(index) if identity is None else as_text(identity)
        return Encoded(name, key(record, index), sentences)

    def pool(self, records: Iterable[Record]) -> list[Sentences]:
        """Returns the documents, without empty ones, for random segments to come from."""
        return [sentences for sentences, _ in map(self._sentences, records) if sentences]

    def _sentences(self, record: Record) -> tuple[Sentences, int]:
        """Returns a document's sentences, and how many more there are that are empty."""
        texts = record.get("sentences")
        if texts is None:
            texts = self._split(record["text"])
        sentences = Sentences(map(self._sentence, texts))
        return sentences, len(texts) - len(sentences)

    def _sentence(self, sentence: str | list[str]) -> list[int]:
        if isinstance(sentence, str):
            return [self._codes[index] for index in self._wordpiece.text_ids(sentence)]
        words = self._wordpiece.encode_words(word for word in sentence if word and not word.isspace())
        return [index if place == 0 else ~index for word in words for place, index in enumerate(word)]

    def pairs(self, documents: Iterable[Encoded], pool: Sequence[Sentences] | None = None) -> Iterator[Record]:
        """Yields the pairs of the documents in order, those of a document once the next one has been read.

        Random segments come from the pool, else from the last `window` documents besides the pair's own.
        """
        window: deque[Sentences] = deque(maxlen=self._rule.window + 1)
        waiting: Encoded | None = None
        for document in documents:
            if not document.sentences:
                self.summary.empty_documents += 1
                continue
            self.summary.documents += 1
            self.summary.sentences += len(document.sentences)
            if pool is not None:
                yield from self._records(document, pool)
                continue
            window.append(document.sentences)
            if waiting is not None:
                yield from self._records(waiting, [other for other in window if other is not waiting.sentences])
            waiting = document
        if waiting is not None:
            self.summary.lone = self.summary.documents == 1
            yield from self._records(waiting, list(window)[:-1])

    def _records(self, document: Encoded, others: Sequence[Sentences]) -> Iterator[Record]:
        number = 0
        for copy in range(self._rule.copies):
            rng = randomness(self._seed, copy, document.key)
            for record in self._once(document.sentences, others, rng):
                yield {"id": f"{document.name}-{number}", **record}
                number += 1

    def _once(self, sentences: Sentences, others: Sequence[Sentences], rng: random.Random) -> Iterator[Record]:
        length, short = self._rule.max_length, self._rule.short
        if self._rule.single:
            for segment in pack(sentences, length - 2, short, rng):
                self.summary.pairs += 1
                yield self._record(segment)
            return
        for first, second, is_next in make_pairs(sentences, others, length - 3, short, rng):
            self.summary.pairs += 1
            self.summary.next_pairs += is_next
            yield self._record(first, second, is_next)

    def _record(self, first: list[int], second: list[int] | None = None, is_next: bool | None = None) -> Record:
        tokens = [CLS, *map(self._pieces.__getitem__, first), SEP]
        starts = [place for place, code in enumerate(first, 1) if code >= 0]
        record: Record = {"tokens": tokens}
        if second is not None:
            begin = len(tokens)
            tokens += [*map(self._pieces.__getitem__, second), SEP]
            starts += [place for place, code in enumerate(second, begin) if code >= 0]
            record |= {"segment_b": begin, "is_next": is_next}
        return record | {"word_starts": starts}

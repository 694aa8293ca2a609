"""Many texts to ids at once: `words.py` says which words they are, and each distinct one is cut once.

Shapes: t texts, w words, p pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress
from typing import Any

import numpy as np

from bertcli.errors import BadData, many
from bertcli.records import Record
from bertcli.stages import Tally
from bertcli.stream import joined
from bertcli.text.normalize import is_plain
from bertcli.text.wordpiece import WordPiece, unknown_warnings
from bertcli.text.words import Found, Integers, Small, WordTable, grown


@dataclass(frozen=True)
class Encodings:
    """The ids [p] of some texts; text i has those from `bounds[i]` to `bounds[i + 1]` [t + 1]."""

    ids: Small
    bounds: Integers
    _found: Found
    _counts: Integers  # the pieces of each word [w]
    _spans: Small  # where a piece begins and ends in its word [2, all pieces]
    _places: Integers  # of the texts' pieces among those [p]

    @cached_property
    def offsets(self) -> Integers:
        """Where each piece begins and ends in its text [p, 2], in code points."""
        begins = np.repeat(_code_points(self._found), self._counts)
        return (begins + self._spans[:, self._places]).T.copy()


class BatchEncoder:
    """Encodes many texts at once, many times faster than one by one: what words became is kept in arrays."""

    def __init__(self, wordpiece: WordPiece) -> None:
        """Know no word yet."""
        self.wordpiece = wordpiece
        self._lengths = np.array(wordpiece.lengths, dtype=np.int32)
        self._words = WordTable(lowercase=wordpiece.casing.lowercase, split_cjk=wordpiece.casing.split_cjk)
        self._forget()

    def _forget(self) -> None:
        self._words.clear()
        # By number: where a word's first piece is, and how many it has.
        self._known, self._pieces = 0, np.zeros((2, 1 << 12), dtype=np.int32)
        # The pieces of one word after those of another: id, start and end in the word.
        self._held, self._store = 0, np.zeros((3, 1 << 13), dtype=np.int32)

    def encode(self, texts: Sequence[str]) -> Encodings:
        """Returns the pieces of some texts."""
        if self._words.is_full:
            self._forget()
        found = self._words.find(texts)
        self._learn([word.decode() for word in self._words.words[self._known :]])
        firsts, counts = self._pieces[:, found.numbers]
        ends = np.cumsum(counts, dtype=np.int64)
        total = ends[-1] if len(ends) else 0
        # A word's n-th piece lies n places after its first.
        places = np.repeat(firsts - (ends - counts), counts) + np.arange(total)
        bounds = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(found.counts)])]
        return Encodings(self._store[0, places], bounds, found, counts, self._store[1:], places)

    def _learn(self, words: list[str]) -> None:
        if not words:
            return
        plain = np.fromiter(map(is_plain, words), dtype=bool, count=len(words))
        numbers = self._known + np.arange(len(words))
        self._known += len(words)
        self._keep(numbers[plain], *self._cut(list(compress(words, plain))))
        if others := list(compress(words, ~plain)):
            self._keep(numbers[~plain], *self._asked(others))

    def _cut(self, words: list[str]) -> tuple[Integers, Small]:
        """Returns how many pieces words have [w] that are one to BERT, and the pieces [3, p]."""
        cut = list(map(self.wordpiece.cut, words))
        counts, ids = _sizes(cut), np.array([*chain.from_iterable(cut)], dtype=np.int32)
        # A word that cannot be cut is one [UNK], of its own length.
        lengths = np.where(ids == self.wordpiece.unk, np.repeat(_sizes(words), counts), self._lengths[ids])
        ends = np.cumsum(lengths)
        begins = np.repeat((ends - lengths)[np.cumsum(counts) - counts], counts)
        return counts, np.stack([ids, ends - lengths - begins, ends - begins]).astype(np.int32)

    def _asked(self, words: list[str]) -> tuple[Integers, Small]:
        """Returns the same of any other words."""
        encodings = self.wordpiece.peer.encode_batch(words, add_special_tokens=False)
        ids = [*chain.from_iterable(encoding.ids for encoding in encodings)]
        offsets = [*chain.from_iterable(encoding.offsets for encoding in encodings)]
        return _sizes(encodings), np.vstack([ids, np.reshape(offsets, (len(ids), 2)).T]).astype(np.int32)

    def _keep(self, numbers: Integers, counts: Integers, pieces: Small) -> None:
        """Remember the pieces of words."""
        self._pieces = grown(self._pieces, self._known)
        self._pieces[:, numbers] = self._held + np.cumsum(counts) - counts, counts
        held, self._held = self._held, self._held + pieces.shape[1]
        self._store = grown(self._store, self._held)
        self._store[:, held : self._held] = pieces


def _sizes(items: Sequence[Sized]) -> Integers:
    return np.fromiter(map(len, items), dtype=np.int64, count=len(items))


def _code_points(found: Found) -> Integers:
    """Returns where each word begins in its text [w], in code points."""
    if not found.data.size or found.data.max() < 0x80:
        points = np.arange(len(found.data))
    else:
        points = np.cumsum((found.data & 0xC0) != 0x80)
    begins: Integers = np.repeat(points[found.begins], found.counts)
    return points[found.starts] - begins


# -- a stream --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PieceCounts(Tally):
    """What was tokenised."""

    records: int = 0
    pieces: int = 0
    unknown: int = 0

    def __str__(self) -> str:
        """Returns one line for people."""
        share = self.unknown / self.pieces if self.pieces else 0
        return f"{many(self.records, 'record')}, {many(self.pieces, 'piece')}, {share:.2%} of them [UNK]"

    def warnings(self) -> list[str]:
        """Returns what looks wrong."""
        return unknown_warnings(self.unknown, self.pieces)


class Tokenizing:
    """Adds the pieces of a field to the records of a stream: of `text`, else of `words`, if none is named."""

    def __init__(self, wordpiece: WordPiece, field: str | None = None) -> None:
        """Take the vocabulary and the field."""
        self._wordpiece, self._encoder, self._field = wordpiece, BatchEncoder(wordpiece), field

    def checked(self, record: Record, index: int) -> tuple[Record, str | list[str]]:
        """Returns a record and its field; raises `BadData` where that is neither a string nor a list of words."""
        field = self._field or ("words" if record.get("text") is None else "text")
        value = record.get(field)
        if not isinstance(value, str) and not (type(value) is list and all(isinstance(word, str) for word in value)):
            raise BadData(field=field, found=value, expected="a string or a list of words")
        return record, value

    def batch(self, records: Sequence[tuple[Record, str | list[str]]]) -> tuple[bytes, PieceCounts]:
        """Returns the lines of checked records with their pieces, and what was done."""
        made = list(self.tokenized(records))
        pieces = np.concatenate([np.zeros(0, dtype=np.int32), *(record["ids"] for record in made)])
        return joined(made), PieceCounts(len(made), len(pieces), int(np.count_nonzero(pieces == self._wordpiece.unk)))

    def tokenized(self, records: Sequence[tuple[Record, str | list[str]]]) -> Iterator[Record]:
        """Yields the records with `tokens`, `ids` and `offsets` of their fields; ids and offsets are arrays.

        For a list of words there is also `word_ids`, the word that each piece belongs to, and offsets count within the
        word; a word of which nothing is left is one [UNK].
        """
        encodings = self._encoder.encode([text for _, value in records for text in _texts(value)])
        begin = 0
        for record, value in records:
            end = begin + len(_texts(value))
            bounds = encodings.bounds[begin : end + 1]
            ids, offsets = encodings.ids[bounds[0] : bounds[-1]], encodings.offsets[bounds[0] : bounds[-1]]
            word_ids: dict[str, Any] = {}
            if isinstance(value, str):
                record.pop("word_ids", None)  # they would be of other pieces
            else:
                counts = np.diff(bounds)
                if (lost := np.flatnonzero(counts == 0)).size:
                    places = bounds[lost] - bounds[0]
                    ids = np.insert(ids, places, self._wordpiece.unk)
                    offsets = np.insert(offsets, places, [(0, len(value[word])) for word in lost], axis=0)
                word_ids = {"word_ids": np.repeat(np.arange(len(value)), np.maximum(counts, 1))}
            tokens = [self._wordpiece.pieces[index] for index in ids.tolist()]
            yield record | {"tokens": tokens, "ids": ids, "offsets": offsets} | word_ids
            begin = end


def _texts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value

"""Words cut into pieces, and pairs of neighbouring pieces joined to new ones, the most frequent pair first.

The pieces of all words stand in one array, so that a merge changes all its places at once. Shapes: w words, n places.
"""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bertcli.folder import Casing
from bertcli.text.wordpiece import WordPiece
from bertcli.text.words import Integers, Small

# -count, pieces, their ids, places of the left ones. Ids and places are small integers: half the memory.
Neighbours = tuple[int, tuple[str, str], tuple[int, int], Small]

GONE = -1  # the id at a place whose piece has been joined to the one before, and after the last word


class Cut(NamedTuple):
    """Distinct words as ids of pieces [n], one word after another, each with its length and its occurrences [w]."""

    pieces: list[str]
    unk: int  # the id of a word that cannot be cut
    ids: Small
    lengths: Small
    times: Integers

    @property
    def begins(self) -> Integers:
        """Returns where each word begins [w]."""
        return np.cumsum(self.lengths) - self.lengths

    def uses(self) -> dict[str, int]:
        """Returns how often each piece comes in the text."""
        counts = np.bincount(self.ids, np.repeat(self.times, self.lengths), len(self.pieces))
        return dict(zip(self.pieces, counts.astype(np.int64).tolist(), strict=True))


def cut_words(words: Mapping[str, int], pieces: Sequence[str]) -> Cut:
    """Returns normalised words, given with their occurrences, as greedy longest match cuts them."""
    wordpiece = WordPiece(list(pieces), Casing(lowercase=False, strip_accents=False))
    ids, lengths = array("i"), array("i")
    for word in words:
        found = wordpiece.cut(word)
        ids.extend(found)
        lengths.append(len(found))
    times = np.fromiter(words.values(), dtype=np.int64, count=len(words))
    return Cut(wordpiece.pieces, wordpiece.unk, np.array(ids, np.int32), np.array(lengths, np.int32), times)


class Merges:
    """The new pieces that merging makes of words: again and again, the pair of neighbours seen most often is joined.

    A pair is counted when it comes to be, and again when it has come to the top: if it is seen less often by then, it
    goes back down. More often it cannot be seen. All places where two neighbours will ever make up one piece have
    become the same pair by the same merges (and of an old piece, none are left by greedy longest match).
    """

    def __init__(self, cut: Cut, least: int) -> None:
        """Count all pairs; one that is seen less often than `least` is not joined."""
        self._pieces, self._least = list(cut.pieces), least
        end = len(cut.ids)  # stands for what is before a word and after it
        is_first = np.zeros(end + 1, dtype=bool)
        is_first[cut.begins] = is_first[end] = True
        places = np.arange(end + 1, dtype=np.int32)
        self._ids = np.append(cut.ids, np.int32(GONE))
        self._times = np.append(np.repeat(cut.times, cut.lengths), 0)
        self._next = np.where(np.append(is_first[1:], True), np.int32(end), places + 1)
        self._previous = np.where(is_first, np.int32(end), places - 1)
        self._heap: list[Neighbours] = []
        self._count(places[:end])

    def _count(self, lefts: Small) -> None:
        """Count the pairs whose left pieces are at some places, ascending."""
        ids, following = self._ids[lefts], self._ids[self._next[lefts]]
        is_pair = (ids != GONE) & (following != GONE)
        keys = ids[is_pair].astype(np.int64) << 32 | following[is_pair]
        order = keys.argsort(kind="stable")
        keys, lefts = keys[order], lefts[is_pair][order]
        if not keys.size:
            return
        begins = _run_begins(keys)
        counts = np.add.reduceat(self._times[lefts], begins)
        bounds = [*begins.tolist(), len(keys)]
        for run in np.flatnonzero(counts >= self._least).tolist():
            first, last = bounds[run : run + 2]
            left, right = divmod(int(keys[first]), 1 << 32)
            texts = self._pieces[left], self._pieces[right]
            heapq.heappush(self._heap, (-int(counts[run]), texts, (left, right), lefts[first:last]))

    def __iter__(self) -> Iterator[str]:
        """Yields the new pieces; of pairs that are seen equally often the first in order of code points is joined."""
        while self._heap:
            negative, texts, (left, right), lefts = heapq.heappop(self._heap)
            lefts = lefts[(self._ids[lefts] == left) & (self._ids[self._next[lefts]] == right)]
            count = int(self._times[lefts].sum())
            if count == -negative:
                self._pieces.append(texts[0] + texts[1].removeprefix("##"))
                self._join(lefts if left != right else self._apart(lefts))
                yield self._pieces[-1]
            elif count >= self._least:
                heapq.heappush(self._heap, (-count, texts, (left, right), lefts))

    def _join(self, lefts: Small) -> None:
        """Put the newest piece at the places of the left pieces of its pair."""
        rights = self._next[lefts]
        following = self._next[rights]
        self._ids[lefts], self._ids[rights] = len(self._pieces) - 1, GONE
        self._next[lefts], self._previous[following] = following, lefts
        lefts = np.concatenate((self._previous[lefts], lefts))
        lefts.sort()
        self._count(lefts[_run_begins(lefts)])

    def _apart(self, lefts: Small) -> Small:
        """Returns the places of pairs of equal pieces without those that overlap the pair before."""
        apart: list[int] = []
        taken = GONE
        for place, following in zip(lefts.tolist(), self._next[lefts].tolist(), strict=True):
            if place != taken:
                apart.append(place)
                taken = following
        return np.array(apart, np.int32)


def _run_begins(values: Small | Integers) -> Integers:
    """Returns where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))

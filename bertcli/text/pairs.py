"""Documents to pairs of segments for next-sentence prediction, the algorithm (paper §3.1 and §A.2).

It is a pure function of tokens, whatever they are, and of random numbers; `pairing.py` runs it over a stream.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from bertcli.randomness import below

T = TypeVar("T")

TRIES = 10  # draws for another document before a segment is taken from A's own document, as is_next
MANY = 1000  # tokens to be cut off, from which on one random number is as many coins as it has bits
COINS = 53


@dataclass(frozen=True, eq=False)
class Sentences(Generic[T]):
    """A document's tokens end to end; sentence i of them is `tokens[borders[i]:borders[i + 1]]`, and never empty."""

    tokens: Sequence[T]
    borders: Sequence[int]

    def __len__(self) -> int:
        """Returns the number of sentences."""
        return len(self.borders) - 1

    def until(self, first: int, length: int) -> int:
        """Returns the sentence before which those from one on have `length` tokens: at least that one is taken."""
        return min(len(self), bisect_left(self.borders, self.borders[first] + length, first + 1))

    def segment(self, first: int, last: int) -> Segment[T]:
        """Returns the tokens from one sentence to before another."""
        return Segment(self.tokens, self.borders[first], self.borders[last])

    @cached_property
    def digest(self) -> int:
        """What documents of the same tokens share; kept, because a long one may be drawn again and again."""
        return hash(tuple(self.tokens))

    def is_like(self, other: Sentences[T]) -> bool:
        """Returns whether another document has the same tokens."""
        return len(self.tokens) == len(other.tokens) and self.digest == other.digest


class Segment(NamedTuple, Generic[T]):
    """Tokens from a place of a document to before another, not copied until they are wanted."""

    document: Sequence[T]
    start: int
    end: int

    @property
    def size(self) -> int:
        """Returns the number of tokens."""
        return self.end - self.start

    def less(self, count: int, fronts: int) -> Segment[T]:
        """Returns the segment without `count` tokens, of which `fronts` are taken off its front."""
        return Segment(self.document, self.start + fronts, self.end - (count - fronts))

    @property
    def tokens(self) -> Sequence[T]:
        """Returns the tokens."""
        return self.document[self.start : self.end]


def make_pairs(
    document: Sentences[T], others: Sequence[Sentences[T]], room: int, short: float, rng: random.Random
) -> Iterator[tuple[Sequence[T], Sequence[T], bool]]:
    """Yields (segment A, segment B, is_next) of one document, at most `room` tokens together, neither empty.

    A is the beginning of the next `target` tokens' sentences; B is the rest of them, or with probability 0.5,
    and where there is no rest, a passage of another document; sentences not used then are put back. The
    target is the room, or for a share `short` of the documents a uniform draw from 2…room. `others` may hold
    the document itself, from which no random segment comes; where nothing else is found B is the rest, and a
    lone last sentence is left out. Source: Google's `create_instances_from_document`.
    """
    target = _target(room, short, rng)
    begin = 0
    while begin < len(document):
        end = document.until(begin, target)
        is_lone = end - begin == 1
        middle = end if is_lone else begin + 1 + below(end - begin - 1, rng)
        first = document.segment(begin, middle)
        passage = _passage(document, others, target - first.size, rng) if is_lone or rng.random() < 0.5 else None
        if passage is not None:
            yield *_truncated(first, passage, room, rng), False
        elif not is_lone:
            yield *_truncated(first, document.segment(middle, end), room, rng), True
        begin = end if passage is None else middle


def pack(
    document: Sentences[T], room: int, short: float, rng: random.Random, *, is_copy: bool = False
) -> Iterator[Sequence[T]]:
    """Yields a document's sentences packed whole into segments of at most `room` tokens, each token once.

    A sentence that is longer than a segment is cut. As for pairs, a share `short` of the documents is packed
    shorter. The first segment of a copy ends early, at random, so that the next ones too are cut at other places.
    """
    target = _target(room, short, rng)
    limit = 1 + below(target, rng) if is_copy else target
    begin = 0
    for start, end in pairwise(document.borders):
        if end - begin > limit and start > begin:
            yield document.tokens[begin:start]
            begin, limit = start, target
        while end - begin > target:
            yield document.tokens[begin : begin + limit]
            begin, limit = begin + limit, target
    if begin < document.borders[-1]:
        yield document.tokens[begin:]


def _target(room: int, short: float, rng: random.Random) -> int:
    return 2 + below(room - 1, rng) if rng.random() < short else room


def _passage(
    document: Sentences[T], others: Sequence[Sentences[T]], length: int, rng: random.Random
) -> Segment[T] | None:
    """Returns sentences from a random place in another document, until they make `length` tokens."""
    for _ in range(TRIES if others else 0):
        other = others[below(len(others), rng)]
        if other is not document and not other.is_like(document):
            first = below(len(other), rng)
            return other.segment(first, other.until(first, length))
    return None


def _truncated(first: Segment[T], second: Segment[T], room: int, rng: random.Random) -> tuple[Sequence[T], Sequence[T]]:
    """Returns the tokens cut to `room`, one by one off the longer segment's front or back by a coin.

    So the longer one is cut alone until both have the same length, and from then on they take turns, the second first.
    """
    surplus, gap = max(0, first.size + second.size - room), first.size - second.size
    alone = min(surplus, abs(gap))
    fronts = _heads(alone, rng)
    turns = [rng.random() < 0.5 for _ in range(surplus - alone)]
    seconds, firsts = turns[::2], turns[1::2]
    if gap > 0:
        first = first.less(alone, fronts)
    else:
        second = second.less(alone, fronts)
    return first.less(len(firsts), sum(firsts)).tokens, second.less(len(seconds), sum(seconds)).tokens


def _heads(coins: int, rng: random.Random) -> int:
    """Returns how many of so many coins fall on heads."""
    heads = 0
    while coins > MANY:
        heads += int(rng.random() * (1 << COINS)).bit_count()
        coins -= COINS
    return heads + sum(rng.random() < 0.5 for _ in range(coins))

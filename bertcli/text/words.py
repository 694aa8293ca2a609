"""The words of many texts at once, as numbers: a word that comes back is looked up, not cut again.

BERT's cleaning and splitting look at one character at a time, and blanks, marks and ideographs stand apart whatever is
beside them. So a text falls into words of three kinds: runs without any of these, single marks, single ideographs. A
run may still hold accents, control characters, or rare marks, and be no, one or several words to BERT; that depends on
the run alone, and is asked once for each distinct one.

Texts lie in one buffer as UTF-8, which numpy looks at whole. Shapes: n bytes, w words, t texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertcli.text.normalize import BLANKS, IDEOGRAPHS, MARKS, QUOTES

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]
Keys = NDArray[np.uint64]
Truths = NDArray[np.bool_]
Small = NDArray[np.int32]

# What a byte may be: blank, part of a run, and a bit each for the first and the last byte of a word by itself.
BLANK, RUN, FIRST, LAST = 0, 1, 2, 4
KINDS = np.full(256, RUN, dtype=np.uint8)
KINDS[list(BLANKS.encode())] = BLANK
KINDS[list(MARKS.encode())] = FIRST | LAST

# NUL is a control character like any other to BERT, and here no part of a word: zeros fill up its key.
AS_IT_IS = bytes.maketrans(b"\0", b"\1")
LOWER_CASE = AS_IT_IS.lower()

REMEMBERED, REMEMBERED_BYTES = 1 << 19, 1 << 26  # words and what is in them: about 100 MB, more if they are long
TOGETHER = 1 << 20  # characters
AT_ONCE = 1 << 17  # words, of which a text may have any number: 20 MB
KEY = 16  # bytes, as two integers; a longer word is looked up by itself
BLANK_IN_TEXT = re.compile(f"[{BLANKS}]")
FILLED = np.array([(1 << 8 * size) - 1 for size in range(9)], dtype=np.uint64)
SALTS = np.frombuffer(os.urandom(16), dtype=np.uint64) | np.uint64(1)  # no text can be made so that its words collide


class Found(NamedTuple):
    """The words of some texts: the number of each, its first byte and the byte after its last, [w] each.

    Bytes are counted in `data` [n], where text i begins at `begins[i]`; it has `counts[i]` of the words.
    """

    numbers: Integers
    starts: Integers
    stops: Integers
    counts: Integers
    begins: Integers
    data: Bytes


def borders(data: Bytes, *, split_cjk: bool) -> tuple[Integers, Integers]:
    """Returns where the words in a buffer [n] begin and end, [w] each; its first byte and its last are blank."""
    kinds = KINDS[data]
    lead = np.flatnonzero((data >= 0xE2) & (data <= 0xE9))  # the first of three bytes, from U+2000 to U+9FFF
    if lead.size:
        points = (data[lead] & 0xF).astype(np.int32) << 12 | (data[lead + 1] & 0x3F).astype(np.int32) << 6
        points |= data[lead + 2] & 0x3F
        alone = _is_within(points, QUOTES) | (split_cjk & _is_within(points, IDEOGRAPHS))
        lead = lead[alone]
        kinds[lead], kinds[lead + 1], kinds[lead + 2] = FIRST, BLANK, LAST
    run = (kinds & RUN).view(bool)
    first, last = (kinds & FIRST).astype(bool), (kinds & LAST).astype(bool)
    first[1:] |= run[1:] & ~run[:-1]
    last[:-1] |= run[:-1] & ~run[1:]
    return np.flatnonzero(first), np.flatnonzero(last) + 1


def _is_within(points: Small, characters: str) -> Truths:
    """Returns whether code points are of a range, given as in a regular expression."""
    first, last = map(ord, characters.split("-"))
    is_within: Truths = (points >= first) & (points <= last)
    return is_within


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Returns an array that has room for at least `size` along its last axis; it doubles, so that copies are few."""
    while array.shape[-1] < size:
        array = np.concatenate([array, np.zeros_like(array)], axis=-1)
    return array


class WordTable:
    """The distinct words met so far, numbered from 0.

    A hash table with linear probing made of arrays, so that all words of a text are looked up together.
    """

    def __init__(self, *, lowercase: bool, split_cjk: bool) -> None:
        """Know no word yet. `lowercase` is for ASCII letters, `split_cjk` makes ideographs words."""
        self._letters, self._split_cjk = LOWER_CASE if lowercase else AS_IT_IS, split_cjk
        self.clear()

    def clear(self) -> None:
        """Forget every word."""
        self.words: list[bytes] = []  # by number
        self.size = 0  # bytes in them
        self._long: dict[bytes, int] = {}
        self._keys = np.zeros((2, 1 << 12), dtype=np.uint64)  # by number; none of a long word
        self._rehash()

    @property
    def is_full(self) -> bool:
        """Returns whether it is time to forget: memory is bounded."""
        return len(self.words) > REMEMBERED or self.size > REMEMBERED_BYTES

    def find(self, texts: Sequence[str]) -> Found:
        """Returns the words of some texts; new ones get the next numbers."""
        parts = [text.encode() for text in texts]
        joined = b"\n".join([b"", *parts, b" " * KEY]).translate(self._letters)
        data = np.frombuffer(joined, dtype=np.uint8)
        sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
        ends = np.cumsum(1 + sizes)
        starts, stops = borders(data, split_cjk=self._split_cjk)
        counts = np.diff(np.searchsorted(starts, ends), prepend=0)
        numbers = np.empty(len(starts), dtype=np.int64)
        for begin in range(0, len(starts), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            numbers[part] = self._numbers(joined, starts[part], stops[part])
        return Found(numbers, starts, stops, counts, ends - sizes, data)

    def _numbers(self, joined: bytes, starts: Integers, stops: Integers) -> Integers:
        # Eight bytes from each place on; what lies behind the word is masked away.
        eight = np.ndarray((len(joined) - 7,), dtype="<u8", buffer=joined, strides=(1,))
        lengths = stops - starts
        keys = np.stack([eight[starts], eight[starts + 8]])
        keys &= FILLED[np.stack([np.minimum(lengths, 8), np.clip(lengths - 8, 0, 8)])]
        numbers = self._look_up(keys)
        for place in np.flatnonzero(lengths > KEY).tolist():
            numbers[place] = self._long_number(joined[starts[place] : stops[place]])
        new = np.flatnonzero(numbers < 0)
        while new.size:  # more than once only where two words have one hash
            first = new[np.unique(_hash(keys[:, new]), return_index=True)[1]]
            spans = zip(starts[first].tolist(), stops[first].tolist(), strict=True)
            self._add([joined[start:stop] for start, stop in spans], keys[:, first])
            numbers[new] = self._look_up(keys[:, new])
            new = new[numbers[new] < 0]
        return numbers

    def _look_up(self, keys: Keys) -> Integers:
        """Returns the numbers of words by their keys [2, w], -1 for those not met yet."""
        slots = self._home(keys)
        numbers = self._slots[slots]
        others = np.flatnonzero(self._is_other(numbers, keys))
        while others.size:
            slots[others] = (slots[others] + 1) % len(self._slots)
            numbers[others] = self._slots[slots[others]]
            others = others[self._is_other(numbers[others], keys[:, others])]
        return numbers

    def _is_other(self, numbers: Integers, keys: Keys) -> Truths:
        """Returns whether a slot holds a word, and not the one that was looked for."""
        is_same: Truths = (self._keys[0, numbers] == keys[0]) & (self._keys[1, numbers] == keys[1])
        return ~is_same & (numbers >= 0)

    def _home(self, keys: Keys) -> Integers:
        return (_hash(keys) >> np.uint64(65 - len(self._slots).bit_length())).astype(np.int64)

    def _long_number(self, word: bytes) -> int:
        if word not in self._long:
            self._long[word] = len(self.words)
            self._add([word], np.zeros((2, 0), dtype=np.uint64))
        return self._long[word]

    def _add(self, words: list[bytes], keys: Keys) -> None:
        """Number new words; short ones have keys."""
        new = np.arange(len(self.words), len(self.words) + keys.shape[1])
        self.words += words
        self.size += sum(map(len, words))
        before, self._keys = self._keys, grown(self._keys, len(self.words))
        self._keys[:, new] = keys
        self._place(new) if self._keys is before else self._rehash()

    def _rehash(self) -> None:
        self._slots = np.full(4 * self._keys.shape[1], -1, dtype=np.int64)
        self._place(np.flatnonzero(self._keys[0]))

    def _place(self, numbers: Integers) -> None:
        slots = self._home(self._keys[:, numbers])
        while numbers.size:
            free = self._slots[slots] < 0
            self._slots[slots[free]] = numbers[free]
            left = self._slots[slots] != numbers
            numbers, slots = numbers[left], (slots[left] + 1) % len(self._slots)


def _hash(keys: Keys) -> Keys:
    hashes: Keys = keys[0] * SALTS[0] + keys[1] * SALTS[1]
    return hashes


def portions(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yields texts in lists that are large enough to be looked at together, and small enough for the memory."""
    portion: list[str] = []
    size = 0
    for text in texts:
        portion.append(text)
        size += len(text)
        if size > TOGETHER:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def slices(text: str) -> Iterator[str]:
    """Yields a text in parts that are looked at together, cut before a blank, for those who ask only for its words."""
    start = 0
    while len(text) - start > TOGETHER:
        blank = BLANK_IN_TEXT.search(text, start + TOGETHER)
        if blank is None:
            break
        yield text[start : blank.start()]
        start = blank.start()
    yield text[start:]

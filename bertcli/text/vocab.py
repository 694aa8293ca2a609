"""A WordPiece vocabulary learned from text, the same for any order of the lines.

The most frequent pair of neighbouring symbols becomes one symbol, again and again; equal counts are decided
by the symbols themselves. Memory grows with the distinct words, never with the text.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from bertcli.errors import BadData
from bertcli.folder import SPECIAL, Casing
from bertcli.records import Record
from bertcli.text.normalize import splitter
from bertcli.text.wordpiece import WordPiece, spaced

LONGEST_WORD = 100  # code points; a longer word is [UNK] to the tokenizer, so it teaches nothing
LEAST = 2  # a pair seen only once is not worth a piece
ALPHABET_SHARE = 0.5  # of the vocabulary at most, so that Chinese characters leave room for words,
ALPHABET_LEAST = 200  # but room for letters goes before
HANGUL_SHARE = 0.01  # of the letters, from which on accents are not stripped: that would take syllables apart
DISTINCT_CHUNKS = 1 << 20  # held before they are counted as words

HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7af\ud7b0-\ud7ff]")

Pair = tuple[str, str]


# -- counting words ------------------------------------------------------------------------------------------


def texts(record: Record) -> Iterator[str]:
    """Yields the texts of a document: its text, or its sentences, or the words that these are given as."""
    if record.get("sentences") is None:
        yield record["text"]
        return
    for sentence in record["sentences"]:
        yield from [sentence] if isinstance(sentence, str) else sentence


def count_words(texts: Iterable[str], casing: Casing) -> Counter[str]:
    """Returns how often each word comes, cut from the texts by BERT's rules."""
    words: Counter[str] = Counter()
    chunks: Counter[str] = Counter()
    split = splitter(casing)
    for text in texts:
        chunks.update(spaced(text).split(" "))
        if len(chunks) > DISTINCT_CHUNKS:
            _add_words(words, chunks, split)
            chunks.clear()
    _add_words(words, chunks, split)
    return words


def recount(words: Mapping[str, int], casing: Casing) -> Counter[str]:
    """Returns the counts of the words under a different casing."""
    recounted: Counter[str] = Counter()
    _add_words(recounted, words, splitter(casing))
    return recounted


def _add_words(words: Counter[str], chunks: Mapping[str, int], split: Callable[[str], list[str]]) -> None:
    for chunk, count in chunks.items():
        for word in split(chunk):
            words[word] += count


def is_hangul(words: Mapping[str, int]) -> bool:
    """Returns whether more than a hundredth of the letters are Hangul."""
    letters = sum(count * sum(map(str.isalpha, word)) for word, count in words.items())
    hangul = sum(count * len(HANGUL.findall(word)) for word, count in words.items() if not word.isascii())
    return hangul > HANGUL_SHARE * letters


# -- learning pieces -----------------------------------------------------------------------------------------


def alphabet(words: Mapping[str, int], limit: int) -> list[str]:
    """Returns the pieces of one character: the most frequent characters that fit into `limit` pieces.

    A character seen inside a word takes two, itself and with `##`.
    """
    counts: Counter[str] = Counter()
    inside: set[str] = set()
    for word, count in words.items():
        for character in word:
            counts[character] += count
        inside.update(word[1:])
    pieces: list[str] = []
    for character in sorted(counts, key=lambda character: (-counts[character], character)):
        own = [character, f"##{character}"] if character in inside else [character]
        if len(pieces) + len(own) > limit:
            break
        pieces += own
    return sorted(pieces, key=lambda piece: (piece.startswith("##") and piece != "##", piece))


class Merges:
    """The words as symbols, and the counts of neighbouring pairs, kept up to date from merge to merge."""

    def __init__(self, words: Mapping[str, int], known: set[str]) -> None:
        """Cut the words into characters; words with unknown ones are left out."""
        self._counts: Counter[Pair] = Counter()
        self._where: defaultdict[Pair, set[int]] = defaultdict(set)
        self._words: list[tuple[str, ...]] = []
        self._times: list[int] = []
        for word, times in words.items():
            symbols = (word[0], *(f"##{character}" for character in word[1:]))
            if len(symbols) > 1 and known.issuperset(symbols):
                self._words.append(symbols)
                self._times.append(times)
                self._add(len(self._words) - 1, symbols)
        # Entries may be out of date: what counts is checked when one comes up.
        self._heap = [(-count, pair) for pair, count in self._counts.items()]
        heapq.heapify(self._heap)

    def _add(self, index: int, symbols: tuple[str, ...]) -> None:
        for pair in pairwise(symbols):
            self._counts[pair] += self._times[index]
            self._where[pair].add(index)

    def __iter__(self) -> Iterator[str]:
        """Yields the new symbol of each merge, the most frequent pair's first."""
        while self._heap:
            negative, pair = heapq.heappop(self._heap)
            count = self._counts[pair]
            if count < LEAST:
                continue
            if count != -negative:
                heapq.heappush(self._heap, (-count, pair))
                continue
            yield self._merge(pair)

    def _merge(self, pair: Pair) -> str:
        merged = pair[0] + pair[1].removeprefix("##")
        grown: set[Pair] = set()
        for index in self._where.pop(pair):
            old = self._words[index]
            new = _joined(old, pair, merged)
            if len(new) == len(old):
                continue
            for gone in pairwise(old):
                self._counts[gone] -= self._times[index]
            self._words[index] = new
            self._add(index, new)
            grown.update(neighbours for neighbours in pairwise(new) if merged in neighbours)
        for neighbours in grown:
            heapq.heappush(self._heap, (-self._counts[neighbours], neighbours))
        return merged


def _joined(symbols: tuple[str, ...], pair: Pair, merged: str) -> tuple[str, ...]:
    joined: list[str] = []
    position = 0
    while position < len(symbols):
        if symbols[position : position + 2] == pair:
            joined.append(merged)
            position += 2
        else:
            joined.append(symbols[position])
            position += 1
    return tuple(joined)


def learn(words: Mapping[str, int], size: int) -> list[str]:
    """Returns at most `size` pieces: the special tokens, the alphabet, then merges in their order.

    Fewer come back where the text has no more pairs that occur twice. Raises `BadData` where there is no
    word.
    """
    words = {word: count for word, count in words.items() if len(word) <= LONGEST_WORD}
    if not words:
        raise BadData("no word in the input to learn pieces from")
    room = size - len(SPECIAL)
    limit = min(room, max(ALPHABET_LEAST, int(room * ALPHABET_SHARE)))
    pieces = dict.fromkeys([*SPECIAL, *alphabet(words, limit)])
    merges = iter(Merges(words, set(pieces)))
    while len(pieces) < size and (merged := next(merges, None)) is not None:
        pieces[merged] = None
    return list(pieces)


# -- the whole -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What a vocabulary was learned from and how well it covers that, in running words."""

    words: int
    distinct: int
    pieces: int
    unknown: float
    pieces_a_word: float
    too_long: int
    casing: Casing

    def __str__(self) -> str:
        """Returns one line."""
        return (
            f"{self.words} words, {self.distinct} distinct, {self.casing}: {self.pieces} pieces, "
            f"{self.unknown:.2%} of the words [UNK], {self.pieces_a_word:.2f} pieces a word; "
            f"{self.too_long} words of over {LONGEST_WORD} characters skipped"
        )


def train(
    texts: Iterable[str],
    size: int,
    *,
    cased: bool | None = None,
    strip_accents: bool | None = None,
    split_cjk: bool | None = None,
) -> tuple[list[str], Summary]:
    """Returns the vocabulary of some texts and what was found in them.

    Default: lower case; accents stripped with it, unless over a hundredth of the letters are Hangul; Chinese
    characters split. Raises `BadData` where there is no word.
    """
    split_cjk = split_cjk is not False
    words = count_words(texts, Casing(lowercase=False, strip_accents=False, split_cjk=split_cjk))
    lowercase = not cased
    if strip_accents is None:
        strip_accents = lowercase and not is_hangul(words)
    casing = Casing(lowercase, strip_accents, split_cjk)
    words = recount(words, casing)
    pieces = learn(words, size)
    return pieces, summarize(words, pieces, casing)


def summarize(words: Mapping[str, int], pieces: list[str], casing: Casing) -> Summary:
    """Returns the figures of a vocabulary on the words that it was learned from."""
    wordpiece = WordPiece(pieces, casing)
    total = sum(words.values())
    lengths = unknown = 0
    for word, count in words.items():
        ids = wordpiece.cut(word)
        lengths += count * len(ids)
        unknown += count * (ids == (wordpiece.unk,))
    too_long = sum(count for word, count in words.items() if len(word) > LONGEST_WORD)
    return Summary(total, len(words), len(pieces), unknown / total, lengths / total, too_long, casing)

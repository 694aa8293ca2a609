"""A WordPiece vocabulary learned from text, the same for any order of the lines.

More pieces are made than there is room for, by merging pairs of pieces (`merges.py`), and those stay that the words,
cut by greedy longest match, use most. (Many a piece is only a step on the way to longer ones, and hardly used itself.)
Equal counts are decided by the pieces themselves. Memory grows with the distinct words, never with the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

import numpy as np

from bertcli.errors import BadData, UsageError, many
from bertcli.folder import CLS, LONGEST_WORD, MASK, PAD, SEP, SPECIAL, UNK, Casing
from bertcli.text.merges import Merges, cut_words
from bertcli.text.normalize import splitter
from bertcli.text.wordpiece import MANY_UNKNOWN, WordPiece

SIZE, EXTENSION = 30_000, 1000  # pieces: of a vocabulary, and of what is added to an old one
ALPHABET = 2  # half the room for pieces at most is for characters, so that Chinese ones leave some for words
LETTERS = 200  # characters that have room in any case
SPARE = 5  # a fifth more pieces are made than there is room for
HANGUL_SHARE = 0.01  # of the letters, from which on accents are not stripped: that would take syllables apart

HANGUL = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7af\ud7b0-\ud7ff]")

# The pieces that a vocabulary begins with, by the names of --special; Google's uncased one has these.
LAYOUTS = {
    "first": list(SPECIAL),
    "google": [PAD, *(f"[unused{number}]" for number in range(99)), UNK, CLS, SEP, MASK],
}


# -- words -----------------------------------------------------------------------------------------------------------


def recount(words: Mapping[str, int], casing: Casing) -> Counter[str]:
    """Returns the counts of the words under a stricter casing."""
    recounted: Counter[str] = Counter()
    split = splitter(casing)
    for word, count in words.items():
        for part in split(word):
            recounted[part] += count
    return recounted


def has_hangul(words: Mapping[str, int]) -> bool:
    """Returns whether more than a hundredth of the letters are Hangul."""
    letters = sum(count * sum(map(str.isalpha, word)) for word, count in words.items())
    hangul = sum(count * len(HANGUL.findall(word)) for word, count in words.items() if not word.isascii())
    return hangul > HANGUL_SHARE * letters


# -- learning pieces -----------------------------------------------------------------------------------------


def check_room(size: int, start: Sequence[str]) -> None:
    """Raise `UsageError` where a vocabulary's size leaves no room for pieces after those that it begins with."""
    if size <= len(start):
        raise UsageError(f"--size {size} counts all pieces, and there are {len(start)} to begin with")


def alphabet(words: Mapping[str, int], limit: int, known: Set[str] = frozenset()) -> list[str]:
    """Returns the `limit` pieces of one character that the words need most, of those that are not known.

    A character is a piece, and with `##` another one where it is seen inside words; each is needed as often as it is
    seen there, the first perhaps never.
    """
    first: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    for word, count in words.items():
        first[word[0]] += count
        for character in word[1:]:
            inside[character] += count
    counts = {**dict.fromkeys(inside, 0), **first, **{f"##{character}": count for character, count in inside.items()}}
    needed = sorted(counts.keys() - known, key=lambda piece: (-counts[piece], piece))[:limit]
    return sorted(needed, key=lambda piece: (len(piece), piece))


def learn(
    words: Mapping[str, int],
    size: int,
    start: Sequence[str] = SPECIAL,
    *,
    min_count: int = 2,
    characters: int | None = None,
) -> list[str]:
    """Returns at most `size` pieces: those that it starts with, the alphabet, then longer ones in the order of merges.

    It may start with the special tokens, or with a whole vocabulary: then merges go on from the words as that cuts
    them. `characters` is how many pieces the alphabet adds at most. No pair seen less often than `min_count` is joined,
    and no longer piece stays that is used less often; so fewer come back of a small text. Raises `BadData` where there
    is no word, `UsageError` where there is no room.
    """
    check_room(size, start)
    words = {word: count for word, count in words.items() if len(word) <= LONGEST_WORD}
    if not words:
        raise BadData("no word in the input to learn pieces from")
    room = size - len(start)
    fixed = [*start, *alphabet(words, min(room, characters or max(LETTERS, room // ALPHABET)), set(start))]
    room = size - len(fixed)
    merges = iter(Merges(cut_words(words, fixed), min_count))
    return fixed + most_used(words, fixed, merges, room, min_count)


def most_used(words: Mapping[str, int], fixed: list[str], merges: Iterator[str], room: int, least: int) -> list[str]:
    """Returns as many pieces of the merges as there is room for, in their order: those that words use most.

    Each is used `least` times or more when beside the fixed ones there are no others than those returned.
    """
    made: dict[str, int] = {}  # each with its place in their order
    ranked: list[str] = []
    while True:
        while len(ranked) < room and (more := list(islice(merges, room - len(ranked) + room // SPARE))):
            made |= {piece: place for place, piece in enumerate(more, len(made))}
            uses = cut_words(words, fixed + ranked + more).uses()
            ranked += sorted((piece for piece in more if uses[piece] >= least), key=lambda piece: -uses[piece])
        staying = sorted(ranked[:room], key=made.__getitem__)
        uses = cut_words(words, fixed + staying).uses()
        idle = {piece for piece in staying if uses[piece] < least}
        if not idle:
            return staying
        ranked = [piece for piece in ranked if piece not in idle]


# -- the whole -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """What a vocabulary was learned from and how well it covers that, in running words; shares are of 1."""

    words: int
    distinct: int
    pieces: int
    pieces_a_word: float
    unknown: float
    unknown_characters: float
    too_long: int
    casing: Casing
    is_taken_apart: bool  # Hangul, by stripping accents

    def __str__(self) -> str:
        """Returns one line."""
        return (
            f"{many(self.words, 'word')}, {self.distinct} distinct, {self.casing}: {many(self.pieces, 'piece')}, "
            f"{self.pieces_a_word:.2f} pieces a word, {self.unknown:.2%} of the words and "
            f"{self.unknown_characters:.2%} of the characters [UNK]; "
            f"{many(self.too_long, 'word')} of over {LONGEST_WORD} characters skipped"
        )

    def warnings(self) -> list[str]:
        """Returns what looks wrong with the vocabulary."""
        apart = "Hangul syllables are taken apart: --no-strip-accents keeps them"
        rare = self.unknown - self.too_long / self.words
        unknown = f"{rare:.0%} of the words hold a character that there is no room for: --size or --alphabet is small"
        return [apart] * self.is_taken_apart + [unknown] * (rare > MANY_UNKNOWN)


def splits_cjk(old: WordPiece | None, given: bool | None) -> bool:
    """Returns whether Chinese characters are words by themselves: with that, words have to be counted."""
    return old.casing.split_cjk if old else given is not False


def train(
    counts: Iterable[Mapping[str, int]],
    size: int | None = None,
    *,
    special: str | None = None,
    old: WordPiece | None = None,
    min_count: int = 2,
    characters: int | None = None,
    cased: bool | None = None,
    strip_accents: bool | None = None,
    split_cjk: bool | None = None,
) -> tuple[list[str], Summary]:
    """Returns the vocabulary of texts, given as counts of their words, and what was found in them.

    The words have their case and accents, and were counted with the same `split_cjk`. Default: lower case; accents
    stripped with it, unless over a hundredth of the letters are Hangul; Chinese characters split. A vocabulary that
    extends an old one takes its casing instead. Raises `BadData` where there is no word, `UsageError` where there is no
    room beside the old pieces or the special ones.
    """
    if old and special:
        raise UsageError("--special and --extend: the ids of the old vocabulary stay")
    start = old.pieces if old else LAYOUTS[special or "first"]
    size = size or (len(start) + EXTENSION if old else SIZE)
    check_room(size, start)
    split_cjk = splits_cjk(old, split_cjk)
    words: Counter[str] = Counter()
    for each in counts:
        words.update(each)
    hangul = has_hangul(words)
    if strip_accents is None:
        strip_accents = not cased and not hangul
    casing = old.casing if old else Casing(not cased, strip_accents, split_cjk)
    words = recount(words, casing)
    pieces = learn(words, size, start, min_count=min_count, characters=characters)
    return pieces, summarize(words, pieces, casing, is_taken_apart=casing.strip_accents and hangul)


def summarize(words: Mapping[str, int], pieces: list[str], casing: Casing, *, is_taken_apart: bool = False) -> Summary:
    """Returns the figures of a vocabulary on the words that it was learned from."""
    cut = cut_words(words, pieces)
    sizes = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    times, total = cut.times, int(cut.times.sum())
    is_unknown = cut.ids[cut.begins] == cut.unk
    return Summary(
        words=total,
        distinct=len(words),
        pieces=len(pieces),
        pieces_a_word=float(times @ cut.lengths) / total,
        unknown=float(times @ is_unknown) / total,
        unknown_characters=float((times * sizes) @ is_unknown) / float(times @ sizes),
        too_long=int(times @ (sizes > LONGEST_WORD)),
        casing=casing,
        is_taken_apart=is_taken_apart,
    )

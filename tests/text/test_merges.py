"""Pieces are those of the definition, which counts and cuts everything anew at each step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.folder import SPECIAL
from bertcli.text import vocab
from bertcli.text.counts import WordCounter
from bertcli.text.merges import Cut, Merges, cut_words
from bertcli.text.vocab import alphabet, learn


def slow_cut(word: str, pieces: Iterable[str]) -> list[str]:
    cut: list[str] = []
    while word:
        prefix = "##" if cut else ""
        fits = [piece for piece in pieces if len(piece) > len(prefix) and (prefix + word).startswith(piece)]
        if not fits:
            return ["[UNK]"]
        cut.append(max(fits, key=len))
        word = (prefix + word)[len(cut[-1]) :]
    return cut


def slow_merges(words: Mapping[str, int], pieces: list[str], least: int) -> Iterator[str]:
    """Count all pairs anew for every merge."""
    cut = {word: slow_cut(word, pieces) for word in words}
    while True:
        counts: Counter[tuple[str, str]] = Counter()
        for word, symbols in cut.items():
            for pair in pairwise(symbols):
                counts[pair] += words[word]
        if not counts or max(counts.values()) < least:
            return
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merged = best[0] + best[1].removeprefix("##")
        for symbols in cut.values():
            place = 0
            while place < len(symbols) - 1:
                if (symbols[place], symbols[place + 1]) == best:
                    symbols[place : place + 2] = [merged]
                place += 1
        assert merged not in pieces, "made twice"
        pieces = [*pieces, merged]
        yield merged


def slow_uses(words: Mapping[str, int], pieces: Iterable[str]) -> Counter[str]:
    uses: Counter[str] = Counter()
    for word, count in words.items():
        for piece in slow_cut(word, pieces):
            uses[piece] += count
    return uses


def slow_learn(words: Mapping[str, int], size: int, start: Sequence[str] = SPECIAL, least: int = 2) -> list[str]:
    fixed = [*start, *alphabet(words, size - len(start), set(start))]
    room = size - len(fixed)
    merges = slow_merges(words, fixed, least)
    made: list[str] = []
    ranked: list[str] = []
    while True:
        while len(ranked) < room and (more := list(islice(merges, room - len(ranked) + room // 5))):
            made += more
            uses = slow_uses(words, fixed + ranked + more)
            ranked += sorted([piece for piece in more if uses[piece] >= least], key=lambda piece: -uses[piece])
        uses = slow_uses(words, fixed + ranked[:room])
        idle = [piece for piece in ranked[:room] if uses[piece] < least]
        if not idle:
            return fixed + [piece for piece in made if piece in ranked[:room]]
        ranked = [piece for piece in ranked if piece not in idle]


WORDS = st.text("abc", min_size=1, max_size=8) | st.text("a", min_size=1, max_size=20)
WORD_COUNTS = st.dictionaries(WORDS, st.integers(1, 20), min_size=1, max_size=12)
SIZES, LEASTS = st.integers(12, 60), st.integers(1, 30)


@settings(max_examples=300)
@given(WORD_COUNTS, SIZES, LEASTS)
def test_pieces_are_those_of_the_definition(words: dict[str, int], size: int, least: int) -> None:
    assert learn(words, size, min_count=least) == slow_learn(words, size, least=least)


@settings(max_examples=300)
@given(WORD_COUNTS, WORD_COUNTS, SIZES, st.integers(1, 20), LEASTS)
def test_an_extension_is_that_of_the_definition(
    before: dict[str, int], words: dict[str, int], size: int, more: int, least: int
) -> None:
    old = learn(before, size)
    extended = learn(words, len(old) + more, old, min_count=least)
    assert extended == slow_learn(words, len(old) + more, old, least)
    assert extended[: len(old)] == old
    uses = slow_uses(words, extended)
    assert all(uses[piece] >= least for piece in extended[len(old) :] if len(piece.removeprefix("##")) > 1)


@settings(max_examples=300)
@given(WORD_COUNTS, st.lists(st.text("abc", min_size=2, max_size=4)), LEASTS)
def test_merges_go_on_from_any_pieces(words: dict[str, int], known: list[str], least: int) -> None:
    pieces = [*SPECIAL, *"abc", "##a", "##b", "##c", *known, *(f"##{piece}" for piece in known)]
    assert list(Merges(cut_words(words, pieces), least)) == list(slow_merges(words, pieces, least))


@given(WORD_COUNTS, SIZES, st.randoms(use_true_random=False))
def test_order_does_not_matter(words: dict[str, int], size: int, rng: random.Random) -> None:
    shuffled = dict(rng.sample(sorted(words.items()), len(words)))
    assert learn(shuffled, size) == learn(words, size)
    old = [*SPECIAL, "a", "##b", "##bb"]
    assert learn(shuffled, size, old) == learn(words, size, old)


def test_words_are_cut_anew_only_so_often(monkeypatch: pytest.MonkeyPatch, shared: Path) -> None:
    corpus = (shared / "demo" / "demo_corpus.txt").read_text().splitlines()
    words = WordCounter(split_cjk=True).count([corpus])
    cuts = []

    def counted(words: Mapping[str, int], pieces: Sequence[str]) -> Cut:
        cuts.append(len(pieces))
        return cut_words(words, pieces)

    monkeypatch.setattr(vocab, "cut_words", counted)
    for size in range(4000, 7000, 500):
        cuts.clear()
        learn(words, size)
        assert len(cuts) <= 12

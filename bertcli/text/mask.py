"""The corruption of the masked language model (paper §3.1, Table 8), on pieces and on ids alike.

A rule says how much is masked; `Masker` masks a sequence by it, and `Masking` the pairs of a stream.

Randomness is handed in, and only `random()` is called on it: alone among a generator's methods, its numbers
are the same in every version of Python.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, islice
from typing import Generic, NamedTuple, TypeVar

from bertcli.errors import BadData, UsageError, many
from bertcli.folder import CLS, MASK, PAD, SEP
from bertcli.randomness import below, randomness
from bertcli.records import Record, as_text, key
from bertcli.stages import Tally
from bertcli.stream import joined
from bertcli.text.normalize import is_bracketed
from bertcli.text.wordpiece import WordPiece

T = TypeVar("T")
Candidate = TypeVar("Candidate")

NEVER_MASKED = (CLS, SEP, PAD)
FEW_CONTINUED = 0.02  # of the tokens go on with a word in Chinese; in English text, even by its own vocabulary, more


@dataclass(frozen=True)
class MaskRule:
    """How much is predicted, and what becomes of it: shares of [MASK], of the same token, of a random one.

    Candidates are the tokens, or with `whole_word` the words. Under `bernoulli` each is chosen by itself with
    probability `rate`, as in transformers. Else an exact number of tokens is chosen, as in Google's code, in spans of
    1…`ngram` candidates, as in ALBERT (arXiv 1909.11942 §4.1; SpanBERT, 1907.10529 §3.1, draws its lengths otherwise).
    """

    rate: float = 0.15
    fates: tuple[float, float, float] = (0.8, 0.1, 0.1)
    whole_word: bool = False
    bernoulli: bool = False
    ngram: int = 1
    max_masks: int | None = None  # a sequence; Google's max_predictions_per_seq

    def __post_init__(self) -> None:
        """Raise `UsageError` for two ways of choosing at once."""
        if self.bernoulli and self.ngram > 1:
            raise UsageError("--bernoulli and --ngram exclude each other: tokens one by one, or spans of them")

    def budget(self, length: int) -> int:
        """Returns how many of a sequence's tokens are masked at most, or exactly where candidates fill it."""
        count = length if self.bernoulli else max(1, round(length * self.rate))
        return count if self.max_masks is None else min(count, self.max_masks)


# -- which tokens ---------------------------------------------------------------------------------------------------


def word_by_word(places: Iterable[int], begins: Callable[[int], bool]) -> list[list[int]]:
    """Returns ascending positions word by word; a word begins where `begins` says so, and after a gap."""
    found: list[list[int]] = []
    for place in places:
        if found and found[-1][-1] == place - 1 and not begins(place):
            found[-1].append(place)
        else:
            found.append([place])
    return found


def shuffled(items: Iterable[T], rng: random.Random) -> Iterator[T]:
    """Yields the items in random order, drawing only for those that are asked for."""
    rest, draw = list(items), rng.random
    for done in range(len(rest)):
        pick = done + int(draw() * (len(rest) - done))
        item, rest[pick] = rest[pick], rest[done]
        yield item


def fitting(words: Iterable[list[int]], budget: int) -> Iterator[list[int]]:
    """Yields each word that what is left of the budget holds, until it is filled."""
    for word in words:
        if len(word) <= budget:
            yield word
            budget -= len(word)
        if not budget:
            return


def spans(words: Sequence[list[int]], longest: int, budget: int, rng: random.Random) -> Iterator[list[int]]:
    """Yields the positions of spans of 1…`longest` words from random places, until their tokens fill the budget.

    A span's length is drawn with probability proportional to 1/length. It ends early before a word that is chosen
    already, that [SEP] stands before, or that is over what is left of the budget; one without a word is passed over.
    (ALBERT's code passes over whole spans that meet a chosen word, and so may fall short of the budget.)
    """
    weights = list(accumulate(1 / length for length in range(1, longest + 1)))
    chosen = [False] * len(words)
    for start in shuffled(range(len(words)), rng):
        length = 1 + bisect(weights, rng.random() * weights[-1])
        span: list[int] = []
        for index, word in enumerate(words[start : start + length], start):
            is_apart = bool(span) and word[0] > span[-1] + 1
            if chosen[index] or is_apart or len(span) + len(word) > budget:
                break
            chosen[index] = True
            span += word
        if span:
            yield span
            budget -= len(span)
        if not budget:
            return


# -- a sequence -----------------------------------------------------------------------------------------------------


def replacements(pieces: Sequence[str]) -> list[int]:
    """Returns the ids that a random replacement is drawn from: all but special and unused pieces, `[…]`.

    Raises `BadData` where there is none.
    """
    ids = [piece_id for piece_id, piece in enumerate(pieces) if piece and not is_bracketed(piece)]
    if not ids:
        raise BadData("the vocabulary has no piece to replace a token with")
    return ids


class Masked(NamedTuple, Generic[T]):
    """A corrupted sequence, its masked positions in ascending order, and the originals there."""

    tokens: list[T]
    positions: list[int]
    originals: list[T]


class Masker(Generic[T]):
    """Masks sequences by a rule: of pieces or of their ids, which the same random numbers mask alike."""

    def __init__(self, rule: MaskRule, pieces: Sequence[str], names: Sequence[T]) -> None:
        """Take the vocabulary, and what stands for its pieces in the sequences: themselves, or their ids."""
        named = dict(zip(pieces, names, strict=True))
        self._rule, self._mask = rule, named[MASK]
        self._known, self._never = frozenset(names), frozenset(named[piece] for piece in NEVER_MASKED)
        self._goes_on = frozenset(name for piece, name in zip(pieces, names, strict=True) if piece.startswith("##"))
        self._replacements = [names[index] for index in replacements(pieces)]

    def mask(self, tokens: Sequence[T], word_starts: Collection[int] | None, rng: random.Random) -> Masked[T]:
        """Returns the sequence as the model is to see it, and what it is to find.

        Exactly max(1, round(length · rate)) tokens are masked, [CLS] and [SEP] counted in the length, but no more than
        `max_masks`, and as far as there are candidates to fill that; a whole word over what is left is passed over.
        Under `bernoulli` it may be any number, and of more than `max_masks` a random choice stays. Words begin at
        `word_starts` where they are given, else at each piece without `##`. The fate is drawn for each token.
        Raises `BadData` naming a token that the vocabulary lacks. Source: paper §A.1, Google's
        `create_masked_lm_predictions`.
        """
        positions = sorted(self._positions(tokens, word_starts, rng))
        corrupted = list(tokens)
        masked, same, _ = self._rule.fates
        for position in positions:
            fate = rng.random()
            if fate < masked:
                corrupted[position] = self._mask
            elif fate >= masked + same:
                corrupted[position] = self._replacements[below(len(self._replacements), rng)]
        return Masked(corrupted, positions, [tokens[position] for position in positions])

    def _positions(self, tokens: Sequence[T], word_starts: Collection[int] | None, rng: random.Random) -> Iterable[int]:
        rule, budget = self._rule, self._rule.budget(len(tokens))
        places = self._maskable(tokens)
        if not rule.whole_word and rule.ngram == 1:
            return islice(shuffled(self._drawn(places, rng), rng), budget)
        candidates = self._words(tokens, places, word_starts) if rule.whole_word else [[place] for place in places]
        if rule.ngram > 1:
            return chain.from_iterable(spans(candidates, rule.ngram, budget, rng))
        return chain.from_iterable(fitting(shuffled(self._drawn(candidates, rng), rng), budget))

    def _maskable(self, tokens: Sequence[T]) -> list[int]:
        if not self._known.issuperset(tokens):
            unknown = next(token for token in tokens if token not in self._known)
            raise BadData(field="tokens", found=unknown, expected="a piece of the vocabulary")
        never = sorted(place for token in self._never.intersection(tokens) for place in _places(tokens, token))
        begins, ends = [0, *(place + 1 for place in never)], [*never, len(tokens)]
        return list(chain.from_iterable(map(range, begins, ends)))

    def _words(self, tokens: Sequence[T], places: list[int], word_starts: Collection[int] | None) -> list[list[int]]:
        if word_starts:
            return word_by_word(places, frozenset(word_starts).__contains__)
        return word_by_word(places, lambda place: tokens[place] not in self._goes_on)

    def _drawn(self, candidates: list[Candidate], rng: random.Random) -> list[Candidate]:
        """Returns under `bernoulli` the candidates that are chosen, else all."""
        if not self._rule.bernoulli:
            return candidates
        return [candidate for candidate in candidates if rng.random() < self._rule.rate]


def _places(tokens: Sequence[T], token: T) -> Iterator[int]:
    """Yields where a token stands in a sequence."""
    place = -1
    for _ in range(tokens.count(token)):
        place = tokens.index(token, place + 1)
        yield place


# -- a stream -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MaskCounts(Tally):
    """What was masked."""

    records: int = 0
    unmasked: int = 0  # of them, records without any masked token
    tokens: int = 0
    masked: int = 0
    borderless: int = 0  # records whose words, to be masked whole, had to be told by their ##
    maskable: int = 0  # tokens of the sequences whose words are masked whole, without [CLS] and [SEP]
    continued: int = 0  # of them, those that go on with a word

    def __str__(self) -> str:
        """Returns one line for people."""
        share = self.masked / self.tokens if self.tokens else 0
        done = f"{many(self.records, 'record')}, {self.masked} of {many(self.tokens, 'token')} masked ({share:.1%})"
        if self.unmasked:
            done += f"; {many(self.unmasked, 'record')} without a masked token"
        return done

    def warnings(self) -> list[str]:
        """Returns what looks wrong with whole words: that their borders had to be guessed, or that none was needed."""
        guessed = f"{many(self.borderless, 'record')} without word_starts: words end where no ## follows"
        share = self.continued / self.maskable if self.maskable else 1
        alone = f"{share:.1%} of the tokens go on with a word, so that --whole-word changes little: give words as lists"
        return [guessed] * (self.borderless > 0) + [alone] * (share < FEW_CONTINUED)


class Masking:
    """Masks the pairs of a stream, each by random numbers of its own."""

    def __init__(self, wordpiece: WordPiece, rule: MaskRule, *, copies: int, seed: int) -> None:
        """Take the vocabulary that the pairs' pieces must be of."""
        self._whole_word, self._copies, self._seed = rule.whole_word, copies, seed
        self._masker = Masker(rule, wordpiece.pieces, wordpiece.pieces)

    def masked(self, record: Record, index: int) -> list[Record]:
        """Returns the masked copies of a pair; `index`, its place in the stream, counts where it has no id.

        The first has the pair's id and the masks it would have alone; copy n has `#n` after its id, if there is
        one. Raises `BadData` where the pair is masked already or holds a piece that the vocabulary lacks.
        """
        if (found := record.get("masked_positions")) is not None:
            raise BadData(field="masked_positions", found=found, expected="a pair that is not masked yet")
        tokens, starts = record["tokens"], record.get("word_starts")
        if starts and not 0 <= min(starts) <= max(starts) < len(tokens):
            raise BadData(field="word_starts", found=starts, expected=f"places of the {len(tokens)} tokens")
        name = key(record, index)
        return [self._copy(record, copy, name) for copy in range(self._copies)]

    def _copy(self, record: Record, copy: int, name: str) -> Record:
        rng = randomness(self._seed, copy, name)
        tokens, positions, originals = self._masker.mask(record["tokens"], record.get("word_starts"), rng)
        renamed = {"id": f"{as_text(record['id'])}#{copy}"} if copy and record.get("id") is not None else {}
        return record | renamed | {"tokens": tokens, "masked_positions": positions, "masked_tokens": originals}

    def batch(self, copies: Sequence[list[Record]]) -> tuple[bytes, MaskCounts]:
        """Returns the lines of masked pairs, and what was done."""
        records = list(chain.from_iterable(copies))
        whole = records if self._whole_word else []
        words = [_words(record) for record in whole]
        counts = MaskCounts(
            records=len(records),
            unmasked=sum(not record["masked_positions"] for record in records),
            tokens=sum(len(record["tokens"]) for record in records),
            masked=sum(len(record["masked_positions"]) for record in records),
            borderless=sum(not record.get("word_starts") for record in whole),
            maskable=sum(tokens for tokens, _ in words),
            continued=sum(tokens - begun for tokens, begun in words),
        )
        return joined(records), counts


def _words(record: Record) -> tuple[int, int]:
    """Returns how many tokens a masked record has that could be masked, and how many of them begin a word."""
    tokens = list(record["tokens"])
    for place, original in zip(record["masked_positions"], record["masked_tokens"], strict=True):
        tokens[place] = original
    maskable = [token for token in tokens if token not in NEVER_MASKED]
    starts = record.get("word_starts")
    return len(maskable), len(starts) if starts else sum(not token.startswith("##") for token in maskable)

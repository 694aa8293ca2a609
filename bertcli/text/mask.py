"""The corruption of the masked language model (paper §3.1, Table 8), on pieces and on ids alike.

Randomness is handed in, and only `random()` is called on it: alone among a generator's methods, its numbers
are the same in every version of Python.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bertcli.errors import BadData
from bertcli.folder import CLS, MASK, PAD, SEP, SPECIAL
from bertcli.records import Record, as_text, key, randomness
from bertcli.text.normalize import is_unused
from bertcli.text.wordpiece import WordPiece

T = TypeVar("T")

NEVER_MASKED = (CLS, SEP, PAD)


@dataclass(frozen=True)
class MaskRule:
    """How much is predicted, and what becomes of it: shares of [MASK], of the same token, of a random one."""

    rate: float = 0.15
    fates: tuple[float, float, float] = (0.8, 0.1, 0.1)
    whole_word: bool = False


def is_continuation(piece: Any) -> bool:
    """Returns whether a piece goes on with the word of the piece before it."""
    return isinstance(piece, str) and piece.startswith("##")


def groups(
    tokens: Sequence[T],
    word_starts: Collection[int] | None,
    whole_word: bool,
    *,
    never: Collection[Any] = NEVER_MASKED,
    continues: Callable[[T], bool] = is_continuation,
) -> list[list[int]]:
    """Returns the positions that may be masked, each alone, or with `whole_word` those of a word together.

    Words begin at `word_starts` where they are given, else at each piece without `##`. For ids instead of
    pieces, give `never` ([CLS], [SEP] and [PAD]) and `continues` as ids know them.
    """
    if not whole_word:
        return [[position] for position, token in enumerate(tokens) if token not in never]
    starts = None if word_starts is None else frozenset(word_starts)
    words: list[list[int]] = []
    after_special = True
    for position, token in enumerate(tokens):
        if token in never:
            after_special = True
            continue
        goes_on = continues(token) if starts is None else position not in starts
        if goes_on and not after_special:
            words[-1].append(position)
        else:
            words.append([position])
        after_special = False
    return words


def replacements(pieces: Sequence[str]) -> list[int]:
    """Returns the ids that a random replacement is drawn from: all but the special and the unused pieces.

    Raises `BadData` where there is none.
    """
    ids = [piece_id for piece_id, piece in enumerate(pieces) if piece and piece not in SPECIAL and not is_unused(piece)]
    if not ids:
        raise BadData("the vocabulary has no piece to replace a token with")
    return ids


def mask(
    tokens: Sequence[T],
    groups: Sequence[Sequence[int]],
    rule: MaskRule,
    rng: random.Random,
    mask_token: T,
    candidates: Sequence[T],
) -> tuple[list[T], list[int], list[T]]:
    """Returns the corrupted tokens, the masked positions in ascending order, and the originals there.

    Exactly max(1, round(length · rate)) tokens are masked, [CLS] and [SEP] counted in the length, as far as
    there are groups to fill that; a whole word over what is left is passed over. The fate is drawn for each
    token. Pieces and their ids give the same draws. Source: paper §A.1, Google's
    `create_masked_lm_predictions`.
    """
    positions = sorted(_chosen(groups, max(1, round(len(tokens) * rule.rate)), rng))
    corrupted = list(tokens)
    masked, same, _ = rule.fates
    for position in positions:
        fate = rng.random()
        if fate < masked:
            corrupted[position] = mask_token
        elif fate >= masked + same:
            corrupted[position] = candidates[int(rng.random() * len(candidates))]
    return corrupted, positions, [tokens[position] for position in positions]


def _chosen(groups: Sequence[Sequence[int]], budget: int, rng: random.Random) -> list[int]:
    chosen: list[int] = []
    for group in _shuffled(groups, rng):
        if len(chosen) + len(group) <= budget:
            chosen += group
        if len(chosen) == budget:
            break
    return chosen


def _shuffled(items: Sequence[T], rng: random.Random) -> Iterator[T]:
    """Yields the items in random order, drawing only for those that are asked for."""
    rest = list(items)
    for done in range(len(rest)):
        pick = done + int(rng.random() * (len(rest) - done))
        rest[done], rest[pick] = rest[pick], rest[done]
        yield rest[done]


class Masking:
    """Masks the pairs of a stream, each by random numbers of its own."""

    def __init__(self, wordpiece: WordPiece, rule: MaskRule, *, copies: int, seed: int) -> None:
        """Take the vocabulary that the pairs' pieces must be of."""
        self._wordpiece, self._rule, self._copies, self._seed = wordpiece, rule, copies, seed
        self._candidates = [wordpiece.pieces[index] for index in replacements(wordpiece.pieces)]
        self._read = self._tokens = self._masked = self._made = self._borderless = 0

    def masked(self, record: Record) -> list[Record]:
        """Returns the masked copies of a pair.

        The first has the pair's id and the masks it would have alone; copy n has `#n` after its id, if there is
        one. Raises `BadData` where the pair is masked already or holds a piece that the vocabulary lacks.
        """
        index, self._read = self._read, self._read + 1
        tokens = record["tokens"]
        if (found := record.get("masked_positions")) is not None:
            raise BadData(field="masked_positions", found=found, expected="a pair that is not masked yet")
        self._wordpiece.ids_of(tokens)
        self._borderless += self._rule.whole_word and record.get("word_starts") is None
        words = groups(tokens, record.get("word_starts"), self._rule.whole_word)
        return [self._copy(record, copy, key(record, index), words) for copy in range(self._copies)]

    def _copy(self, record: Record, copy: int, name: str, words: list[list[int]]) -> Record:
        rng = randomness(self._seed, copy, name)
        tokens, positions, originals = mask(record["tokens"], words, self._rule, rng, MASK, self._candidates)
        self._made += 1
        self._tokens += len(tokens)
        self._masked += len(positions)
        renamed = {"id": f"{as_text(record['id'])}#{copy}"} if copy and record.get("id") is not None else {}
        return record | renamed | {"tokens": tokens, "masked_positions": positions, "masked_tokens": originals}

    def __str__(self) -> str:
        """Returns what was done, as one line."""
        share = self._masked / self._tokens if self._tokens else 0
        borders = f"; {self._borderless} pairs without word_starts: words end where no ## follows"
        done = f"{self._made} records, {self._masked} of {self._tokens} tokens masked ({share:.1%})"
        return done + borders if self._borderless else done

"""Text to WordPiece ids: the same as `tokenizers`' BertWordPieceTokenizer, faster because words come back.

What a word became is remembered, here for one text at a time, in `batch.py` for many at once. Words of ASCII are cut
here, by greedy longest match, the others by `tokenizers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bertcli.errors import BadData
from bertcli.folder import LONGEST_WORD, MASK, SPECIAL, UNK, Casing, read_casing, read_vocabulary
from bertcli.text.normalize import combine, infer_casing, is_plain, normalizer, word_pattern

REMEMBERED = 1 << 17  # words a memory holds before it starts anew: about 50 MB
LONGEST_REMEMBERED = 64  # characters; longer words hardly come back

MANY_UNKNOWN = 0.05  # of the pieces


class Encoding(NamedTuple):
    """The ids of a text's pieces, and for each its start and end in code points of the original text."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class WordPiece:
    """A vocabulary with the casing of its pieces: text in, ids out.

    A word of more than `max_chars` code points, or one that cannot be cut into pieces, becomes one [UNK].
    """

    def __init__(self, pieces: list[str], casing: Casing, max_chars: int = LONGEST_WORD) -> None:
        """Take the vocabulary, id = index; of a piece that comes twice the last id counts (Google's way)."""
        self.pieces, self.casing, self.max_chars = pieces, casing, max_chars
        self.ids = {piece: index for index, piece in enumerate(pieces)}
        self.pad, self.unk, self.cls, self.sep, self.mask = (self.ids[token] for token in SPECIAL)
        self.lengths = [len(piece.removeprefix("##")) for piece in pieces]
        self._longest = max(map(len, pieces))
        self._word = word_pattern(split_cjk=casing.split_cjk)
        self._memory = _Memory(self)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        cased: bool | None = None,
        strip_accents: bool | None = None,
        split_cjk: bool | None = None,
    ) -> tuple[WordPiece, str]:
        """Returns the tokenizer of a vocabulary file, and where its casing came from.

        Switches that are not given come from a `tokenizer_config.json` beside the file, else they are the
        strictest under which every piece stays itself. Raises `BadData` naming a piece that a switch would
        change.
        """
        pieces = read_vocabulary(path)
        lowercase = None if cased is None else not cased
        given = {"lowercase": lowercase, "strip_accents": strip_accents, "split_cjk": split_cjk}
        default = read_casing(path.parent)
        origin = "tokenizer_config.json" if default else "inferred from its pieces"
        if switches := sum(value is not None for value in given.values()):
            origin = "given" if switches == len(given) else f"given, the rest {origin}"
        try:
            casing = combine(default, pieces, **given) if default else infer_casing(pieces, **given)
        except BadData as error:
            raise error.at(str(path), None) from None
        return cls(pieces, casing), origin

    # -- ids -------------------------------------------------------------------------------------------------

    def text_ids(self, text: str) -> list[int]:
        """Returns the ids of a text, without [CLS] and [SEP]; special tokens written in it are text."""
        memory = self._memory
        return [index for word in self._word.findall(text) for index in memory[word][0]]

    def encode(self, text: str, *, mask_is_special: bool = False) -> Encoding:
        """Returns a text's ids and offsets; with `mask_is_special` a `[MASK]` in it is the special token."""
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        begin = 0
        for part in text.split(MASK) if mask_is_special else [text]:
            if begin:
                ids.append(self.mask)
                offsets.append((begin - len(MASK), begin))
            for word in self._word.finditer(part):
                pieces, spans = self._memory[word.group()]
                start = begin + word.start()
                ids += pieces
                offsets += [(start + first, start + last) for first, last in spans]
            begin += len(part) + len(MASK)
        return Encoding(ids, offsets)

    def encode_words(self, words: Iterable[str]) -> list[list[int]]:
        """Returns the ids of each word, tokenised on its own; a word of which nothing is left is [UNK]."""
        return [self.text_ids(word) or [self.unk] for word in words]

    def ids_of(self, tokens: Iterable[str], field: str = "tokens") -> list[int]:
        """Returns the ids of pieces; raises `BadData` naming the first that the vocabulary lacks."""
        try:
            return [self.ids[token] for token in tokens]
        except KeyError as error:
            expected = "a piece of the vocabulary"
            raise BadData(field=field, found=error.args[0], expected=expected) from None

    # -- words -----------------------------------------------------------------------------------------------

    def encode_word(self, word: str) -> Encoding:
        """Returns the ids and offsets of a word that stands between blanks and marks, or is a mark."""
        if not is_plain(word):
            encoding = self.peer.encode(word, add_special_tokens=False)
            return Encoding(encoding.ids, encoding.offsets)
        ids = self.cut(word.lower() if self.casing.lowercase else word)
        ends = accumulate([self.lengths[index] for index in ids], initial=0) if len(ids) > 1 else (0, len(word))
        return Encoding(ids, list(pairwise(ends)))

    def cut(self, word: str, *, inside: bool = False) -> list[int]:
        """Returns the greedy longest-match-first pieces of a normalised word, or of the rest of one (`inside`)."""
        if len(word) > self.max_chars:
            return [self.unk]
        ids: list[int] = []
        rest, prefix, find = (f"##{word}", 2, self.ids.get) if inside else (word, 0, self.ids.get)
        while len(rest) > prefix:
            piece = rest[: self._longest]
            while (index := find(piece)) is None:
                piece = piece[:-1]
                if len(piece) <= prefix:
                    return [self.unk]
            ids.append(index)
            rest, prefix = f"##{rest[len(piece) :]}", 2
        return ids

    @cached_property
    def peer(self) -> Any:
        """The tokenizer of `tokenizers` with this vocabulary and no added tokens."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        peer = Tokenizer(models.WordPiece(self.ids, unk_token=UNK, max_input_chars_per_word=self.max_chars))
        peer.normalizer = normalizer(self.casing)
        peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return peer


class _Memory(dict[str, Encoding]):
    """The pieces of each word met so far, in bounded memory."""

    def __init__(self, wordpiece: WordPiece) -> None:
        self._wordpiece = wordpiece

    def __missing__(self, word: str) -> Encoding:
        encoding = self._wordpiece.encode_word(word)
        if len(word) <= LONGEST_REMEMBERED:
            if len(self) >= REMEMBERED:
                self.clear()
            self[word] = encoding
        return encoding


def unknown_warnings(unknown: int, pieces: int) -> list[str]:
    """Returns a warning where so many pieces are [UNK] that the vocabulary cannot be made for the text."""
    if unknown <= MANY_UNKNOWN * pieces:
        return []
    return [f"{unknown / pieces:.0%} of the pieces are [UNK]: are the vocabulary and its casing those of this text?"]

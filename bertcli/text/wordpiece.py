"""Text to WordPiece ids: the same as `tokenizers`' BertWordPieceTokenizer, faster because words come back.

BERT's cleaning and splitting never look across a space, so what a chunk between spaces became can be
remembered, and below it what a word became. Plain ASCII is cut here by greedy longest match, the rest by
`tokenizers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from bertcli.errors import BadData
from bertcli.folder import MASK, SPECIAL, UNK, Casing, read_casing, read_vocabulary
from bertcli.records import Record
from bertcli.text.normalize import ASCII_WORD, combine, infer_casing, normalizer

T = TypeVar("T")

REMEMBERED = 1 << 19  # entries a memory holds before it starts anew: about 100 MB
LONGEST_REMEMBERED = 64  # characters; longer chunks hardly come back


class Encoding(NamedTuple):
    """The ids of a text's pieces, and for each its start and end in code points of the original text."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class _Memory(dict[str, T], Generic[T]):
    """What a function made of each string it has met, in bounded memory."""

    def __init__(self, function: Callable[[str], T]) -> None:
        self._function = function

    def __missing__(self, key: str) -> T:
        value = self._function(key)
        if len(key) <= LONGEST_REMEMBERED:
            if len(self) >= REMEMBERED:
                self.clear()
            self[key] = value
        return value


class WordPiece:
    """A vocabulary with the casing of its pieces: text in, ids out.

    A word of more than `max_chars` code points, or one that cannot be cut into pieces, becomes one [UNK].
    """

    def __init__(self, pieces: list[str], casing: Casing, max_chars: int = 100) -> None:
        """Take the vocabulary, id = index; of a piece that comes twice the last id counts (Google's way)."""
        self.pieces, self.casing, self.max_chars = pieces, casing, max_chars
        self.ids = {piece: index for index, piece in enumerate(pieces)}
        self.pad, self.unk, self.cls, self.sep, self.mask = (self.ids[token] for token in SPECIAL)
        self._longest = max(map(len, pieces))
        # Tuples of numbers: the garbage collector need not walk them.
        self._words: _Memory[tuple[int, ...]] = _Memory(self.cut)
        self._chunks: _Memory[tuple[int, ...]] = _Memory(self._chunk_ids)
        self._spans: _Memory[tuple[tuple[int, int, int], ...]] = _Memory(self._chunk_spans)

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
        try:
            casing = combine(default, pieces, **given) if default else infer_casing(pieces, **given)
        except BadData as error:
            raise error.at(str(path), None) from None
        return cls(pieces, casing), "given" if None not in (lowercase, strip_accents) else origin

    # -- ids -------------------------------------------------------------------------------------------------

    def text_ids(self, text: str) -> list[int]:
        """Returns the ids of a text, without [CLS] and [SEP]; special tokens written in it are text."""
        return list(chain.from_iterable(map(self._chunks.__getitem__, spaced(text).split(" "))))

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

    def _chunk_ids(self, chunk: str) -> tuple[int, ...]:
        if chunk.isascii() and chunk.isprintable():
            words = ASCII_WORD.findall(chunk.lower() if self.casing.lowercase else chunk)
            return tuple(chain.from_iterable(map(self._words.__getitem__, words)))
        return tuple(self._peer.encode(chunk, add_special_tokens=False).ids)

    def cut(self, word: str) -> tuple[int, ...]:
        """Returns the greedy longest-match-first pieces of a normalised word."""
        if len(word) > self.max_chars:
            return (self.unk,)
        ids: list[int] = []
        start, prefix = 0, ""
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                if (piece_id := self.ids.get(prefix + word[start:end])) is not None:
                    break
            else:
                return (self.unk,)
            ids.append(piece_id)
            start, prefix = end, "##"
        return tuple(ids)

    @cached_property
    def _peer(self) -> Any:
        """The tokenizer of `tokenizers` with this vocabulary and no added tokens."""
        from tokenizers import Tokenizer, models, pre_tokenizers

        peer = Tokenizer(models.WordPiece(self.ids, unk_token=UNK, max_input_chars_per_word=self.max_chars))
        peer.normalizer = normalizer(self.casing)
        peer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return peer

    # -- ids and offsets -------------------------------------------------------------------------------------

    def encode(self, text: str, *, mask_is_special: bool = False) -> Encoding:
        """Returns a text's ids and offsets; with `mask_is_special` a `[MASK]` in it is the special token."""
        encoding = Encoding([], [])
        start = 0
        for part in text.split(MASK) if mask_is_special else [text]:
            if start:
                encoding.ids.append(self.mask)
                encoding.offsets.append((start - len(MASK), start))
            self._add(part, start, encoding)
            start += len(part) + len(MASK)
        return encoding

    def _add(self, text: str, start: int, encoding: Encoding) -> None:
        for chunk in spaced(text).split(" "):
            for piece_id, first, last in self._spans[chunk]:
                encoding.ids.append(piece_id)
                encoding.offsets.append((start + first, start + last))
            start += len(chunk) + 1

    def _chunk_spans(self, chunk: str) -> tuple[tuple[int, int, int], ...]:
        """Returns (id, start, end) of a chunk's pieces."""
        if not (chunk.isascii() and chunk.isprintable()):
            encoding = self._peer.encode(chunk, add_special_tokens=False)
            return tuple((piece_id, *span) for piece_id, span in zip(encoding.ids, encoding.offsets, strict=True))
        spans: list[tuple[int, int, int]] = []
        for word in ASCII_WORD.finditer(chunk.lower() if self.casing.lowercase else chunk):
            start, ids = word.start(), self._words[word.group()]
            if self.unk in ids:
                spans.append((self.unk, start, word.end()))
                continue
            for piece_id in ids:
                piece = self.pieces[piece_id]
                end = start + len(piece if start == word.start() else piece.removeprefix("##"))
                spans.append((piece_id, start, end))
                start = end
        return tuple(spans)


def spaced(text: str) -> str:
    """Returns the text with line ends and tabs as spaces, which they are to BERT: the chunks become small."""
    return text.replace("\n", " ").replace("\t", " ").replace("\r", " ")


def tokenized(record: Record, wordpiece: WordPiece, field: str | None = None) -> Record:
    """Returns the record with `tokens`, `ids` and `offsets` of a field: of `text`, else of `words`, if none
    is named.

    For a list of words there is also `word_ids`, the word that each piece belongs to, and offsets count
    within the word; a word of which nothing is left is one [UNK]. Raises `BadData` where the field is
    neither.
    """
    if field is None:
        field = "words" if record.get("text") is None else "text"
    value = record.get(field)
    if isinstance(value, str):
        encoding = wordpiece.encode(value)
        return record | _fields(wordpiece, [encoding])
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BadData(field=field, found=value, expected="a string or a list of words")
    encodings = [wordpiece.encode(word) for word in value]
    whole = [
        encoding if encoding.ids else Encoding([wordpiece.unk], [(0, len(word))])
        for word, encoding in zip(value, encodings, strict=True)
    ]
    word_ids = [index for index, encoding in enumerate(whole) for _ in encoding.ids]
    return record | _fields(wordpiece, whole) | {"word_ids": word_ids}


def _fields(wordpiece: WordPiece, encodings: list[Encoding]) -> Record:
    ids = [piece_id for encoding in encodings for piece_id in encoding.ids]
    offsets = [span for encoding in encodings for span in encoding.offsets]
    return {"tokens": [wordpiece.pieces[piece_id] for piece_id in ids], "ids": ids, "offsets": offsets}

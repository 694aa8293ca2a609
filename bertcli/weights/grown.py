"""A vocabulary that grew, and the rows of its new pieces.

A new piece starts from the mean of the old pieces that its text was cut into before, so that a model reads it at first
much as it read those. What could not be cut was [UNK], and starts from its row. (The mean of all pieces, as for models
that generate text, would move the vectors of texts further.) Shapes: V old pieces, W new and old ones, H width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertcli.errors import BadData, many, shown
from bertcli.folder import Casing, read_casing, read_vocabulary, vocabulary_file
from bertcli.model.heads import MaskedLanguageHead, Network
from bertcli.text.normalize import infer_casing, is_bracketed
from bertcli.text.wordpiece import WordPiece

UNUSED = re.compile(r"\[unused\d+\]")  # the places that Google's vocabularies keep free for words to come


@dataclass(frozen=True)
class Growth:
    """All pieces, how many of them are old, and for each new one's id the old ids that its text is cut into.

    It is [UNK]'s where the text cannot be cut, and where a piece is no text, as `[E1]`.
    """

    wordpiece: WordPiece
    old: int
    parts: dict[int, list[int]]
    unmade: list[str]  # new pieces to which no text is cut

    @property
    def figures(self) -> dict[str, Any]:
        """Returns how many pieces are new, the mean of how many old ones they are, and how many could not be cut."""
        sizes = [len(parts) for parts in self.parts.values() if parts != [self.wordpiece.unk]]
        mean = round(sum(sizes) / len(sizes), 4) if sizes else None
        return {"new_pieces": len(self.parts), "parts": mean, "uncut": len(self.parts) - len(sizes)}

    def __str__(self) -> str:
        """Returns one line."""
        mean, uncut = self.figures["parts"], self.figures["uncut"]
        cut = f": the mean of {mean:.2f} old ones each" if mean else ""
        first = next((number for number, parts in self.parts.items() if parts == [self.wordpiece.unk]), 0)
        rest = f"; {uncut} that they do not make, as {self.wordpiece.pieces[first]!r}, like [UNK]" if uncut else ""
        return f"{many(len(self.parts), 'new piece')}{cut}{rest}"

    def warnings(self) -> list[str]:
        """Returns what looks wrong with it."""
        count, first = len(self.unmade), next(iter(self.unmade), "")
        return [f"{many(count, 'new piece')} that no text is cut to, as {first!r}: marks stand apart"] * (count > 0)


def extended(old: WordPiece, new: Path) -> Growth:
    """Returns how a vocabulary has grown to another, a file or a folder with one.

    The old pieces must have their ids, but for `[unusedN]`, whose places new pieces may take. Raises `BadData` naming
    the first piece that is elsewhere or twice, or that the old casing would change, and where the new casing differs.
    """
    file = vocabulary_file(new)
    pieces = read_vocabulary(file)
    _check_casing(old.casing, file)
    for number, piece in enumerate(old.pieces):
        found = pieces[number] if number < len(pieces) else None
        if found != piece and (found is None or not UNUSED.fullmatch(piece)):
            raise BadData(f"id {number}: found {shown(found)}, expected the old piece {piece!r}", file=str(file))
    added = {number: piece for number, piece in enumerate(pieces) if [piece] != old.pieces[number : number + 1]}
    _check_new(added, old, file)
    parts = {number: _cut(piece, old) for number, piece in added.items()}
    return Growth(WordPiece(pieces, old.casing), len(old.pieces), parts, _unmade(added.values()))


def unchanged(old: WordPiece) -> Growth:
    """Returns that a vocabulary has not grown."""
    return Growth(old, len(old.pieces), {}, [])


def _check_casing(casing: Casing, file: Path) -> None:
    own = read_casing(file.parent)
    if own is not None and own != casing:
        raise BadData(f"its casing is {own}, that of the old vocabulary {casing}", file=str(file))


def _check_new(added: dict[int, str], old: WordPiece, file: Path) -> None:
    seen: set[str] = set()
    for number, piece in added.items():
        if piece in old.ids or piece in seen:
            raise BadData(f"id {number}: the piece {piece!r} is there already", file=str(file))
        seen.add(piece)
    casing = old.casing
    given = {"lowercase": casing.lowercase, "strip_accents": casing.strip_accents, "split_cjk": casing.split_cjk}
    try:
        infer_casing(added.values(), **given)
    except BadData as error:
        raise error.at(str(file), None) from None


def _cut(piece: str, old: WordPiece) -> list[int]:
    text = piece.removeprefix("##")
    return [old.unk] if is_bracketed(piece) else old.cut(text, inside=text != piece) or [old.unk]


def _unmade(added: Iterable[str]) -> list[str]:
    from tokenizers.pre_tokenizers import BertPreTokenizer

    cut = BertPreTokenizer().pre_tokenize_str
    return [piece for piece in added if not is_bracketed(piece) and len(cut(piece.removeprefix("##"))) != 1]


# -- rows -----------------------------------------------------------------------------------------------------------


def grow(network: Network, growth: Growth) -> None:
    """Give a network a row for each piece, in the word embeddings and in the biases of the masked-language head.

    The rows of the old pieces stay, and what is beyond them, by which some vocabularies are filled up, goes.
    """
    words = network.bert.embeddings.word
    words.weight = _grown(words.weight, growth)
    words.num_embeddings = len(words.weight)
    for head in network.heads.values():
        if isinstance(head, MaskedLanguageHead):
            head.bias = _grown(head.bias, growth)
    network.config = replace(network.config, vocab_size=len(words.weight))


@torch.no_grad()
def _grown(rows: Tensor, growth: Growth) -> nn.Parameter:
    """Returns rows (W, H), or biases (W,), from those of the old vocabulary (V or more, H), or (V or more,)."""
    old = rows[: growth.old]
    grown = torch.cat([old, old.new_empty(len(growth.wordpiece.pieces) - growth.old, *old.shape[1:])])
    for number, parts in growth.parts.items():
        grown[number] = old[parts].mean(0)
    return nn.Parameter(grown)

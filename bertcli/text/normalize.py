"""BERT's normaliser, and which of its switches a vocabulary was made with.

The rules themselves - what is white space, a control character, an accent, punctuation - are those of
`tokenizers`, which is asked wherever a text is not plain ASCII.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from bertcli.errors import BadData
from bertcli.folder import Casing

# Characters that stand apart whatever is beside them: blanks and marks in ASCII, dashes and quotation marks, and where
# they are split, ideographs. (There are more of each: they come as parts of other words, and `tokenizers` finds them.)
BLANKS, MARKS, QUOTES, IDEOGRAPHS = " \t\n\r", string.punctuation, "\u2010-\u2027", "\u4e00-\u9fff"


def is_bracketed(piece: str) -> bool:
    """Returns whether a piece is a special token, a placeholder like `[unused0]`, or one of somebody's own.

    No text becomes such a piece, whatever the casing: a bracket is a word by itself.
    """
    return len(piece) > 2 and piece[0] == "[" and piece[-1] == "]"


def is_plain(run: str) -> bool:
    """Returns whether what stands between blanks and marks is one word to BERT, and but for its case stays itself."""
    return run.isascii() and run.isprintable()


def normalizer(casing: Casing, *, clean: bool = True) -> Any:
    """Returns the normaliser of `tokenizers`; without `clean`, control characters and white space stay."""
    from tokenizers.normalizers import BertNormalizer

    return BertNormalizer(
        clean_text=clean,
        handle_chinese_chars=casing.split_cjk,
        strip_accents=casing.strip_accents,
        lowercase=casing.lowercase,
    )


def word_pattern(*, split_cjk: bool) -> re.Pattern[str]:
    """Returns what finds single marks, single ideographs if they are split, and the runs between them and blanks."""
    alone = re.escape(MARKS) + QUOTES + (IDEOGRAPHS if split_cjk else "")
    return re.compile(rf"[{alone}]|[^{BLANKS}{alone}]+")


def splitter(casing: Casing) -> Callable[[str], list[str]]:
    """Returns the function that cuts what stands between blanks and marks into BERT's normalised words."""
    from tokenizers.pre_tokenizers import BertPreTokenizer

    normalize, cut = normalizer(casing).normalize_str, BertPreTokenizer().pre_tokenize_str

    def split(run: str) -> list[str]:
        if is_plain(run):
            return [run.lower() if casing.lowercase else run]
        return [word for word, _ in cut(normalize(run))]

    return split


def first_changed(pieces: Iterable[str], casing: Casing) -> str | None:
    """Returns the first piece that the casing would change, so that no text could give it; None if all stay.

    Pieces in brackets are exempt.
    """
    own = [piece for piece in pieces if not is_bracketed(piece) and "\n" not in piece]
    if not own:
        return None
    # One call for all: no rule of case, accents or Chinese characters reaches over a line's end.
    whole = "\n".join(piece.removeprefix("##") for piece in own)
    bodies = normalizer(casing, clean=False).normalize_str(whole).split("\n")
    after = (body.strip(" ") for body in bodies) if casing.split_cjk else iter(bodies)
    return next((piece for piece, body in zip(own, after, strict=True) if piece.removeprefix("##") != body), None)


def infer_casing(
    pieces: Iterable[str],
    *,
    lowercase: bool | None = None,
    strip_accents: bool | None = None,
    split_cjk: bool | None = None,
) -> Casing:
    """Returns the strictest casing with the given switches under which every piece stays itself.

    Raises `BadData` naming a piece that the given switches change in any case.
    """
    pieces = list(pieces)
    choices = [[True, False] if switch is None else [switch] for switch in (split_cjk, lowercase, strip_accents)]
    changed = None
    for split, lower, strip in product(*choices):
        casing = Casing(lower, strip, split)
        if (changed := first_changed(pieces, casing)) is None:
            return casing
    raise _would_change(
        changed, casing, {"split_cjk": split_cjk, "lowercase": lowercase, "strip_accents": strip_accents}
    )


def combine(default: Casing, pieces: Iterable[str], **given: bool | None) -> Casing:
    """Returns a vocabulary's own casing with the given switches put before it.

    Raises `BadData` naming a piece that they would change; the vocabulary's own casing is not judged.
    """
    casing = replace(default, **{name: value for name, value in given.items() if value is not None})
    if casing != default and (changed := first_changed(pieces, casing)) is not None:
        raise _would_change(changed, casing, given)
    return casing


def _would_change(piece: str | None, casing: Casing, given: Mapping[str, bool | None]) -> BadData:
    options = zip(("lowercase", "strip_accents", "split_cjk"), str(casing).split(), strict=True)
    named = " ".join(option for name, option in options if given.get(name) is not None)
    return BadData(f"the piece {piece!r} would never be made with {named}: the vocabulary has a different casing")

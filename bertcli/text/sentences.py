"""Running text to sentences. A line's end always ends a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from bertcli.errors import UsageError

Split = Callable[[str], list[str]]

CLOSING = "\"'”’»)\\]」』）】"
# A run of marks with the quotes that close after it, then space; Chinese and Japanese marks need no space.
# Possessive, and from the first mark on, so that a long run of dots takes no longer than other text.
BOUNDARY = re.compile(rf"(?<![.!?…])[.!?…]++[{CLOSING}]*+\s+|[。！？]++[{CLOSING}]*+\s*")
OPENING = "\"'“‘«([¿¡「『（【—–-*_ "
LAST_WORD = re.compile(r"[^\s\"'“”‘’«»()\[\]]+$")
NEXT_WORD = re.compile(r"[^\W\d_]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What stands before a name or goes on: a full stop after it ends no sentence.
TITLES = _words(
    "mr mrs ms messrs mme mlle dr prof rev fr st ste hon gen col maj capt lt sgt cpl adm cmdr gov pres sen "
    "rep supt mt ft vs viz cf e.g i.e ca approx esp incl ed eds trans"
)
# What stands before a number.
NUMBERED = _words(
    "no nos fig figs vol vols ch chap sec p pp art eq eqs ex pt jan feb mar apr jun jul aug sep sept oct nov dec"
)
MAY_BE_LAST = _words("al bros co corp etc inc jr ltd sr ave blvd dept est")
# After initials and after abbreviations that may also be last, only such a word begins a new sentence.
STARTERS = _words(
    "a after all although an and as at because but by for from he her his how however i if in it its my no "
    "now of on our she since so some such that the their then there these they this those to we what when "
    "where while who why with yet you"
)
INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")


def by_lines(text: str) -> list[str]:
    """Returns the lines that hold more than white space."""
    return [line for line in map(str.strip, text.splitlines()) if line]


def by_rules(text: str) -> list[str]:
    """Returns the sentences of running text, by rules for abbreviations, initials, decimals and quotes.

    The rules are made for English; they lose no character but white space in any language.
    """
    return [sentence for line in by_lines(text) for sentence in _sentences(line)]


def _sentences(line: str) -> Iterator[str]:
    start = 0
    for boundary in BOUNDARY.finditer(line):
        if boundary.end() < len(line) and _ends_sentence(line, start, boundary):
            yield line[start : boundary.end()].rstrip()
            start = boundary.end()
    yield line[start:]


def _ends_sentence(line: str, start: int, boundary: re.Match[str]) -> bool:
    mark = boundary.group().strip()
    if mark[0] in "。！？":
        return True
    following = line[boundary.end() : boundary.end() + 40].lstrip(OPENING)
    if following[:1].islower():
        return False
    if mark != ".":
        return True
    before = LAST_WORD.search(line, max(start, boundary.start() - 40), boundary.start())
    word = before.group() if before else ""
    next_word = NEXT_WORD.match(following)
    begins_anew = next_word is not None and next_word.group().lower() in STARTERS
    return not _abbreviates(word, is_first=boundary.start() - len(word) == start, following=following) or (
        begins_anew and word.lower() not in TITLES and not word.isdigit()
    )


def _abbreviates(word: str, *, is_first: bool, following: str) -> bool:
    """Returns whether a full stop may belong to its word: `Dr.`, `No. 5`, `J.`, `U.S.`, a list's `1.`."""
    lower = word.lower()
    if lower in TITLES or lower in MAY_BE_LAST:
        return True
    if lower in NUMBERED:
        return following[:1].isdigit()
    if word.isdigit():
        return is_first
    return word != "I" and (len(word) > 1 or word.isupper()) and INITIALS.fullmatch(word) is not None


def by_sentencex(text: str) -> list[str]:
    """Returns the sentences that the package sentencex finds; raises `UsageError` where it is missing."""
    try:
        from sentencex import segment
    except ImportError:
        problem = "--split sentencex needs the package sentencex: pip install 'bertcli[split]'"
        raise UsageError(problem) from None
    sentences = (sentence for line in by_lines(text) for sentence in segment("en", line))
    return [sentence for sentence in map(str.strip, sentences) if sentence]


SPLITS: dict[str, Split] = {"lines": by_lines, "rules": by_rules, "sentencex": by_sentencex}

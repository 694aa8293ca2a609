"""How labels of words spell entities: IOB1, IOB2 and BIOES, read as `conlleval` reads them.

A label is `O`, or a letter and a type, as in `B-PER`; entities without types are spelled by bare letters. The reading
is lenient, so that IOB1 and IOB2 need not be told apart and every sequence of labels has its entities.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from bertcli.errors import BadData

SCHEMES = ("IOB1", "IOB2", "BIOES")
OUTSIDE = "O"
# Last and only words are E and S in BIOES (or IOBES), L and U in BILOU; M stands inside in BMES, W alone in BMEWO.
LETTERS = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S", "M": "I", "W": "S"}


class Entity(NamedTuple):
    """The words from `start` to before `end`."""

    type: str
    start: int
    end: int


def parsed(label: str) -> tuple[str, str]:
    """Returns a label's letter, one of B I E S where it is a scheme's, and its type, "" where it has none."""
    letter, _, kind = label.partition("-")
    return LETTERS.get(letter, letter), kind


def spell_entities(labels: Iterable[str]) -> bool:
    """Returns whether labels, those of a whole file, spell entities: parts of speech do not."""
    names = {label for label in labels if label != OUTSIDE}
    return any(label[1:2] == "-" and label[0] in LETTERS for label in names) or bool(names and names <= set(LETTERS))


def entities(labels: Sequence[str]) -> list[Entity]:
    """Returns the entities of a sentence by the rules of `conlleval`.

    One begins with B or S, where the type changes, and with any letter after O, E or S.
    """
    found = []
    begun: int | None = None
    before = (OUTSIDE, "")
    for index, label in enumerate([*labels, OUTSIDE]):
        now = parsed(label)
        if begun is not None and _ends(before, now):
            found.append(Entity(before[1], begun, index))
            begun = None
        if _begins(before, now):
            begun = index
        before = now
    return found


def _ends(before: tuple[str, str], now: tuple[str, str]) -> bool:
    return before[0] in ("E", "S") or now[0] in ("B", "S", OUTSIDE) or before[1] != now[1]


def _begins(before: tuple[str, str], now: tuple[str, str]) -> bool:
    if now[0] == OUTSIDE:
        return False
    return now[0] in ("B", "S") or before[1] != now[1] or (before[0] in ("E", "S", OUTSIDE) and now[0] in ("I", "E"))


def spelled(found: Iterable[Entity], words: int, scheme: str) -> list[str]:
    """Returns the labels of so many words that hold these entities, which stand in order and do not overlap."""
    labels = [OUTSIDE] * words
    before = Entity("", 0, 0)
    for entity in found:
        letters = ["I"] * (entity.end - entity.start)
        touches = before.end == entity.start and before.end > 0 and before.type == entity.type
        if scheme != "IOB1" or touches:
            letters[0] = "B"
        if scheme == "BIOES":
            letters[-1] = "S" if len(letters) == 1 else "E"
        labels[entity.start : entity.end] = [f"{each}-{entity.type}" if entity.type else each for each in letters]
        before = entity
    return labels


def borders(starts: list[int] | None, words: int) -> list[tuple[int, int]]:
    """Returns where each sentence of so many words begins and ends: one, unless `sentences` say where they start.

    Raises `BadData` where these do not rise from 0 to below the number of words.
    """
    if starts is None or (not starts and not words):
        return [(0, words)]
    if starts[:1] != [0] or any(a >= b for a, b in pairwise([*starts, max(1, words)])):
        told = f"the rising indices of each sentence's first word, from 0 to below {max(1, words)}"
        raise BadData(field="sentences", found=str(starts), expected=told)
    return list(pairwise([*starts, words]))


def check(label: str) -> None:
    """Raises `BadData` for a label that spells no entity and no word outside of them."""
    if label != OUTSIDE and label.partition("-")[0] not in LETTERS:
        raise BadData(field="labels", found=label, expected="O, or one of B I E S and a type, as in B-PER")


def converted(labels: Sequence[str], scheme: str) -> list[str]:
    """Returns the labels that spell the same entities in one of `SCHEMES`; raises what `check` does."""
    for label in labels:
        check(label)
    return spelled(entities(labels), len(labels), scheme)


def fitting(labels: Sequence[str]) -> frozenset[str]:
    """Returns the schemes in which these labels are well formed; without an entity they are so in each."""
    found = entities(labels)
    given = ["-".join(filter(None, parsed(label))) for label in labels]
    return frozenset(scheme for scheme in SCHEMES if spelled(found, len(labels), scheme) == given)

"""BLiMP's JSON lines: which of two sentences is good English (Warstadt et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from bertcli.formats.tree import Node
from bertcli.lines import Lines
from bertcli.records import Anything, Record
from bertcli.stream import parsed

FIELDS = {"good": "sentence_good", "bad": "sentence_bad", "phenomenon": "linguistics_term", "paradigm": "UID"}
NUMBER = "pairID"  # of a pair in its paradigm


def read(lines: Lines) -> Iterator[Record]:
    """Yields a minimal pair a line; its id is made of the paradigm and the number in it, its other fields pass.

    Raises `BadData` for a line that is no object, or lacks one of the five fields that every line of BLiMP has.
    """
    return parsed(lines, Anything, lambda row, _: _pair(row))


def _pair(row: Record) -> Record:
    found = {name: Node(row)[theirs].text for name, theirs in FIELDS.items()}
    own = {"id": f"{found['paradigm']}-{Node(row)[NUMBER].text}", **found}
    renamed = {*FIELDS.values(), NUMBER}
    return own | {name: value for name, value in row.items() if name not in renamed | own.keys()}

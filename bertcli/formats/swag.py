"""SWAG's CSV files, in both layouts: which ending goes on with a scene (paper §4.4)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from bertcli.errors import BadData
from bertcli.formats import rows
from bertcli.lines import Lines
from bertcli.randomness import below, randomness
from bertcli.records import Record, key

GOLD = "gold-ending"  # tells the full layout
ENDING, DISTRACTOR = re.compile(r"ending\d+"), re.compile(r"distractor-\d+")


@dataclass(frozen=True)
class Regular:
    """The layout with endings in the order in which they are shown, and the index of the right one but in test files.

    The id is the file's own index, its first column, which has no name; else the row's.
    """

    header: list[str]
    endings: tuple[int, ...]
    has_header = True

    @property
    def columns(self) -> int:
        """Returns how many cells a row has."""
        return len(self.header)

    def record(self, cells: list[str], index: str) -> Record:
        """Returns the record of a row."""
        row = dict(zip(self.header, cells, strict=True))
        found = _choice(row.get("", index), row, [cells[place] for place in self.endings])
        label = row.get("label", "")
        if label and label not in map(str, range(len(self.endings))):
            raise BadData(field="label", found=label, expected=f"the index of one of {len(self.endings)} endings")
        return found | ({"label": int(label)} if label else {})


@dataclass(frozen=True)
class Full:
    """The layout with a gold ending and distractors, among which it is placed by a draw.

    The id is made of the video, the fold's index and the gold ending's source, for a scene comes again where a
    generated ending was taken for the best.
    """

    header: list[str]
    distractors: tuple[int, ...]
    seed: int
    has_header = True

    @property
    def columns(self) -> int:
        """Returns how many cells a row has."""
        return len(self.header)

    def record(self, cells: list[str], index: str) -> Record:
        """Returns the record of a row; the distractors that it lacks are left out."""
        row = dict(zip(self.header, cells, strict=True))
        parts = [row[name] for name in ("video-id", "fold-ind", "gold-source") if row.get(name)]
        found: Record = {"id": "-".join(parts) or index}
        endings = [cells[place] for place in self.distractors if cells[place]]
        label = below(len(endings) + 1, randomness(self.seed, 0, key(found, 0)))
        endings.insert(label, row[GOLD])
        return _choice(found["id"], row, endings) | {"label": label}


def read(lines: Lines, *, seed: int = 0) -> Iterator[Record]:
    """Yields choice records: `text` is the first sentence, a choice the second's beginning with an ending.

    `seed` decides where the gold endings of the full layout stand, each by its record's id. Raises `BadData` for a
    header that is neither layout's, and for a label that is no index of an ending.
    """
    return rows.records(lines, rows.csv(lines), functools.partial(_layout, seed))


def _layout(seed: int, header: list[str]) -> Regular | Full:
    lacking = [name for name in ("sent1", "sent2") if name not in header]
    pattern = DISTRACTOR if GOLD in header else ENDING
    places = [place for place, name in enumerate(header) if pattern.fullmatch(name)]
    if lacking or not places:
        expected = "a header with sent1, sent2, and ending0 … or gold-ending and distractor-0 …"
        raise BadData("the first line tells no layout", found=",".join(header), expected=expected)
    return Full(header, tuple(places), seed) if GOLD in header else Regular(header, tuple(places))


def _choice(identity: str, row: dict[str, str], endings: list[str]) -> Record:
    return {"id": identity, "text": row["sent1"], "choices": [f"{row['sent2']} {ending}" for ending in endings]}

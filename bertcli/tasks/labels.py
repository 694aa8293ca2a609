"""The labels of a head: those of a model, or those gathered from the records that it learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bertcli.errors import BadData

NONE = -1  # the number, and the id, of no label


class Labels:
    """Numbers labels in the order of sight, in which a spool holds them, and knows the id that each number stands for.

    Ids are the order of a model's labels, or of gathered ones sorted: the order of sight must not matter.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Take the labels in the order of their ids; without any, they are gathered until `close`."""
        self.names, self._is_open = tuple(names), not names
        self._numbers = {label: number for number, label in enumerate(names)}
        self.ids = np.array([*range(len(names)), NONE])  # by number; the last is that of none

    def number(self, label: str, field: str) -> int:
        """Returns a label's number; raises `BadData` for one that is unknown after they were gathered."""
        if self._is_open:
            return self._numbers.setdefault(label, len(self._numbers))
        if label not in self._numbers:
            raise BadData(field=field, found=label, expected=f"one of {', '.join(self.names)}")
        return self._numbers[label]

    def close(self) -> tuple[str, ...]:
        """Gather no more; returns the labels, sorted."""
        self._is_open, self.names = False, tuple(sorted(self._numbers))
        places = {label: place for place, label in enumerate(self.names)}
        self.ids = np.array([*(places[label] for label in self._numbers), NONE])
        return self.names

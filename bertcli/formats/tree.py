"""A file that is one JSON document, and the places of the values in it, which messages name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bertcli.errors import BadData
from bertcli.lines import Lines
from bertcli.records import INTEGER, LIST, STRING, TYPES, FieldType
from bertcli.stream import loads

LONGEST = 1 << 30  # bytes of a document, which is held whole; SQuAD's have 40 MB, TriviaQA's several hundred
OBJECT, BOOLEAN = TYPES[dict[str, Any]], TYPES[bool]


@dataclass(frozen=True)
class Node:
    """A value and its place in a document, as in `data[3].paragraphs[0].qas[2].id`."""

    value: Any
    place: str = ""

    def __getitem__(self, name: str) -> Node:
        """Returns what an object has under a name, null where it lacks it."""
        return Node(self._of(OBJECT).get(name), f"{self.place}.{name}" if self.place else name)

    def members(self) -> dict[str, Node]:
        """Returns what an object has, by name."""
        return {name: self[name] for name in self._of(OBJECT)}

    def elements(self) -> list[Node]:
        """Returns the elements of a list."""
        return [Node(each, f"{self.place}[{index}]") for index, each in enumerate(self._of(LIST))]

    @property
    def text(self) -> str:
        """Returns a string."""
        text: str = self._of(STRING)
        return text

    @property
    def number(self) -> int:
        """Returns an integer."""
        number: int = self._of(INTEGER)
        return number

    @property
    def flag(self) -> bool:
        """Returns true or false; null is false."""
        return self.value is not None and bool(self._of(BOOLEAN))

    def _of(self, kind: FieldType) -> Any:
        """Returns the value; raises `BadData` with its place where it is of another kind."""
        if not kind.is_valid(self.value):
            raise BadData(field=self.place or None, found=self.value, expected=kind.name)
        return self.value


def _held(lines: Lines) -> Iterator[str]:
    size = 0
    for line in lines:
        size += 1 + len(line)
        if size > LONGEST:
            raise BadData(f"the file is longer than {LONGEST} bytes", file=lines.name)
        yield lines.decode(line)


def document(lines: Lines) -> Node | None:
    """Returns the document that a file holds, None where it is blank; raises `BadData` with its line."""
    content = "\n".join(_held(lines))
    if not content or content.isspace():
        return None
    try:
        return Node(loads(content.encode()))
    except json.JSONDecodeError as error:
        problem = f"not a JSON document ({error.msg} at column {error.colno})"
        raise BadData(problem, file=lines.name, line=error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise BadData(f"not a JSON document ({error})", file=lines.name) from None


def elements(node: Node, name: str, lines: Lines) -> Iterator[Node]:
    """Yields the elements of the list under a name; that there is none is a fault of the file."""
    try:
        yield from node[name].elements()
    except BadData as error:
        lines.fault(error.at(lines.name, None))

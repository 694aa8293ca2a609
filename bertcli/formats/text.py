"""Plain text: a sentence a line and a blank line between documents, unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bertcli.lines import Lines
from bertcli.records import Record


def documents(
    lines: Lines, *, border: str = "blank-line", split: Callable[[str], list[str]] | None = None
) -> Iterator[Record]:
    """Yields the documents of one file, at most one of them in memory.

    `border` is what ends a document: `blank-line`, `file` or `line`. `split` makes sentences of a document's text,
    whose lines it gets joined by LF; without it the document stays a text. Raises `BadData` for a line that is not
    UTF-8, and for a document whose record would be too long a line to be read again.
    """
    for index, text in enumerate(_texts(lines, border)):
        yield {"id": str(index), **({"sentences": split(text)} if split else {"text": text})}


def _texts(lines: Lines, border: str) -> Iterator[str]:
    """Yields each document's lines, stripped and joined; blank ones stay inside a file."""
    held: list[str] = []
    size = 0
    for line in lines.map(str.strip):
        if line or (border == "file" and held):
            size = lines.grown(size if held else 0, 1 + len(line), "a document")
            held.append(line)
        if held and (border == "line" or (border == "blank-line" and not line)):
            yield "\n".join(held)
            held = []
    if held:
        yield "\n".join(held).rstrip("\n")

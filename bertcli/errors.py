"""What can go wrong, each with the exit status that a shell sees (DESIGN: `sysexits.h` where it has a name).

The library raises these; `cli.py` alone turns them into one line on stderr and a status.
"""

from __future__ import annotations

import enum
import re
from typing import Any


class Status(enum.IntEnum):
    """The exit statuses of every command."""

    DONE = 0
    FAILURE = 1
    USAGE = 2
    BAD_DATA = 65
    NO_INPUT = 66
    CANNOT_CREATE = 73
    IO_FAILED = 74
    STOPPED = 75


class BertcliError(Exception):
    """Something that a user can act on; its text is one line."""

    status = Status.FAILURE
    is_shared = False  # by all processes that do one work together: it is for the first of them to tell


class UsageError(BertcliError):
    """Options that do not go together, or a value that an option cannot take."""

    status = Status.USAGE


class NoInput(BertcliError):
    """A file, vocabulary or model that is not there or cannot be opened."""

    status = Status.NO_INPUT


class CannotCreate(BertcliError):
    """An output that cannot be made, or that would overwrite something."""

    status = Status.CANNOT_CREATE


class IOFailed(BertcliError):
    """Reading or writing broke off, as on a full disk."""

    status = Status.IO_FAILED


class Stopped(BertcliError):
    """A signal asked a long run to end, and all its work is saved."""

    status = Status.STOPPED


class Diverged(BertcliError):
    """A model whose loss, or answers, are no finite numbers any more."""

    def __init__(self, problem: str, step: int | None = None) -> None:
        """Keep the training step that could not be taken, where the model is still as before it."""
        super().__init__(problem)
        self.step = step


LONGEST_NAME = 200  # characters of a field that a message shows


class BadData(BertcliError):
    """Input that is not what its reader expects: says where, what was found and what was expected.

    Whoever notices the fault gives `field`, `found` and `expected`; whoever reads the stream knows `file` and
    `line` and adds them on the way up.
    """

    status = Status.BAD_DATA

    def __init__(
        self,
        problem: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
        found: Any = None,
        expected: str | None = None,
    ) -> None:
        """Keep the parts, of what was found only its text; `str()` joins those that are known."""
        super().__init__(problem)
        self.problem, self.file, self.line = problem, file, line
        self.field, self.found, self.expected = field, shown(found), expected

    def at(self, file: str, line: int | None) -> BadData:
        """Returns this error with its place, unless an inner reader has named one."""
        if self.file is None:
            self.file, self.line = file, line
        return self

    def __str__(self) -> str:
        """Returns `file:line: field 'x': problem; found ..., expected ...` as far as the parts are known."""
        place = [] if self.file is None else [self.file if self.line is None else f"{self.file}:{self.line}"]
        if self.field is not None:
            place.append(f"field '{shortened(self.field, LONGEST_NAME)}'")
        what = [self.problem] if self.problem else []
        if self.expected is not None:
            what.append(f"found {self.found}, expected {self.expected}")
        return ": ".join([*place, "; ".join(what)])


def shown(value: Any, limit: int = 60) -> str:
    """Returns a value as a message shows it: JSON-like, on one line, at most `limit` characters."""
    if value is None:
        return "nothing"
    if isinstance(value, list | dict):  # which may be large, and deep
        kind = "list" if isinstance(value, list) else "object"
        return f"a{'n' * (kind == 'object')} {kind}" if value else f"an empty {kind}"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return shortened(text, limit)


def shortened(text: str, limit: int) -> str:
    """Returns a text of at most `limit` characters, the last of which tells where it was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


# What a terminal obeys rather than shows: control characters, line ends, writing to the left; and what UTF-8 cannot be.
UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Returns a text with what a terminal would obey as escapes, for names may come from anybody."""
    return UNSHOWN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def many(count: int, noun: str) -> str:
    """Returns a count with its noun, as messages show it: `1 record`, `2 records`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def of_system(error: OSError) -> str:
    """Returns what the system has said, with the file's name where it has one."""
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)

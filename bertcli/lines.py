"""The numbered lines of binary files handed in.

A pipe must never starve: whoever is about to wait for the producer first calls `before_wait`, by which the command's
writer hands on everything it holds.
"""

from __future__ import annotations

import select
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple, TypeVar

from bertcli.errors import BadData, IOFailed
from bertcli.frames import decompressed

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"
# Bytes of a line, or of lines that make one record; more are refused rather than held. Lines of 200 MB are known to
# occur. A record of text takes about four times its line in memory; of numbers and brackets see `stream.HEAVIEST`.
LONGEST_LINE = 1 << 28


class Source(NamedTuple):
    """A binary file, ideally unbuffered, with the name that messages give it."""

    file: BinaryIO
    name: str


class Numbered(ABC):
    """Lines of one source that know where they stand in it.

    `on_error` "skip" passes over bad lines and adds what was wrong with them to `skipped`.
    """

    def __init__(self, name: str, number: int, on_error: str, skipped: list[str] | None) -> None:
        """Stand behind the line of that number."""
        self.name, self.number = name, number
        self.on_error, self.skipped = on_error, [] if skipped is None else skipped

    @abstractmethod
    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines; `number` is the last one's, from 1."""

    def map(self, function: Callable[[str], T]) -> Iterator[T]:
        """Yields what the function makes of each line's text; its `BadData` gets a place, or skips the line."""
        for line in self:
            try:
                result = function(self.decode(line))
            except BadData as error:
                self.fault(error)
            else:
                yield result

    def fault(self, error: BadData) -> None:
        """Raise an error of the line last yielded with its place, or count the line as skipped."""
        error.at(self.name, self.number)
        if self.on_error == "stop":
            raise error
        self.skipped.append(str(error))

    def decode(self, line: bytes) -> str:
        """Returns the line last yielded as text."""
        try:
            return line.decode()
        except UnicodeDecodeError as error:
            problem = f"not UTF-8: byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            raise BadData(problem, file=self.name, line=self.number) from None


class Mark(NamedTuple):
    """A place in an input by which it is known again: the records before it, and a hash of their lines."""

    records: int
    digest: str


class Batch(Numbered):
    """Lines to be worked on together, perhaps in another process.

    `index` lines that are not blank came before them. `is_text` is None until a line has decided it. The mark, if it
    was given one, is that of its end.
    """

    mark: Mark | None = None

    def __init__(self, source: Lines, index: int, is_text: bool | None) -> None:
        """Begin behind the last line that came from the source."""
        super().__init__(source.name, source.number, source.on_error, None)
        self.index, self.is_text = index, is_text
        self.lines: list[bytes] = []
        self.size = 0  # bytes
        self.begun = time.monotonic()

    def add(self, line: bytes) -> None:
        """Add the next line."""
        if not self.lines:
            self.begun = time.monotonic()
        self.lines.append(line)
        self.size += 1 + len(line)

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines."""
        for line in self.lines:
            self.number += 1
            yield line


class Lines(Numbered):
    """The lines of one source, without their ends (LF or CRLF) and without a BOM at the start."""

    def __init__(
        self,
        source: Source,
        before_wait: Callable[[], None] = lambda: None,
        *,
        on_error: str = "stop",
        skipped: list[str] | None = None,
    ) -> None:
        """Read nothing yet."""
        super().__init__(source.name, 0, on_error, skipped)
        self._file, self._before_wait = source.file, before_wait
        self._pieces = decompressed(source.file)
        self._lines: deque[bytes] = deque()
        self._tail: list[bytes] = []  # the pieces of a line whose end has not come yet
        self._tail_bytes = 0
        self._ended = False

    def _fill(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            self._ended = True
            if last := b"".join(self._tail):
                self._lines.append(last)
            return
        first, *others = piece.split(b"\n")
        self._tail.append(first)
        self._tail_bytes = grown(self._tail_bytes, len(first))
        if others:
            self._lines.append(b"".join(self._tail))
            self._tail = [others.pop()]
            self._tail_bytes = len(self._tail[0])
            self._lines.extend(others)

    def grown(self, held: int, more: int, what: str) -> int:
        """Returns `grown`, its error with the place of the line last yielded; bad lines may be skipped, this not."""
        try:
            return grown(held, more, what)
        except BadData as error:
            raise error.at(self.name, self.number) from None

    @property
    def ended(self) -> bool:
        """Returns whether all lines have been yielded."""
        return self._ended and not self._lines

    def waits(self, patience: float = 0) -> bool:
        """Returns whether the next line does not arrive within so many seconds: asking for it would wait longer."""
        while not self._lines and not self._ended:
            if not _has_data(self._file, patience):
                return True
            self._guarded(self._fill)
        return False

    def _guarded(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except BadData as error:
            raise error.at(self.name, self.number + 1) from error.__cause__
        except OSError as error:
            raise IOFailed(f"{self.name}: reading failed: {error.strerror}") from error

    def __iter__(self) -> Iterator[bytes]:
        """Yields the lines."""
        while True:
            while self._lines:
                self.number += 1
                line = self._lines.popleft().removesuffix(b"\r")
                yield line if self.number > 1 else line.removeprefix(BOM)
            if self._ended:
                return
            if self.waits():
                self._before_wait()
                self._guarded(self._fill)


def grown(held: int, more: int, what: str = "a line") -> int:
    """Returns how many bytes are held of what is to be one record; raises `BadData` for more than `LONGEST_LINE`."""
    if held + more > LONGEST_LINE:
        raise BadData(f"{what} is longer than {LONGEST_LINE} bytes")
    return held + more


def is_blank(line: bytes) -> bool:
    """Returns whether a line holds no record."""
    return not line or line.isspace()


def _has_data(file: BinaryIO, patience: float) -> bool:
    """Returns whether a read would come back within so many seconds, with bytes or with the end of the file."""
    try:
        return bool(select.select([file], [], [], patience)[0])
    except (OSError, ValueError):  # no descriptor: a file in memory
        return True

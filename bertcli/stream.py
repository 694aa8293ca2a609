"""zstd JSON Lines on binary files handed in: line numbers, records, flushes.

`Lines` cuts the bytes of `frames` into lines, `Reader` makes records of them, `Writer` writes records. None of them
opens, closes or chooses a file; all of them say where a fault lies.

A pipe must never starve: a reader about to wait for its producer first calls `before_wait`, by which the command's
writer hands on everything it holds.
"""

from __future__ import annotations

import json
import re
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple, TypeVar

import orjson
import zstandard

from bertcli.errors import BadData, IOFailed
from bertcli.frames import decompressed
from bertcli.records import Record, checker

T = TypeVar("T")

BOM = b"\xef\xbb\xbf"
LONGEST_LINE = 1 << 30  # bytes; a longer one is refused rather than held in memory
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.2  # a busy writer hands on what it holds this often


class Source(NamedTuple):
    """A binary file, ideally unbuffered, with the name that messages give it."""

    file: BinaryIO
    name: str


# -- lines ----------------------------------------------------------------------------------------------------------


def _has_data(file: BinaryIO) -> bool:
    """Returns whether a read would come back at once, with bytes or with the end of the file."""
    try:
        return bool(select.select([file], [], [], 0)[0])
    except (OSError, ValueError):  # no descriptor: a file in memory
        return True


class Lines:
    """The numbered lines of one source, without their ends (LF or CRLF) and without a BOM at the start.

    `on_error` "skip" passes over bad lines and adds what was wrong with them to `skipped`.
    """

    def __init__(
        self,
        source: Source,
        before_wait: Callable[[], None] = lambda: None,
        *,
        on_error: str = "stop",
        skipped: list[str] | None = None,
    ) -> None:
        """Read nothing yet."""
        self.name, self.number = source.name, 0
        self.on_error, self.skipped = on_error, [] if skipped is None else skipped
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
        elif b"\n" in piece:
            first, *others = piece.split(b"\n")
            self._lines.append(b"".join([*self._tail, first]))
            self._tail = [others.pop()]
            self._tail_bytes = len(self._tail[0])
            self._lines.extend(others)
        else:
            self._tail.append(piece)
            self._tail_bytes += len(piece)
            if self._tail_bytes > LONGEST_LINE:
                raise BadData(f"a line is longer than {LONGEST_LINE} bytes")

    @property
    def ended(self) -> bool:
        """Returns whether all lines have been yielded."""
        return self._ended and not self._lines

    def waits(self) -> bool:
        """Returns whether the next line has not arrived, so that asking for it would wait for the producer."""
        while not self._lines and not self._ended:
            if not _has_data(self._file):
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
        """Yields the lines; `number` is the last one's, from 1."""
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


# -- records --------------------------------------------------------------------------------------------------------

_LONG_INTEGER = re.compile(rb"(?<![.\d])\d{19}")


def loads(line: bytes) -> Any:
    """Returns a line's JSON value; integers of up to 4,300 digits are exact, NaN and lone surrogates a `ValueError`."""
    if not _LONG_INTEGER.search(line):
        return orjson.loads(line)
    value = json.loads(line)  # orjson makes doubles of integers that need more than 64 bits
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # refuses what orjson does
    return value


def dumps(value: Any) -> bytes:
    """Returns a value as compact JSON in UTF-8, on one line, without its end."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, or a depth of more than 254
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except RecursionError:
        raise BadData("a record is nested too deeply to be written") from None


class Reader:
    """The records of some sources, in order.

    With `text` None, a source whose first non-blank character is not `{` is text, each line of it a record with that
    line as `text`; True forces that, False forbids it. `on_error` "skip" passes over bad lines and counts them.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        schema: type,
        *,
        text: bool | None = False,
        on_error: str = "stop",
        before_wait: Callable[[], None] = lambda: None,
    ) -> None:
        """Read nothing yet."""
        self._sources, self._check, self._text = sources, checker(schema), text
        self._on_error, self._before_wait = on_error, before_wait
        self._lines: Lines | None = None
        self.read = 0
        self.skipped: list[str] = []  # what was wrong with each line passed over

    def waits(self) -> bool:
        """Returns whether the next record may have to be waited for, as it may where one source ends."""
        return self._lines is not None and (self._lines.waits() or self._lines.ended)

    def __iter__(self) -> Iterator[Record]:
        """Yields the records; raises `BadData` with file and line."""
        return self.map(lambda record: record)

    def map(self, function: Callable[[Record], T]) -> Iterator[T]:
        """Yields what the function makes of each record; its `BadData` gets file and line, or skips the record."""
        for source in self._sources:
            lines = Lines(source, self._before_wait, on_error=self._on_error, skipped=self.skipped)
            self._lines = lines
            is_text = self._text
            for line in lines:
                if not line or line.isspace():
                    continue
                if is_text is None:
                    is_text = not line.lstrip().startswith(b"{")
                try:
                    record = {"text": lines.decode(line)} if is_text else self._record(line)
                    result = function(record)
                except BadData as error:
                    lines.fault(error)
                except RecursionError:
                    lines.fault(BadData("a record is nested too deeply"))
                else:
                    self.read += 1
                    yield result

    def _record(self, line: bytes) -> Record:
        try:
            value = loads(line)
        except (ValueError, RecursionError) as error:
            raise BadData(f"not a JSON record ({error})") from None
        if type(value) is not dict:
            raise BadData(found=value, expected="a JSON object")
        self._check(value)
        return value


def gathered(
    items: Iterable[T], size: int, waits: Callable[[], bool], weigh: Callable[[T], int] = lambda item: 1
) -> Iterator[list[T]]:
    """Yields lists of items, each twice as heavy as the one before up to `size`, so that the first comes early.

    A list ends where the next item would have to be waited for, or is bad: what came before it is not lost.
    """
    window: list[T] = []
    weight, room = 0, max(1, size // 64)
    try:
        for item in items:
            window.append(item)
            weight += weigh(item)
            if weight >= room or waits():
                yield window
                window, weight, room = [], 0, min(2 * room, size)
    except BadData:
        if window:
            yield window
        raise
    if window:
        yield window


class Writer:
    """Writes records to a binary file as one zstd frame with a checksum, or plain.

    Used as a context manager. Left by an exception it hands on whole lines but does not end the frame, so that the
    next stage of a pipe fails too instead of taking the part for the whole.
    """

    def __init__(self, file: BinaryIO, *, plain: bool) -> None:
        """Write nothing yet."""
        self._file = file
        compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
        self._frame = None if plain else compressor.compressobj()
        self._held = bytearray()
        self._flushed = time.monotonic()

    def write(self, record: Record) -> None:
        """Write one record."""
        line = dumps(record) + b"\n"
        self._held += self._frame.compress(line) if self._frame else line
        if len(self._held) > FLUSH_BYTES:
            self._send()
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Hand on everything that was written."""
        if self._frame:
            self._held += self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        self._send()
        self._flushed = time.monotonic()

    def _send(self) -> None:
        held, self._held = self._held, bytearray()
        write_all(self._file, held)

    def __enter__(self) -> Writer:
        """Returns itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the frame, or after an exception leave it open."""
        if kind is None:
            self._held += self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH) if self._frame else b""
            self._send()
        elif issubclass(kind, Exception) and not issubclass(kind, BrokenPipeError | IOFailed):
            self.flush()  # not after an interrupt, which must not wait for a reader that has stalled


def write_all(file: BinaryIO, data: bytes | bytearray) -> None:
    """Write every byte to an unbuffered file; raises `IOFailed` (a full disk) or `BrokenPipeError` (no reader)."""
    rest = memoryview(data)
    try:
        while rest:
            written = file.write(rest)
            if written is None:  # a pipe that does not block, and is full
                select.select([], [file], [])
            rest = rest[written or 0 :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IOFailed(f"writing failed: {error.strerror}") from error

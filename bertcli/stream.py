"""zstd JSON Lines: records out of numbered lines, records into files.

None of this opens, closes or chooses a file; all of it says where a fault lies.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeVar

import orjson
import zstandard

from bertcli.errors import BadData, BertcliError, IOFailed
from bertcli.lines import Batch, Lines, Numbered, Source, is_blank
from bertcli.records import Record, checker

T = TypeVar("T")

BATCH = 1 << 20  # bytes
FLUSH_BYTES = 1 << 16
FLUSH_SECONDS = 0.2  # a busy writer hands on what it holds this often

# -- records --------------------------------------------------------------------------------------------------------

DEEPEST = 1024  # lists within lists; deeper ones are not read
# Bytes that a line's numbers, lists and objects may take in memory; one of nothing but brackets takes 32 times its own.
HEAVIEST, NUMBER, CONTAINER = 1 << 30, 32, 64
DIGITS = bytes.maketrans(b"123456789", b"000000000")


def loads(line: bytes) -> Any:
    """Returns a line's JSON value; integers of up to 4,300 digits are exact, NaN and lone surrogates a `ValueError`."""
    if len(line) > HEAVIEST // CONTAINER:
        _weigh(line)
    if b"0" * 19 not in line.translate(DIGITS):
        return orjson.loads(line)
    with deep():
        value = json.loads(line.decode())  # orjson makes doubles of integers that need more than 64 bits
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # refuses what orjson does
    return value


def _weigh(line: bytes) -> None:
    """Raise `ValueError` where the values of a line would take more memory than is to be had for them."""
    weight = NUMBER * line.count(b",") + CONTAINER * (line.count(b"[") + line.count(b"{"))
    if weight > HEAVIEST:
        raise ValueError("more numbers, lists and objects than are held of one line")


def dumps(value: Any) -> bytes:
    """Returns a value as compact JSON in UTF-8, on one line, without its end; arrays of numpy may be in it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # an integer of more than 64 bits, or a depth of more than 254
        pass
    with deep():
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=lambda a: a.tolist()
        )
    return text.encode()


@contextmanager
def deep() -> Iterator[None]:
    """Lets Python's own JSON, and its pickle, nest as deeply as orjson does."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 2 * DEEPEST)  # pickle counts a list twice
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def parsed(
    lines: Numbered, schema: type, function: Callable[[Record, int], T], *, text: bool | None = False, index: int = 0
) -> Iterator[T]:
    """Yields what the function makes of each record and its index; its `BadData` gets a place, or skips the record.

    With `text` each line is a record with that line as `text`; None lets the first line decide, which begins with `{`
    where the lines are records. `index` is the first line's; blank lines have none.
    """
    check = checker(schema)
    for line in lines:
        if is_blank(line):
            continue
        if text is None:
            text = is_text(line)
        try:
            result = function({"text": lines.decode(line)} if text else _record(line, lines, check), index)
        except BadData as error:
            lines.fault(error)
        except RecursionError:
            lines.fault(BadData("a record is nested too deeply"))
        else:
            yield result
        index += 1


def is_text(line: bytes) -> bool:
    """Returns whether the first line of a source makes it text, not records."""
    return not line.lstrip().startswith(b"{")


def _record(line: bytes, lines: Numbered, check: Callable[[Record], None]) -> Record:
    try:
        value = loads(line)
    except (ValueError, RecursionError) as error:
        lines.decode(line)  # says which byte is not UTF-8, if that is the fault
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        hint = "" if line.lstrip().startswith(b"{") else "; plain text becomes documents by `bertcli read text`"
        raise BadData(f"not a JSON record ({what}){hint}") from None
    if type(value) is not dict:
        raise BadData(found=value, expected="a JSON object")
    check(value)
    return value


def joined(records: Iterable[Record]) -> bytes:
    """Returns records as lines, each with its end."""
    return b"".join([dumps(record) + b"\n" for record in records])


class Reader:
    """The records of some sources, in order.

    With `text` None, a source whose first non-blank character is not `{` is text, each line of it a record with that
    line as `text`; True forces that, False forbids it. `on_error` "skip" passes over bad lines and adds what was wrong
    with them to `skipped`.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        schema: type,
        *,
        text: bool | None = False,
        on_error: str = "stop",
        skipped: list[str] | None = None,
        before_wait: Callable[[], None] = lambda: None,
    ) -> None:
        """Read nothing yet."""
        self._sources, self._schema, self._text = sources, schema, text
        self._on_error, self._before_wait = on_error, before_wait
        self._lines: Lines | None = None
        self.read = 0
        self.skipped = [] if skipped is None else skipped

    def waits(self) -> bool:
        """Returns whether the next record may have to be waited for, as it may where one source ends."""
        return self._lines is not None and (self._lines.waits() or self._lines.ended)

    def __iter__(self) -> Iterator[Record]:
        """Yields the records; raises `BadData` with file and line."""
        return self.map(lambda record: record)

    def map(self, function: Callable[[Record], T]) -> Iterator[T]:
        """Yields what the function makes of each record; its `BadData` gets file and line, or skips the record."""
        for source in self._sources:
            self._lines = self._open(source)
            for result in parsed(self._lines, self._schema, lambda record, _: function(record), text=self._text):
                self.read += 1
                yield result

    def _open(self, source: Source) -> Lines:
        return Lines(source, self._before_wait, on_error=self._on_error, skipped=self.skipped)

    def batches(self, size: int = BATCH, patience: float = 0) -> Iterator[Batch | None]:
        """Yields the lines in batches of `size` bytes, small ones first, so that the first results come early.

        A batch ends, and None follows, where the next line does not come within `patience` seconds; and before a fault,
        so that what came before it is not lost. However steadily lines come, a batch does not wait for them longer than
        a writer does.
        """
        index, room = 0, max(1, size // 64)
        for lines in map(self._open, self._sources):
            batch = Batch(lines, index, self._text)
            try:
                for line in lines:
                    batch.add(line)
                    if not is_blank(line):
                        index += 1
                        batch.is_text = is_text(line) if batch.is_text is None else batch.is_text
                    waits = lines.waits(patience)
                    if batch.size >= room or waits or time.monotonic() - batch.begun > FLUSH_SECONDS:
                        yield batch
                        batch, room = Batch(lines, index, batch.is_text), min(2 * room, size)
                    if waits:
                        yield None
            except BertcliError:
                yield batch
                yield None
                raise
            yield batch
            yield None  # the next source may have to be waited for


class Writer:
    """Writes records to a binary file as one zstd frame with a checksum, or plain.

    Used as a context manager. Left by an exception it hands on whole lines but does not end the frame, so that the
    next stage of a pipe fails too instead of taking the part for the whole.
    """

    def __init__(self, file: BinaryIO, *, plain: bool, threads: int = 0) -> None:
        """Write nothing yet; so many threads compress beside this one, which otherwise does it itself."""
        self._file = file
        compressor = zstandard.ZstdCompressor(level=3, write_checksum=True, threads=threads)
        self._frame = None if plain else compressor.compressobj()
        self._held = bytearray()
        self._flushed = time.monotonic()

    def write(self, record: Record) -> None:
        """Write one record."""
        self.write_lines(dumps(record) + b"\n")

    def write_lines(self, lines: bytes) -> None:
        """Write records that are lines already, each with its end."""
        self._held += self._frame.compress(lines) if self._frame else lines
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

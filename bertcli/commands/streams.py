"""A command's standard input, output and error, and how it was told to treat them."""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

import click

from bertcli.errors import IOFailed, NoInput, UsageError, printable

if TYPE_CHECKING:
    from bertcli.lines import Batch, Lines, Mark, Source
    from bertcli.parallel import Pool
    from bertcli.records import Record
    from bertcli.stages import Made, Stage, Tally
    from bertcli.stream import Reader, Writer


class Summary(Protocol):
    """What a command did, one line for people."""

    def warnings(self) -> list[str]:
        """Returns what looks wrong with it."""
        ...


PATIENCE = 0.05  # seconds
PIPE = 1 << 20  # bytes on their way from the stage before, which works on while this one is busy with a batch

T = TypeVar("T")
R = TypeVar("R")
C = TypeVar("C", bound="Tally")


class Streams:
    """The input files (or stdin), stdout and stderr of one command, and how it was told to treat them."""

    def __init__(self, files: tuple[str, ...], *, plain: bool, quiet: bool, on_error: str, text: bool) -> None:
        """Open nothing yet."""
        self.files, self.quiet, self.on_error = files or ("-",), quiet, on_error
        self.plain = (
            plain
            or os.environ.get("BERTCLI_PLAIN", "") not in ("", "0")
            or (sys.stdout is not None and sys.stdout.isatty())
        )
        self.force_text = text
        self.skipped: list[str] = []
        self.is_silent = False  # neither results nor messages: another process has the same
        self._writer: Writer | None = None

    def of(self, file: str) -> Streams:
        """Returns one more input, a file that an option names, to be treated like the others.

        Raises `UsageError` where both are stdin.
        """
        if file == "-" and "-" in self.files:
            raise UsageError("stdin is asked for twice")
        other = Streams((file,), plain=self.plain, quiet=self.quiet, on_error=self.on_error, text=False)
        other.skipped = self.skipped
        return other

    def sources(self) -> Iterator[Source]:
        """Returns the input files, each opened when its turn comes: a process can hold only so many open.

        Raises at once `NoInput` for the first that cannot be read, and `UsageError` where two are stdin.
        """
        if self.files.count("-") > 1:
            raise UsageError("stdin is asked for twice")
        for name in self.files:
            if name != "-" and (os.path.isdir(name) or not os.access(name, os.R_OK)):
                open_input(name)  # fails, and says why
        return map(open_input, self.files)

    def lines(self) -> Iterator[Lines]:
        """Returns the lines of each input file, for formats that are not records."""
        from bertcli.lines import Lines

        sources = self.sources()
        return (Lines(each, self._hand_on, on_error=self.on_error, skipped=self.skipped) for each in sources)

    def reader(self, schema: type, *, text: bool = False) -> Reader:
        """Returns the input's records; `text` says that the command also takes plain lines."""
        from bertcli.stream import Reader

        kind = (True if self.force_text else None) if text else False
        return Reader(
            self.sources(),
            schema,
            text=kind,
            on_error=self.on_error,
            skipped=self.skipped,
            before_wait=self._hand_on,
        )

    def _hand_on(self) -> None:
        if self._writer:
            self._writer.flush()

    @contextmanager
    def writer(self, threads: int = 0) -> Iterator[Writer]:
        """Gives stdout as a stream of records; says at the end how many bad lines were passed over."""
        from bertcli.stream import Writer

        with Writer(standard("stdout"), plain=self.plain, threads=threads) as self._writer:
            yield self._writer
        self.report_skipped()

    def made(self, stage: Stage[T, R], *, text: bool = False, workers: int = 1) -> Iterator[R]:
        """Returns what a stage makes of one batch of the input after another, the work shared by `workers` processes.

        Raises at once what `sources` does.
        """
        from bertcli.parallel import Pool

        pool = Pool(workers)
        results = self.paced(stage, pool, text=text)

        def made() -> Iterator[R]:
            with pool:
                yield from (result for result in results if result is not None)

        return made()

    def paced(self, stage: Stage[T, R], pool: Pool, *, text: bool = False) -> Iterator[R | None]:
        """Returns the same, made by a pool that may have other work too, and None wherever the input pauses."""
        return self._opened(pool.paced(stage, self._batches(stage, pool, text=text)))

    def marked(self, stage: Stage[T, R], pool: Pool) -> Callable[[Sequence[Mark], Collection[int]], Iterator[R | None]]:
        """Returns what reads the input as `paced` does, in the batches of `marks.marked`. Raises what `paced` does."""
        from bertcli.marks import marked

        batches = self._batches(stage, pool)
        return lambda known, cuts: self._opened(pool.paced(stage, marked(batches, known, cuts)))

    def stamps(self) -> list[tuple[int, int]]:
        """Returns the size and the time of last change of each input file; none where one is a pipe."""
        found = [os.stat(name) for name in self.files if name != "-"]
        if len(found) < len(self.files) or not all(stat.S_ISREG(each.st_mode) for each in found):
            return []
        return [(each.st_size, each.st_mtime_ns) for each in found]

    def _batches(self, stage: Stage[T, R], pool: Pool, *, text: bool = False) -> Iterator[Batch | None]:
        # A pipe is empty for an instant again and again: were that a pause, workers would wait for each other.
        return self.reader(stage.schema, text=text).batches(stage.size, PATIENCE if pool.workers > 1 else 0)

    def _opened(self, results: Iterator[Made[R] | None]) -> Iterator[R | None]:
        for made in results:
            if made is None:
                yield None
                continue
            self.skipped += made.skipped
            yield made.result
            if made.fault is not None:
                raise made.fault

    def filter(self, stage: Stage[T, tuple[bytes, C]], counts: C, *, text: bool = False, workers: int = 1) -> None:
        """Write the lines that a stage makes, and sum up what it counts beside them."""
        with self.writer() as out:
            for lines, counted in self.made(stage, text=text, workers=workers):
                out.write_lines(lines)
                counts = counts + counted
        self.sum_up(counts)

    def write(self, records: Iterable[Record]) -> None:
        """Write records as they come."""
        with self.writer() as out:
            for record in records:
                out.write(record)

    def write_plain(self, data: bytes) -> None:
        """Write bytes to stdout as they are."""
        from bertcli.stream import write_all

        write_all(standard("stdout"), data)

    def write_result(self, result: Record) -> None:
        """Write one plain JSON line, the result of a command that does not produce a stream."""
        from bertcli.stream import dumps

        if not self.is_silent:
            self.write_plain(dumps(result) + b"\n")

    def note(self, message: str) -> None:
        """Write one line to stderr, unless `--quiet`."""
        if not (self.quiet or self.is_silent):
            tell(message)

    def warn(self, message: str) -> None:
        """Write one line to stderr, even with `--quiet`."""
        if not self.is_silent:
            tell(f"warning: {message}")

    def sum_up(self, summary: Summary) -> None:
        """Write what was done to stderr, unless `--quiet`, and in any case what looks wrong with it."""
        self.note(str(summary))
        for warning in summary.warnings():
            self.warn(warning)

    def report_skipped(self) -> None:
        """Say how many bad lines `--on-error skip` passed over; it is said even with `--quiet`."""
        if self.skipped and not self.is_silent:
            count, first = len(self.skipped), self.skipped[0]
            tell(f"bad lines skipped: {count}; the first: {first}")


def standard(name: str) -> BinaryIO:
    """Returns stdin or stdout as raw bytes; raises `IOFailed` where the shell has closed it."""
    stream = getattr(sys, name)
    if stream is None:
        raise IOFailed(f"{name} is closed")
    raw: BinaryIO = getattr(stream.buffer, "raw", stream.buffer)
    return raw


def tell(message: str) -> None:
    """Write one line to stderr, above a bar; where that is full or closed, the work goes on without it."""
    bars = sys.modules.get("tqdm")  # none is drawn before it was loaded
    with suppress(OSError), bars.tqdm.external_write_mode(sys.stderr) if bars else nullcontext():
        click.echo(printable(message), err=True)


def readable(name: str) -> str:
    """Returns a name from the command line as UTF-8 text, its other bytes as escapes, for records and messages."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def open_input(name: str) -> Source:
    """Returns one opened input, `-` being stdin. Raises `NoInput`, or `UsageError` where stdin is asked for twice."""
    from bertcli.lines import Source

    if name == "-":
        asked = click.get_current_context().meta
        if asked.get("bertcli.stdin"):
            raise UsageError("stdin is asked for twice")
        asked["bertcli.stdin"] = True
        stdin = standard("stdin")
        with suppress(AttributeError, OSError):  # Linux alone has it, and of what is no pipe there is nothing to widen
            fcntl.fcntl(stdin, fcntl.F_SETPIPE_SZ, PIPE)
        return Source(stdin, "<stdin>")
    try:
        return Source(open(name, "rb", buffering=0), readable(name))
    except OSError as error:
        raise NoInput(f"{readable(name)}: {error.strerror}") from error

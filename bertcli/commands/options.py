"""The options that several commands share, each declared once, and a command's standard input and output.

A long option has one meaning everywhere. Options that belong together arrive as one object.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from bertcli.errors import BadData, CannotCreate, NoInput

if TYPE_CHECKING:
    from bertcli.records import Record
    from bertcli.stream import Lines, Reader, Source, Writer
    from bertcli.text.normalize import Casing
    from bertcli.text.wordpiece import WordPiece

F = TypeVar("F", bound=Callable[..., Any])


class Command(click.Command):
    """A command that also says what it reads and writes, for its manual page, and shows itself at work."""

    def __init__(self, *args: Any, reads: str, writes: str, examples: list[tuple[str, str]], **kwargs: Any) -> None:
        """Keep `examples` as (shell line, what it does); each of them runs in a test."""
        super().__init__(*args, **kwargs)
        self.reads, self.writes, self.examples = reads, writes, examples


def command(name: str, **kwargs: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Returns click's decorator for a `Command`; takes `reads`, `writes` and `examples`."""
    return click.command(name, cls=Command, context_settings={"help_option_names": ["-h", "--help"]}, **kwargs)


# -- input and output -----------------------------------------------------------------------------------------------


class Streams:
    """The input files (or stdin), stdout and stderr of one command, and how it was told to treat them."""

    def __init__(self, files: tuple[str, ...], *, plain: bool, quiet: bool, on_error: str, text: bool) -> None:
        """Open nothing yet."""
        self.files, self.quiet, self.on_error = files or ("-",), quiet, on_error
        self.plain = plain or os.environ.get("BERTCLI_PLAIN", "") not in ("", "0") or sys.stdout.isatty()
        self.force_text = text
        self.skipped: list[str] = []
        self._writer: Writer | None = None

    def sources(self) -> Iterator[Source]:
        """Returns the input files, each opened when its turn comes: a process can hold only so many open.

        Raises `NoInput` at once for the first that cannot be read.
        """
        for name in self.files:
            if name != "-" and not os.access(name, os.R_OK):
                open_input(name)  # fails, and says why
        return map(open_input, self.files)

    def lines(self) -> Iterator[Lines]:
        """Returns the lines of each input file, for formats that are not records."""
        from bertcli.stream import Lines

        options = {"on_error": self.on_error, "skipped": self.skipped}
        return (Lines(source, self._hand_on, **options) for source in self.sources())  # type: ignore[arg-type]

    def reader(self, schema: type, *, text: bool = False) -> Reader:
        """Returns the input's records; `text` says that the command also takes plain lines."""
        from bertcli.stream import Reader

        kind = (True if self.force_text else None) if text else False
        options = {"on_error": self.on_error, "before_wait": self._hand_on}
        reader = Reader(self.sources(), schema, text=kind, **options)  # type: ignore[arg-type]
        self.skipped = reader.skipped
        return reader

    def _hand_on(self) -> None:
        if self._writer:
            self._writer.flush()

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Gives stdout as a stream of records; says at the end how many bad lines were passed over."""
        from bertcli.stream import Writer

        with Writer(unbuffered(sys.stdout.buffer), plain=self.plain) as self._writer:
            yield self._writer
        self.report_skipped()

    def filter(self, schema: type, function: Callable[[Record], Record], *, text: bool = False) -> None:
        """Write what the function makes of each record."""
        reader = self.reader(schema, text=text)
        with self.writer() as out:
            for record in reader.map(function):
                out.write(record)

    def write_plain(self, data: bytes) -> None:
        """Write bytes to stdout as they are."""
        from bertcli.stream import write_all

        write_all(unbuffered(sys.stdout.buffer), data)

    def write_result(self, result: Record) -> None:
        """Write one plain JSON line, the result of a command that does not produce a stream."""
        from bertcli.stream import dumps

        self.write_plain(dumps(result) + b"\n")

    def note(self, message: str) -> None:
        """Write one line to stderr, unless `--quiet`."""
        if not self.quiet:
            click.echo(message, err=True)

    def report_skipped(self) -> None:
        """Say how many bad lines `--on-error skip` passed over; it is said even with `--quiet`."""
        if self.skipped:
            click.echo(f"skipped {len(self.skipped)} bad lines; the first: {self.skipped[0]}", err=True)


def unbuffered(file: Any) -> BinaryIO:
    """Returns the raw file under Python's buffer, or the file itself where there is none (tests)."""
    raw: BinaryIO = getattr(file, "raw", file)
    return raw


def open_input(name: str) -> Source:
    """Returns one opened input, `-` being stdin."""
    from bertcli.stream import Source

    if name == "-":
        return Source(unbuffered(sys.stdin.buffer), "<stdin>")
    try:
        return Source(open(name, "rb", buffering=0), name)  # noqa: SIM115  # closed with the process
    except OSError as error:
        raise NoInput(f"{name}: {error.strerror}") from error


def inputs(metavar: str, *, text: bool = False) -> Callable[[F], F]:
    """Adds the input files and the options of every stream; the command gets them as `streams`.

    `text` offers `--text` to commands that read plain lines beside records.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def with_streams(*args: Any, files: tuple[str, ...], **kwargs: Any) -> Any:
            names = ("plain", "quiet", "on_error")
            given = {name: kwargs.pop(name) for name in names}
            streams = Streams(files, text=kwargs.pop("text", False), **given)
            return function(*args, streams=streams, **kwargs)

        decorators = [
            click.argument("files", nargs=-1, metavar=f"[{metavar}]...", type=click.Path(allow_dash=True)),
            click.option("--plain", is_flag=True, help="Write plain JSON Lines, not zstd (also BERTCLI_PLAIN=1)."),
            click.option("--quiet", "-q", is_flag=True, help="No progress and no summary on stderr."),
            on_error,
        ]
        if text:
            decorators.append(click.option("--text", is_flag=True, help="Take every input as plain text, even if it begins with '{'."))
        return functools.reduce(lambda wrapped, decorator: decorator(wrapped), reversed(decorators), with_streams)  # type: ignore[return-value]

    return decorate


on_error = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="What a bad line does: stop the command, or be skipped and counted.",
)
seed = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Where all randomness comes from: one input and one seed give one output.",
)


# -- vocabulary -----------------------------------------------------------------------------------------------------


def casing(function: F) -> F:
    """Adds the three switches of BERT's normaliser."""
    switches = [
        click.option("--cased/--uncased", default=None, help="Keep letters as they are, or lower-case them."),
        click.option("--strip-accents/--no-strip-accents", default=None, help="Remove combining marks."),
        click.option("--split-cjk/--no-split-cjk", default=None, help="Make every Chinese character a word."),
    ]
    return functools.reduce(lambda wrapped, switch: switch(wrapped), reversed(switches), function)


def vocabulary(function: F) -> F:
    """Adds `-v` and the casing switches; the command gets its tokenizer as `wordpiece`."""

    @functools.wraps(function)
    def with_wordpiece(*args: Any, vocab: str, cased: bool | None, **kwargs: Any) -> Any:
        given = (cased, kwargs.pop("strip_accents"), kwargs.pop("split_cjk"))
        return function(*args, wordpiece=open_wordpiece(Path(vocab), *given), **kwargs)

    option = click.option(
        "-v",
        "--vocab",
        envvar="BERTCLI_VOCAB",
        default="vocab.txt",
        show_default=True,
        show_envvar=True,
        help="The vocabulary, a piece a line.",
    )
    return option(casing(with_wordpiece))  # type: ignore[return-value]


def open_wordpiece(path: Path, cased: bool | None, strip_accents: bool | None, split_cjk: bool | None) -> WordPiece:
    """Returns the tokenizer of a vocabulary file; stderr says which casing it was taken to have."""
    from bertcli.text.wordpiece import WordPiece

    wordpiece, origin = WordPiece.open(path, cased=cased, strip_accents=strip_accents, split_cjk=split_cjk)
    click.echo(f"{path}: {wordpiece.casing} ({origin})", err=True)
    return wordpiece


# -- masks ----------------------------------------------------------------------------------------------------------


def parse_fates(context: click.Context, parameter: click.Parameter, value: str) -> tuple[float, float, float]:
    """Returns `80,10,10` as shares of 1; raises click's error unless they are three that make 100."""
    try:
        shares = tuple(float(part) for part in value.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3 or min(shares) < 0 or abs(sum(shares) - 100) > 1e-6:
        raise click.BadParameter(f"{value!r} is not three percentages that make 100, as in 80,10,10")
    mask, same, random = (share / 100 for share in shares)
    return mask, same, random


def masking(function: F) -> F:
    """Adds the options of masks; the command gets them as `rule`, a `MaskRule`."""

    @functools.wraps(function)
    def with_rule(*args: Any, **kwargs: Any) -> Any:
        from bertcli.text.mask import MaskRule

        names = ("rate", "fates", "whole_word")
        return function(*args, rule=MaskRule(**{name: kwargs.pop(name) for name in names}), **kwargs)

    rate = click.FloatRange(0, 1, min_open=True)
    decorators = [
        click.option("--rate", type=rate, default=0.15, show_default=True, help="Share of the tokens to predict."),
        click.option(
            "--fates",
            default="80,10,10",
            show_default=True,
            callback=parse_fates,
            help="Percentages that become [MASK], stay the same, or become a random token (Table 8's columns).",
        ),
        click.option("--whole-word", is_flag=True, help="Mask all pieces of a word together."),
    ]
    return functools.reduce(lambda wrapped, decorator: decorator(wrapped), reversed(decorators), with_rule)  # type: ignore[return-value]

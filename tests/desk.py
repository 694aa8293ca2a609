"""A command at work as its first example shows it: its words, a folder of its own to run in, and how it ended."""

from __future__ import annotations

import fcntl
import os
import re
import select
import shlex
import shutil
import struct
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, ClassVar, NamedTuple

import click
import zstandard
from program import decompressed
from warm import PATIENCE, Process, Program

from bertcli import manual
from bertcli.commands.options import Command, Kind

# -- the commands, each by its first example ------------------------------------------------------------

COMMANDS = manual.commands()


class Example(NamedTuple):
    """A command's first example, taken apart."""

    words: list[str]  # `NAME --option …`, up to a pipe or a redirection and without the file to read
    files: list[str]  # the one to read, if it reads any
    output: str  # the folder that -o names; "" where there is none


def taken_apart(command: Command) -> Example:
    lexer = shlex.shlex(command.examples[0][0], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    line = list(lexer)
    program, *words = line[: next((at for at, word in enumerate(line) if word in (">", "|")), len(line))]
    assert program == "bertcli"
    given = command.make_context(str(command.name), words[1:], resilient_parsing=True).params
    files, output = [], ""
    for parameter in command.params:
        value = given[str(parameter.name)]
        is_path = isinstance(parameter, click.Argument) and isinstance(parameter.type, click.Path)
        if is_path and command.kind is not Kind.STANDS_ALONE:
            files = list(value) if isinstance(value, tuple) else [value]
        elif "-o" in parameter.opts:
            output = str(value)
    return Example([word for word in words if word not in files], files, output)


EXAMPLES = {name: taken_apart(command) for name, command in COMMANDS.items()}
READERS = [name for name, example in EXAMPLES.items() if example.files]
ADDERS = [name for name in READERS if COMMANDS[name].kind is Kind.ADDS]
DRAWERS = [name for name in COMMANDS if COMMANDS[name].kind is Kind.DRAWS]
JOINERS = [name for name in READERS if name not in DRAWERS]  # of several files they read one after another
FILTERS = [name for name in READERS if COMMANDS[name].kind in (Kind.ADDS, Kind.MAKES, Kind.LAYS_OUT)]
STREAMERS = [name for name in FILTERS if COMMANDS[name].kind is not Kind.LAYS_OUT]  # what they write is a stream


def has(name: str, option: str) -> bool:
    return any(option in parameter.opts for parameter in COMMANDS[name].params)


def takes_text(name: str) -> bool:
    """Returns whether a command takes text as well as records, and has a switch for that."""
    return any("--text" in p.opts and isinstance(p, click.Option) and p.is_flag for p in COMMANDS[name].params)


# -- bytes ----------------------------------------------------------------------------------------------


def is_records(content: bytes) -> bool:
    return content.startswith(b"{")


def zstd(data: bytes) -> bytes:
    """Returns one frame, its blocks ending with every eighth line as if it had been written slowly."""
    frame = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    lines = data.splitlines(keepends=True)
    blocks = [b"".join(lines[at : at + 8]) for at in range(0, len(lines), 8)]
    flushed = [frame.compress(block) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for block in blocks]
    return b"".join([*flushed, frame.flush()])


def is_whole(data: bytes) -> bool:
    """Returns whether a reader would take these bytes for a whole stream; of plain ones it cannot be told."""
    if not data.startswith(b"\x28\xb5\x2f\xfd"):
        return False
    decoder = zstandard.ZstdDecompressor().decompressobj()
    decoder.decompress(data)
    return decoder.eof


# -- at work --------------------------------------------------------------------------------------------

MADE = ("config.json", "model.safetensors", "vocab.txt")  # what stands in a folder that holds a model


class Outcome(NamedTuple):
    """How a command ended: what came out as it came, what it said, and the files of the model that it made."""

    status: int
    raw: bytes
    err: str
    made: dict[str, bytes]

    @property
    def out(self) -> bytes:
        """Returns what came out, without the time that it took."""
        return re.sub(rb'"seconds":[\d.e-]+', b"", decompressed(self.raw))

    @property
    def essence(self) -> tuple[int, bytes, dict[str, bytes]]:
        return self.status, self.out, self.made


@dataclass
class Desk:
    """One command in a copy of the house."""

    name: str
    folder: Path
    program: Program

    usual_ones: ClassVar[dict[str, Outcome]] = {}

    def __post_init__(self) -> None:
        self.command, self.example = COMMANDS[self.name], EXAMPLES[self.name]

    @cached_property
    def content(self) -> bytes:
        """Returns what the example reads, decompressed."""
        return decompressed((self.folder / self.example.files[0]).read_bytes())

    def contents(self) -> list[bytes]:
        """Returns what the example reads, and where the command takes text as well as records the other of them."""
        other = "corpus.txt" if is_records(self.content) else "labelled.jsonl"
        return [self.content, *([(self.folder / other).read_bytes()] if takes_text(self.name) else [])]

    def write(self, name: str, data: bytes) -> str:
        (self.folder / name).write_bytes(data)
        return name

    def line(self, *options: str) -> list[str]:
        """Returns the words of a run that says no more than it must, with the place for its output cleared."""
        if self.example.output:
            shutil.rmtree(self.folder / self.example.output, ignore_errors=True)
        return [*self.example.words, *options]

    def run(self, *options: str, stdin: bytes = b"", stdout: IO[bytes] | None = None, **variables: str) -> Outcome:
        done = self.program.run(self.line(*options), self.folder, stdin, stdout, **variables)
        return self.outcome(done.status, done.out, done.err)

    def outcome(self, status: int, out: bytes, err: str) -> Outcome:
        assert "Traceback" not in err
        paths = [self.folder / self.example.output / name for name in MADE if self.example.output]
        return Outcome(status, out, err, {path.name: path.read_bytes() for path in paths if path.exists()})

    def usual(self) -> Outcome:
        """Returns how the example ends, read from its file; it is run once."""
        if self.name not in self.usual_ones:
            self.usual_ones[self.name] = self.run(*self.example.files)
            assert self.usual_ones[self.name].status == 0, self.usual_ones[self.name].err
            assert self.usual_ones[self.name].out
        return self.usual_ones[self.name]

    @property
    def quiet(self) -> list[str]:
        return ["--quiet"] if has(self.name, "--quiet") else []


# -- between two pipes ----------------------------------------------------------------------------------


def held(pipe: IO[bytes]) -> int:
    """Returns how many bytes a pipe holds that nobody has read."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))
    return int(count)


@dataclass
class Piped:
    """A command at work between two pipes, ours to fill and to empty."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]
    process: Process

    def wait_for_line(self, decode: Callable[[bytes], bytes]) -> bytes:
        """Returns what has come out as soon as a line of it is whole."""
        got = b""
        while b"\n" not in got:
            assert select.select([self.stdout], [], [], PATIENCE)[0], f"starved after {got!r}"
            data = self.stdout.read(1 << 16)
            assert data, f"ended after {got!r}"
            got += decode(data)
        return got

    def wait_until(self, condition: Callable[[], bool]) -> None:
        limit = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < limit, "waited in vain"
            time.sleep(0.005)

    def end(self) -> tuple[int, str]:
        """Returns the status, and what was said."""
        self.stdin.close()
        status = self.process.wait()
        self.stderr.seek(0)
        return status, self.stderr.read().decode()


@contextmanager
def piped(desk: Desk, *options: str) -> Iterator[Piped]:
    """Gives the command at work; the pipe after it holds 4 KiB."""
    (inlet, ours), (theirs, outlet) = os.pipe(), os.pipe()
    fcntl.fcntl(outlet, fcntl.F_SETPIPE_SZ, 4096)
    with open(ours, "wb", 0) as stdin, open(theirs, "rb", 0) as stdout, tempfile.TemporaryFile() as stderr:
        process = desk.program.start(desk.line(*options, *desk.quiet), desk.folder, [inlet, outlet, stderr])
        os.close(inlet)
        os.close(outlet)
        yield Piped(stdin, stdout, stderr, process)

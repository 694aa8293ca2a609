"""A spool that outlives its process: a resumed run goes on with what was read before, instead of reading it again.

It is a folder of two files: the examples, and an index, a line for each mark up to which the input was read, with the
sizes of the examples since the mark before and a checksum of all up to there. Nothing waits for the disk: when a
process or the power fails, the files may end anywhere, and what the checksums do not vouch for is read again.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import weakref
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np

from bertcli import __version__
from bertcli.engine.spool import Chunk, Spool, telling, write
from bertcli.errors import CannotCreate, IOFailed
from bertcli.lines import Mark
from bertcli.stream import dumps, loads

PATIENCE = 60.0  # seconds for the processes of an earlier run to end, as they do when the one that trains has


class _Row(NamedTuple):
    """What belongs to a mark: the examples before it, a checksum of them, and where its line of the index ends."""

    examples: int
    check: int
    place: int


NONE = _Row(0, 0, 0)


class Kept(Spool):
    """A spool in a folder of its own, at first with what runs that were `made` alike have left there."""

    def __init__(self, path: Path, made: dict[str, Any], *, resume: bool) -> None:
        """Open it, to `cut` it before anything is added: where not to `resume`, it counts for empty.

        Raises `CannotCreate`, also where an earlier run still writes to it.
        """
        super().__init__(path)
        self._head: dict[str, Any] = {"bertcli": __version__, "made": made}
        self._rows: list[_Row] = []  # one for each of the marks
        self._sizes: list[int] = []  # in bytes, of the examples since the last mark
        self._lines = bytearray()  # of the index, not yet written
        with telling(path, CannotCreate):
            self._index = _opened(path / "index.jsonl")
            _wait_for(self._index, path)
            if resume:
                with suppress(ValueError, TypeError, KeyError, AttributeError):  # of lines that are not whole
                    self._recover()
        weakref.finalize(self, self._index.close)

    def _create(self, folder: Path) -> BinaryIO:
        return _opened(folder / "examples")

    def _recover(self) -> None:
        """Take over all up to the last mark before which everything is as it was written."""
        head, *lines = self._index.read().splitlines(keepends=True)
        told, place = loads(head), len(head)
        self.dtypes = {name: np.dtype(kind) for name, kind in told.pop("dtypes").items()}
        if told != self._head:
            return
        for line in lines:
            row, place = loads(line), place + len(line)
            self._check = crc32(self._file.read(sum(row["sizes"])), self._check)
            if self._check != row["check"] or not line.endswith(b"\n"):
                return
            self.ends.extend([*accumulate(row["sizes"], initial=self.ends[-1])][1:])
            self.marks.append(Mark(row["records"], row["digest"]))
            self._rows.append(_Row(len(self), self._check, place))

    def cut(self, mark: Mark | None) -> None:
        """Forget what came after a mark, or everything where it is none of those here. Raises `IOFailed`."""
        count = self.marks.index(mark) + 1 if mark in self.marks else 0
        del self.marks[count:], self._rows[count:]
        last = self._rows[-1] if count else NONE
        del self.ends[last.examples + 1 :]
        self.dtypes = self.dtypes if count else {}
        self._check, self._written = last.check, self.ends[-1]
        with telling(self._folder):
            self._file.truncate(self._written)
            self._index.truncate(last.place)

    def extend(self, examples: Chunk) -> None:
        """Add examples, and the mark behind them. Raises `IOFailed` on a full disk."""
        before = len(self.marks)
        super().extend(examples)
        self._sizes += np.diff(examples.ends, prepend=0).tolist()
        if len(self.marks) > before:
            self._index_mark()

    def _index_mark(self) -> None:
        """Add the last mark to the index, whose first line says what all of it is of."""
        mark, last = self.marks[-1], self._rows[-1] if self._rows else NONE
        row = {"records": mark.records, "digest": mark.digest, "check": self._check, "sizes": self._sizes}
        head = {**self._head, "dtypes": {name: dtype.str for name, dtype in self.dtypes.items()}}
        line = b"".join(dumps(each) + b"\n" for each in ([row] if self._rows else [head, row]))
        self._rows.append(_Row(len(self), self._check, last.place + len(line)))
        self._lines += line
        self._sizes = []

    def flush(self) -> None:
        """Let other processes see all that was added, and later ones. Raises `IOFailed` on a full disk."""
        super().flush()
        if self._lines:
            with telling(self._folder):
                write(self._index, self._lines, self._rows[-1].place - len(self._lines))

    def discard(self) -> None:
        """Remove it; who has it open still reads what is there."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def release(self, *, is_wanted: bool = True) -> None:
        """Let another run have it, with all that was added, or remove it."""
        with suppress(IOFailed):  # of a full disk: what is not there is read again
            self.flush()
        if not is_wanted:
            self.discard()
        self._index.close()


def _opened(path: Path) -> BinaryIO:
    """Returns a file open to read and to write, new or as it is."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)


def _wait_for(file: BinaryIO, path: Path) -> None:
    """Wait until no process of an earlier run has the file open: all of them have locked it together."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                raise CannotCreate(f"{path}: another run still writes to it") from None
            time.sleep(0.1)
        except OSError:  # a file system that has no locks
            return None

"""Examples on disk: written once as they arrive, read by memory map as often as there are epochs."""

from __future__ import annotations

import mmap
import os
import weakref
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BertcliError, CannotCreate, IOFailed
from bertcli.lines import Batch, Mark
from bertcli.records import Anything
from bertcli.stages import Made, Stage
from bertcli.tasks.task import Example, Task

FLUSH_BYTES = 1 << 20
ALIGNMENT = 8  # bytes, so that every array can be read where it lies

Dtypes = Mapping[str, np.dtype[Any]]


class Chunk(NamedTuple):
    """Examples in the bytes of a spool: what arrays they have, and where each of them ends.

    Those of an input come with the mark of their end, and with the file and line where they begin.
    """

    dtypes: Dtypes
    data: bytes
    ends: list[int]
    mark: Mark | None = None
    place: str = ""


def chunk(examples: Iterable[Example], dtypes: Dtypes | None = None) -> Chunk:
    """Returns examples in the bytes of a spool; all of them have the arrays of the first, or those that are given."""
    parts, sizes = [], []
    for example in examples:
        dtypes = dtypes or {name: values.dtype for name, values in example.items()}
        arrays = [example[name].astype(dtype, copy=False) for name, dtype in dtypes.items()]
        lengths = np.array([len(values) for values in arrays], np.int64)
        parts.append(b"".join(_padded(values.tobytes()) for values in (lengths, *arrays)))
        sizes.append(len(parts[-1]))
    return Chunk(dtypes or {}, b"".join(parts), list(accumulate(sizes)))


class Learning(Stage[list[Example], Chunk]):
    """What makes of a batch of records the examples that a task learns from, each made as if it stood alone."""

    def __init__(self, task: Task) -> None:
        """Take the task."""
        super().__init__(Anything, task.learn_at, lambda examples: chunk(chain.from_iterable(examples)))

    def __call__(self, batch: Batch) -> Made[Chunk]:
        """Returns what became of the batch; not with its mark where that lies behind a fault."""
        place = f"{batch.name}:{batch.number + 1}"
        made = super().__call__(batch)
        return made._replace(result=made.result._replace(mark=None if made.fault else batch.mark, place=place))


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


class Spool:
    """Examples in one file on disk; in memory is only where each of them ends.

    The file has no name, so that it goes with the processes that have it, however they end. One of them appends; those
    forked from it read what was flushed, wherever they are told that it lies.
    """

    def __init__(self, folder: Path) -> None:
        """Begin an empty spool on a folder's disk. Raises `CannotCreate`."""
        self._folder = folder
        self.dtypes: Dtypes = {}
        self.ends = array("q", [0])  # in bytes, of each example
        self.marks: list[Mark] = []  # of the input, up to which all examples are here
        self._check = 0  # a checksum of them
        self._map: NDArray[np.uint8] = np.empty(0, np.uint8)
        self._held, self._written = bytearray(), 0
        with telling(folder, CannotCreate):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self._create(folder)
        weakref.finalize(self, self._file.close)

    def _create(self, folder: Path) -> BinaryIO:
        return TemporaryFile(dir=folder, buffering=0)  # as long as the spool

    def append(self, example: Example) -> None:
        """Add an example. Raises `IOFailed` on a full disk."""
        self.extend(chunk([example], self.dtypes))

    def extend(self, examples: Chunk) -> None:
        """Add examples, of the same arrays as those before, and their mark. Raises `IOFailed` on a full disk."""
        self.dtypes = self.dtypes or examples.dtypes
        assert not examples.ends or examples.dtypes == self.dtypes
        start = self.ends[-1]
        self.ends.extend(start + end for end in examples.ends)
        self._held += examples.data
        self._check = crc32(examples.data, self._check)
        if examples.mark and len(self) and [examples.mark] != self.marks[-1:]:
            self.marks.append(examples.mark)
        if len(self._held) > FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Let other processes see all that was added. Raises `IOFailed` on a full disk."""
        with telling(self._folder):
            self._written += len(self._held)
            write(self._file, self._held, self._written - len(self._held))

    def close(self) -> None:
        """Take what is there for all of the input, and mark it."""
        self.marks = [Mark(len(self), f"{self._check:08x}")]

    def cut(self, mark: Mark | None) -> None:
        """Forget what an earlier process has read after a mark: nothing."""

    def discard(self) -> None:
        """Remove what would outlive the process: nothing."""

    def release(self, *, is_wanted: bool = True) -> None:
        """Let go of what another run may have, or else remove it: nothing."""

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self.ends) - 1

    def place(self, index: int) -> tuple[int, int]:
        """Returns where an example begins and ends, in bytes."""
        return self.ends[index], self.ends[index + 1]

    def __getitem__(self, index: int) -> Example:
        """Returns one example. Raises `IOFailed` on a full disk."""
        return self.read(*self.place(index))

    def read(self, start: int, end: int) -> Example:
        """Returns the example that begins and ends there. Raises `IOFailed` on a full disk."""
        if end > len(self._map):
            self.flush()
            self._map = np.frombuffer(mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
        data = self._map[start:end]
        place = len(self.dtypes) * 8
        example = {}
        for (name, dtype), size in zip(self.dtypes.items(), data[:place].view(np.int64).tolist(), strict=True):
            length = size * dtype.itemsize
            example[name] = data[place : place + length].view(dtype)
            place += length + -length % ALIGNMENT
        return example


def write(file: BinaryIO, data: bytearray, place: int) -> None:
    """Write bytes and forget them; by their place, not where the file stands, which forked processes share."""
    while data:
        done = os.pwrite(file.fileno(), data, place)
        del data[:done]
        place += done


@contextmanager
def telling(folder: Path, kind: type[BertcliError] = IOFailed) -> Iterator[None]:
    """Tells of what the disk refuses as an error of ours."""
    try:
        yield
    except OSError as error:
        raise kind(f"{folder}: {error.strerror}") from error

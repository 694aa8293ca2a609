"""From a stream of examples to the order in which they are trained on.

Examples go to a spool on disk as they arrive. The first epoch draws from a buffer while the stream still runs; later
epochs are full permutations. Each example comes once an epoch, and the order depends on seed and epoch alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import CannotCreate, IOFailed
from bertcli.tasks.task import Example

SHUFFLE_BUFFER = 16_384  # examples among which the first epoch draws
FLUSH_BYTES = 1 << 20
SUFFIX = ".spool"  # of the spool's files: only they are ever deleted, wherever `--spool` points


class _Column:
    """One of the examples' arrays: all its numbers in one file, and in memory where each example's end."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path, self.dtype = path, dtype
        self._file: BinaryIO = path.open("wb", buffering=FLUSH_BYTES)
        self._ends = array("q", [0])
        self._map: NDArray[Any] = np.empty(0, dtype)

    def append(self, values: NDArray[Any]) -> None:
        self._file.write(values.astype(self.dtype, copy=False).tobytes())
        self._ends.append(self._ends[-1] + len(values))

    def __getitem__(self, index: int) -> NDArray[Any]:
        start, end = self._ends[index], self._ends[index + 1]
        if end > len(self._map):
            self._file.flush()
            self._map = np.memmap(self.path, self.dtype, "r")
        return self._map[start:end]


class Spool:
    """Examples on disk, read by memory map, so that their number is bounded by the disk alone."""

    def __init__(self, folder: Path) -> None:
        """Begin an empty spool in a folder, replacing an old one; other files there stay. Raises `CannotCreate`."""
        self._folder, self._columns, self._length = folder, {}, 0  # type: tuple[Path, dict[str, _Column], int]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._unlink()
        except OSError as error:
            raise CannotCreate(f"{folder}: {error.strerror}") from error

    def append(self, example: Example) -> None:
        """Add an example; all of them have the arrays of the first. Raises `IOFailed` on a full disk."""
        try:
            if not self._columns:
                self._columns = {
                    name: _Column(self._folder / f"{name}{SUFFIX}", array.dtype) for name, array in example.items()
                }
            for name, column in self._columns.items():
                column.append(example[name])
        except OSError as error:
            raise IOFailed(f"{self._folder}: {error.strerror}") from error
        self._length += 1

    def __len__(self) -> int:
        """Returns the number of examples."""
        return self._length

    def __getitem__(self, index: int) -> Example:
        """Returns one example."""
        return {name: column[index] for name, column in self._columns.items()}

    def remove(self) -> None:
        """Take the spool from the disk, and its folder if nothing else is there."""
        self._unlink()
        with suppress(OSError):
            self._folder.rmdir()

    def _unlink(self) -> None:
        for path in self._folder.glob(f"*{SUFFIX}"):
            path.unlink()


class Feed:
    """The examples of a stream, epoch after epoch, without end."""

    def __init__(self, examples: Iterator[Example], spool: Spool, seed: int) -> None:
        """Take the stream as it comes; nothing is read yet."""
        self._examples, self._spool, self._seed = examples, spool, seed

    def read_all(self) -> int:
        """Spool the rest of the stream; returns the number of examples."""
        for example in self._examples:
            self._spool.append(example)
        return len(self._spool)

    def _arrivals(self) -> Iterator[int]:
        yield from range(len(self._spool))
        for example in self._examples:
            self._spool.append(example)
            yield len(self._spool) - 1

    def _first_epoch(self) -> Iterator[int]:
        rng = np.random.default_rng([self._seed, 0])
        arrivals = self._arrivals()
        buffer = list(islice(arrivals, SHUFFLE_BUFFER))
        for arrival in arrivals:
            place = int(rng.integers(len(buffer)))
            yield buffer[place]
            buffer[place] = arrival
        rng.shuffle(buffer)
        yield from buffer

    def order(self) -> Iterator[tuple[int, int]]:
        """Yields (epoch, index) for ever, or nothing where the stream is empty."""
        yield from ((0, index) for index in self._first_epoch())
        epoch = 1
        while len(self._spool):
            rng = np.random.default_rng([self._seed, epoch])
            yield from ((epoch, int(index)) for index in rng.permutation(len(self._spool)))
            epoch += 1

    def steps(self, batch_size: int, skip: int = 0) -> Iterator[list[tuple[int, Example]]]:
        """Yields for each optimizer step its examples with their epochs; `skip` steps were taken before."""
        order = islice(self.order(), skip * batch_size, None)
        while places := list(islice(order, batch_size)):
            yield [(epoch, self._spool[index]) for epoch, index in places]

"""From a stream of examples to the order in which they are trained on.

Examples go to a spool on disk as they arrive. The first epoch draws from a buffer while the stream still runs; later
epochs are full permutations. Each example comes once an epoch, and the order depends on seed and epoch alone.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import CannotCreate, IOFailed
from bertcli.tasks.task import Example

SHUFFLE_BUFFER = 16_384  # examples among which the first epoch draws
KNOWN_BY = 4096  # examples at its beginning by which an input is known again: a second's reading
FLUSH_BYTES = 1 << 20
ALIGNMENT = 8  # bytes, so that every array can be read where it lies


class Spool:
    """Examples in one file on disk, read by memory map; in memory is only where each of them ends.

    The file has no name, so that it goes with the process, however that ends.
    """

    def __init__(self, folder: Path) -> None:
        """Begin an empty spool on a folder's disk. Raises `CannotCreate`."""
        self._folder = folder
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._ends = array("q", [0])
        self._map: NDArray[np.uint8] = np.empty(0, np.uint8)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = TemporaryFile(dir=folder, buffering=FLUSH_BYTES)  # noqa: SIM115  # as long as the spool
        except OSError as error:
            raise CannotCreate(f"{folder}: {error.strerror}") from error

    def append(self, example: Example) -> None:
        """Add an example; all of them have the arrays of the first. Raises `IOFailed` on a full disk."""
        self._dtypes = self._dtypes or {name: values.dtype for name, values in example.items()}
        arrays = [example[name].astype(dtype, copy=False) for name, dtype in self._dtypes.items()]
        sizes = np.array([len(values) for values in arrays], np.int64)
        data = b"".join(_padded(values.tobytes()) for values in (sizes, *arrays))
        try:
            self._file.write(data)
        except OSError as error:
            raise IOFailed(f"{self._folder}: {error.strerror}") from error
        self._ends.append(self._ends[-1] + len(data))

    def __len__(self) -> int:
        """Returns the number of examples."""
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> Example:
        """Returns one example. Raises `IOFailed` on a full disk."""
        start, end = self._ends[index], self._ends[index + 1]
        if end > len(self._map):
            self._remap()
        data = self._map[start:end]
        place = len(self._dtypes) * 8
        example = {}
        for (name, dtype), size in zip(self._dtypes.items(), data[:place].view(np.int64).tolist(), strict=True):
            length = size * dtype.itemsize
            example[name] = data[place : place + length].view(dtype)
            place += length + -length % ALIGNMENT
        return example

    def _remap(self) -> None:
        try:
            self._file.flush()
        except OSError as error:
            raise IOFailed(f"{self._folder}: {error.strerror}") from error
        self._map = np.memmap(self._file, np.uint8, "r").view(np.ndarray)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


class Feed:
    """The examples of a stream, epoch after epoch, without end."""

    def __init__(self, examples: Iterator[Example], spool: Spool, seed: int) -> None:
        """Take the stream as it comes; nothing is read yet."""
        self._examples, self._spool, self._seed = examples, spool, seed

    def digest(self) -> str:
        """Returns a hash of the first examples, which are read: by it an input that begins alike is known again."""
        for example in islice(self._examples, max(0, KNOWN_BY - len(self._spool))):
            self._spool.append(example)
        hashed = hashlib.blake2b(digest_size=16)
        for index in range(min(len(self._spool), KNOWN_BY)):
            for values in self._spool[index].values():
                hashed.update(len(values).to_bytes(8) + values.tobytes())
        return hashed.hexdigest()

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

    def steps(self, batch_size: int, skip: int = 0, epochs: float = 0) -> Iterator[list[tuple[int, Example]]]:
        """Yields for each optimizer step its examples with their epochs; `skip` steps were taken before.

        With `epochs` it ends with them, the last step being as large as what is left; without, it goes on for ever.
        """
        order = islice(self.order(), skip * batch_size, math.ceil(len(self._spool) * epochs) or None)
        while places := list(islice(order, batch_size)):
            yield [(epoch, self._spool[index]) for epoch, index in places]

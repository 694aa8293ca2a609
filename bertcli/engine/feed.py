"""From a stream of examples to what each optimizer step trains on, in this process or in others.

Examples go to a spool on disk as they arrive. The first epoch draws from a buffer while the stream still runs; later
epochs are full permutations. Each example comes once an epoch, and the order depends on seed and epoch alone.

An input that is given again, to a resumed run, goes on at its place (`intake.py`).

With workers, one process reads ahead of training and shares the work with others. It hands them lines, of which they
make examples, draws the order, and hands them the places of each step's examples, which they read from the spool and
make batches of.
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np
import torch

from bertcli.engine.distributed import ALONE, Ranks
from bertcli.engine.intake import Intake, Read, Reading
from bertcli.engine.packing import Step, dealt
from bertcli.engine.settings import Input
from bertcli.engine.spool import Dtypes, Spool
from bertcli.errors import BertcliError
from bertcli.parallel import Coming, Pool, ahead_of_all
from bertcli.tasks.task import Example

SHUFFLE_BUFFER = 16_384  # examples among which the first epoch draws
AHEAD = 3  # steps that wait for training

NEW = Input()  # of which no step was taken

T = TypeVar("T")
Place = tuple[int, int, int]  # an epoch, and where on the spool an example of it begins and ends


class _Order(NamedTuple):
    """What a process needs to know of a step: it may have started before the first example was read."""

    reading: Reading
    dtypes: Dtypes
    step: list[Place]


class Feed:
    """The examples of a stream, epoch after epoch, without end."""

    def __init__(
        self,
        read: Read,
        spool: Spool,
        seed: int,
        pool: Pool | None = None,
        told: list[Any] | None = None,
        ranks: Ranks = ALONE,
        files: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Take what reads the stream; nothing is read yet.

        With more than one worker in the pool, which may be the one that makes the stream, or with several ranks, all is
        done elsewhere; what that adds to the list `told` comes here.
        """
        self._intake, self._spool, self._seed = Intake(read, spool, files), spool, seed
        self._pool, self._told, self._ranks = pool or Pool(), [] if told is None else told, ranks

    # -- order

    def _first_epoch(self) -> Iterator[Sequence[int] | None]:
        rng = np.random.default_rng([self._seed, 0])
        buffer: list[int] = []
        for arrivals in self._intake.arrivals():
            if arrivals is None:
                yield None
                continue
            room = SHUFFLE_BUFFER - len(buffer)
            buffer += arrivals[:room]
            drawn = []
            for place, arrival in zip(_draws(rng, len(buffer), len(arrivals) - room), arrivals[room:], strict=True):
                drawn.append(buffer[place])
                buffer[place] = arrival
            yield drawn
        rng.shuffle(buffer)
        yield buffer

    def order(self) -> Iterator[tuple[int, Sequence[int]] | None]:
        """Yields an epoch and indices of it, for ever, or none where the stream is empty; None where it pauses."""
        yield from (None if indices is None else (0, indices) for indices in self._first_epoch())
        epoch = 1
        while len(self._spool):
            rng = np.random.default_rng([self._seed, epoch])
            yield epoch, rng.permutation(len(self._spool)).tolist()
            epoch += 1

    def places(self, batch_size: int, skip: int = 0, epochs: float = 0) -> Iterator[list[Place] | None]:
        """Yields for each optimizer step the places of its examples; None where, or why, the next one is late."""
        left = math.ceil(len(self._spool) * epochs) or sys.maxsize
        skipped, step = skip * batch_size, list[Place]()
        try:
            for drawn in self.order():
                epoch, indices = drawn or (0, ())
                for index in indices[skipped:left]:
                    step.append((epoch, *self._spool.place(index)))
                    if len(step) == batch_size:
                        yield step
                        step = []
                skipped, left = max(0, skipped - len(indices)), left - len(indices)
                if left <= 0:
                    break
                if drawn is None:
                    yield None
        except BertcliError:
            yield None  # what came before is not lost
            raise
        if step:
            yield step

    # -- steps

    def steps(
        self,
        make: Callable[[list[tuple[int, Example]]], T],
        batch_size: int,
        epochs: float = 0,
        old: Input = NEW,
        done: int = 0,
    ) -> Iterator[tuple[Reading, T]]:
        """Yields for each optimizer step how far the input was read, and what is made of examples with their epochs.

        Of the `old` input steps were taken, up to step `done`: they are skipped. With `epochs` it ends with them, the
        last step being as large as what is left; without, it goes on for ever.
        """
        places = self._begun(batch_size, epochs, old, done)
        if self._pool.workers == 1:
            return self._pool.ordered(lambda step: (self._intake.reading, make(self._read(step))), places)
        return self._ahead(lambda reading, step: [(reading, make(self._read(step)))], places)

    def shared(
        self,
        make: Callable[[list[tuple[int, Example]]], Step],
        batch_size: int,
        epochs: float = 0,
        old: Input = NEW,
        done: int = 0,
    ) -> Coming[tuple[Reading, Step]]:
        """Returns this rank's share of what `steps` yields; all ranks must ask for it."""
        others = self._ranks.pipes()
        if not self._ranks.is_reader:
            return Coming(others[0], self._told)
        return self._ahead(partial(self._shares, make), self._begun(batch_size, epochs, old, done), others)

    def _begun(self, batch_size: int, epochs: float, old: Input, done: int) -> Iterator[list[Place] | None]:
        taken = self._intake.begin(old, done)
        yield from self.places(batch_size, taken, epochs)

    def _shares(
        self, make: Callable[[list[tuple[int, Example]]], Step], reading: Reading, step: list[Place]
    ) -> list[tuple[Reading, Step]]:
        """Returns the steps of this machine's ranks, with a checksum that other machines have of them too.

        In the first epoch it is of their sizes, from the second one on of all that was read: marks on the way lie
        elsewhere on each.
        """
        whole = reading.input.last if step[-1][0] else None
        check = crc32(str(whole).encode(), crc32(np.array(step).tobytes()))
        shares = dealt([end - start for _, start, end in step], self._ranks.size)
        steps = []
        for rank in self._ranks.of_machine:
            own = [step[index] for index in shares[rank]]
            made = make(self._read(own or step[:1]))
            steps.append((reading, replace(made if own else made.without_parts(), check=check)))
        return steps

    def _ahead(
        self,
        make: Callable[[Reading, list[Place]], Sequence[Any]],
        places: Iterator[list[Place] | None],
        others: Sequence[Connection] = (),
    ) -> Coming[Any]:
        self._spool.flush()
        return ahead_of_all(self._made(make, places), AHEAD, self._told, others)

    def _made(
        self, make: Callable[[Reading, list[Place]], Sequence[Any]], places: Iterator[list[Place] | None]
    ) -> Iterator[list[bytes]]:
        """Yields what is made of steps as pickles, so that who hands them on need not look into them."""
        torch.set_num_threads(1)  # OpenMP's threads are not there after a fork, and it would wait for them

        def made(order: _Order) -> list[bytes]:
            reading, self._spool.dtypes, step = order
            return [pickle.dumps(each, pickle.HIGHEST_PROTOCOL) for each in make(reading, step)]

        with self._pool:
            yield from self._pool.ordered(made, self._orders(places))

    def _orders(self, places: Iterator[list[Place] | None]) -> Iterator[_Order | None]:
        for step in places:
            self._spool.flush()
            yield None if step is None else _Order(self._intake.reading, self._spool.dtypes, step)

    def _read(self, step: list[Place]) -> list[tuple[int, Example]]:
        return [(epoch, self._spool.read(start, end)) for epoch, start, end in step]


def _draws(rng: np.random.Generator, size: int, count: int) -> list[int]:
    return rng.integers(size, size=count).tolist() if count > 0 else []

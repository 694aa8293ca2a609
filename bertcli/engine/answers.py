"""Lines to lines with answers: this process computes, others may read records and write them.

What a batch of lines became travels twice: its examples to whoever computes, and its records with them, sealed, past
that one to whoever writes the answers.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from bertcli.engine.device import Device
from bertcli.engine.predict import Outputs, answered, computed
from bertcli.errors import BertcliError
from bertcli.model.heads import Network
from bertcli.parallel import Pool
from bertcli.records import Anything, Record
from bertcli.stages import Stage
from bertcli.stream import BATCH, deep, dumps
from bertcli.tasks.task import Example, Task

SENT = 1 << 23  # bytes that a batch comes to, where a task tells of them: dozens of batches are on their way at a time
BYTES = 4  # of text in a token, or fewer: batches of lines are no larger than a forward pass


class Encoded(NamedTuple):
    """What a batch of lines became; `sealed` are its records with their examples, pickled."""

    records: int
    shortened: int
    examples: list[Example]
    sealed: bytes


def reading(task: Task, device: Device) -> Stage[tuple[Record, list[Example]], Encoded]:
    """Returns what makes examples of lines."""

    def each(record: Record, _: int) -> tuple[Record, list[Example]]:
        return record, task.encode(record)

    def whole(kept: list[tuple[Record, list[Example]]]) -> Encoded:
        shortened, task.shortened = task.shortened, 0  # handed on: it is counted where all batches come together
        with deep():
            sealed = pickle.dumps(kept)
        return Encoded(len(kept), shortened, [example for _, own in kept for example in own], sealed)

    tokens = min(device.max_tokens, max(1, SENT // task.held)) if task.held else device.max_tokens
    return Stage(Anything, each, whole, size=min(BATCH, BYTES * tokens))


def answers(
    networks: Sequence[Network], task: Task, encoded: Iterable[Encoded | None], device: Device, pool: Pool
) -> Iterator[bytes]:
    """Yields the lines of answered records, written by a pool that may have made the examples, too.

    A None is a pause, before which all come out.
    """
    remaining = iter(encoded)
    first = next(remaining, None)  # here, so that the pool's processes inherit what it leaves in memory
    items = computed(networks, task, chain([first], remaining), device, attrgetter("examples"))
    results = pool.paced(partial(_written, task), (found and (found[0].sealed, found[1]) for found in items))
    pool.start()  # before there are threads that have a GPU in hand
    for written in results:
        if written is not None:
            yield written.lines
            if written.error is not None:
                raise written.error


class _Written(NamedTuple):
    """Lines, and the error that ended them early."""

    lines: bytes
    error: BertcliError | None


def _written(task: Task, item: tuple[bytes, Outputs]) -> _Written:
    sealed, outputs = item
    kept: list[tuple[Record, list[Example]]] = pickle.loads(sealed)
    lines: list[bytes] = []
    end = 0
    try:
        for record, examples in kept:
            begin, end = end, end + len(examples)
            lines.append(dumps(answered(task, record, examples, [own[begin:end] for own in outputs])) + b"\n")
    except BertcliError as error:
        return _Written(b"".join(lines), error)
    return _Written(b"".join(lines), None)

"""The one prediction loop: any task, from records to the same records with an answer, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch

from bertcli.engine.device import Device
from bertcli.engine.lanes import Start, at_once, lanes, shares
from bertcli.engine.packing import batches
from bertcli.errors import BertcliError
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task

T = TypeVar("T")

WINDOW = 8  # times `max_tokens`, among which lengths are sorted: what becomes of them is held in memory
HELD = 1 << 26  # bytes for which a window has tokens, or for one forward pass, where a task tells of them
AHEAD = 1  # windows that are under way while the next is gathered: the device never waits for that

Outputs = list[list[Any]]  # of each network one output an example


def predict(
    networks: Sequence[Network],
    task: Task,
    encoded: Iterable[tuple[Record, list[Example]]],
    device: Device,
) -> Iterator[Record]:
    """Yields each record with the task's answer, of several networks with the mean of theirs."""
    for found in computed(networks, task, encoded, device, itemgetter(1)):
        if found is not None:
            (record, own), outputs = found
            yield answered(task, record, own, outputs)


def answered(task: Task, record: Record, examples: list[Example], outputs: Outputs) -> Record:
    """Returns a record with the answer to it, the mean of the networks'."""
    answers = [task.combine(examples, own) for own in outputs]
    return task.decode(record, examples, answers[0] if len(answers) == 1 else np.mean(answers, axis=0))


def placed(network: Network, device: Device) -> Network:
    """Returns a network that will only answer on its device, its weights in the precision of the products there."""
    dtype = torch.bfloat16 if device.precision == "bf16" else torch.float32
    return device.place(network).to(dtype)


def computed(
    networks: Sequence[Network],
    task: Task,
    items: Iterable[T | None],
    device: Device,
    examples_of: Callable[[T], list[Example]],
) -> Iterator[tuple[T, Outputs] | None]:
    """Yields each item with what the networks make of its examples; a None among the items, that ends a window, too.

    Items gather in windows, within which sequences of like length are computed together. Before an error there is a
    None, so that who comes next loses nothing of what came before it.
    """
    for network in networks:
        network.eval()
    size = WINDOW * device.max_tokens
    if task.held:
        size = min(size, max(device.max_tokens, HELD // task.held))
    is_compiled = any(network.is_compiled for network in networks)
    count = 1 if is_compiled else shares(device.device, device.max_tokens // task.max_length)
    device = replace(device, max_tokens=max(1, device.max_tokens // count))  # they share the memory too
    waiting: deque[_Window[T]] = deque()
    with lanes(device.device, count) as start:
        try:
            for gathering in gathered(items, size, lambda item: _tokens(examples_of(item))):
                if gathering:
                    window = _Window(networks, task, gathering, device, examples_of)
                    if has_all := window.is_single and device.device.type == "cpu":
                        yield from _finished(waiting)
                    window.start(at_once if has_all or is_compiled else start)
                    waiting.append(window)
                yield from _finished(waiting, AHEAD if gathering else 0)
                if not gathering:
                    yield None
            yield from _finished(waiting)
        except BertcliError as error:
            first = error
            try:
                yield from _finished(waiting)
            except BertcliError as earlier:  # or the same, of the window that has just failed
                first = earlier
            yield None
            raise first from None


def gathered(items: Iterable[T | None], size: int, weigh: Callable[[T], int] = lambda item: 1) -> Iterator[list[T]]:
    """Yields lists of items, each twice as heavy as the one before up to `size`, so that the first comes early.

    A list ends where None says that the next item has to be waited for, and an empty one follows. It also ends where
    the next one is bad: what came before it is not lost.
    """
    window: list[T] = []
    weight, room = 0, max(1, size // 64)
    try:
        for item in items:
            if item is not None:
                window.append(item)
                weight += weigh(item)
            if window and (weight >= room or item is None):
                yield window
                window, weight, room = [], 0, min(2 * room, size)
            if item is None:
                yield []
    except BertcliError:
        if window:
            yield window
        raise
    if window:
        yield window


def _tokens(examples: list[Example]) -> int:
    return sum(len(example["ids"]) for example in examples)


class _Pass(NamedTuple):
    """A forward pass under way: of which network and examples, by their numbers, it gives the outputs."""

    network: int
    examples: list[int]
    outputs: Future[list[Any]]


class _Window(Generic[T]):
    """Items whose examples are computed together."""

    def __init__(
        self,
        networks: Sequence[Network],
        task: Task,
        items: list[T],
        device: Device,
        examples_of: Callable[[T], list[Example]],
    ) -> None:
        """Divide the examples, sequences of like length together."""
        self._items, self._networks, self._task, self._device = items, networks, task, device
        own = [examples_of(item) for item in items]
        self._counts = [len(examples) for examples in own]
        self._examples = [example for each in own for example in each]
        self._groups = batches([len(example["ids"]) for example in self._examples], device.max_tokens)

    @property
    def is_single(self) -> bool:
        """Returns whether there is only one forward pass."""
        return len(self._groups) * len(self._networks) == 1

    def start(self, start: Start) -> None:
        """Start all forward passes."""
        self._passes = [
            _Pass(number, group, start(_outputs, network, self._task, [self._examples[i] for i in group], self._device))
            for group in self._groups
            for number, network in enumerate(self._networks)
        ]

    @property
    def is_done(self) -> bool:
        """Returns whether the results need not be waited for."""
        return all(each.outputs.done() for each in self._passes)

    def results(self) -> Iterator[tuple[T, Outputs]]:
        """Yields each item with its outputs."""
        found: Outputs = [[None] * sum(self._counts) for _ in self._networks]
        for number, group, outputs in self._passes:
            for index, output in zip(group, outputs.result(), strict=True):
                found[number][index] = output
        end = 0
        for item, count in zip(self._items, self._counts, strict=True):
            begin, end = end, end + count
            yield item, [own[begin:end] for own in found]


def _finished(waiting: deque[_Window[T]], most: int = 0) -> Iterator[tuple[T, Outputs]]:
    """Yields what has come of the first windows, until no more than so many are left that are not done."""
    while waiting and (len(waiting) > most or waiting[0].is_done):
        yield from waiting[0].results()
        waiting.popleft()


@torch.inference_mode()
def _outputs(network: Network, task: Task, examples: list[Example], device: Device) -> list[Any]:
    batch = task.collate(examples)
    if device.device.type == "cuda":
        batch = batch.pinned()
    batch = batch.to(device.device)
    is_whole = next(network.parameters()).dtype == torch.float32  # else it was made for these products: `placed`
    with device.autocast() if is_whole else nullcontext():
        return task.outputs(network, batch)

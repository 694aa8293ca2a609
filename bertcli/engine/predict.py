"""The one prediction loop: any task, from records to the same records with an answer, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from bertcli.engine.device import Device
from bertcli.engine.packing import batches
from bertcli.errors import BadData
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task

T = TypeVar("T")

WINDOW = 4  # forward passes among whose sequences lengths are sorted: what they give is held in memory


def predict(
    networks: Sequence[Network],
    task: Task,
    encoded: Iterable[tuple[Record, list[Example]]],
    device: Device,
    waits: Callable[[], bool] = lambda: False,
) -> Iterator[Record]:
    """Yields each record with the task's answer, of several networks with the mean of theirs.

    Records gather in windows, within which sequences of like length are computed together; a window ends early where
    the next record would have to be waited for.
    """
    for network in networks:
        network.eval()
    for window in gathered(encoded, WINDOW * device.max_tokens, waits, _tokens):
        examples = [example for _, own in window for example in own]
        outputs = [iter(_outputs(network, task, examples, device)) for network in networks]
        for record, own in window:
            answers = [task.combine(own, [next(each) for _ in own]) for each in outputs]
            yield task.decode(record, own, answers[0] if len(answers) == 1 else np.mean(answers, axis=0))


def gathered(
    items: Iterable[T], size: int, waits: Callable[[], bool], weigh: Callable[[T], int] = lambda item: 1
) -> Iterator[list[T]]:
    """Yields lists of items, each twice as heavy as the one before up to `size`, so that the first comes early.

    A list ends where the next item would have to be waited for, or is bad: what came before it is not lost.
    """
    window: list[T] = []
    weight, room = 0, max(1, size // 64)
    try:
        for item in items:
            window.append(item)
            weight += weigh(item)
            if weight >= room or waits():
                yield window
                window, weight, room = [], 0, min(2 * room, size)
    except BadData:
        if window:
            yield window
        raise
    if window:
        yield window


def _tokens(encoded: tuple[Record, list[Example]]) -> int:
    return sum(len(example["ids"]) for example in encoded[1])


@torch.inference_mode()
def _outputs(network: Network, task: Task, examples: list[Example], device: Device) -> list[Any]:
    outputs: list[Any] = [None] * len(examples)
    for group in batches([len(example["ids"]) for example in examples], device.max_tokens):
        batch = task.collate([examples[index] for index in group]).to(device.device)
        with device.autocast():
            answers = task.outputs(network, batch)
        for index, answer in zip(group, answers, strict=True):
            outputs[index] = answer
    return outputs

"""What `predict` and `embed` share: model folders opened, and their answers written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertcli.commands.options import Integer

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.answers import Encoded
    from bertcli.engine.device import Device
    from bertcli.model.heads import Network
    from bertcli.tasks.task import Task
    from bertcli.weights.safetensors import ModelFolder

BUSY = 8  # processes that keep up with the fastest GPU

workers = click.option(
    "--workers",
    type=Integer(1),
    help="Processes that share the work beside the model's; the result is the same.  "
    f"[default: 1, with a GPU the cores, up to {BUSY}]",
)


def open_model(streams: Streams, path: Path) -> ModelFolder:
    """Returns a model folder; stderr says what its casing was taken to be where no file of it says so."""
    from bertcli.weights.safetensors import open_folder

    model = open_folder(path)
    if model.casing_from.startswith("inferred"):
        streams.note(f"{path}: {model.wordpiece.casing} ({model.casing_from})")
    return model


def infer(streams: Streams, models: Sequence[ModelFolder], task: Task, device: Device, workers: int | None) -> None:
    """Write what a task makes of each record, with the weights of one folder or the mean over several."""
    from bertcli.engine.answers import answers, reading
    from bertcli.engine.predict import placed

    networks = [placed(network_of(model, task), device) for model in models]
    readers, writers = shared(workers or usual(device))
    read = shortened = 0

    def counted(batches: Iterator[Encoded | None]) -> Iterator[Encoded | None]:
        nonlocal read, shortened
        for batch in batches:
            if batch is not None:
                read, shortened = read + batch.records, shortened + batch.shortened
            yield batch

    encoded = counted(streams.paced(reading(task, device), text=True, workers=readers))
    with streams.writer() as out:
        for lines in answers(networks, task, encoded, device, writers):
            out.write_lines(lines)
    if shortened:
        streams.note(f"{shortened} of {read} {task.units} were cut to {task.room} tokens")


def usual(device: Device) -> int:
    """Returns how many processes keep a device busy: a CPU computes on all its cores, a GPU waits for readers."""
    return min(BUSY, len(os.sched_getaffinity(0))) if device.device.type == "cuda" else 1


def shared(workers: int) -> tuple[int, int]:
    """Returns how many processes read and how many write, this one among both: reading is twice the work."""
    writing = (workers - 1) // 3
    return workers - writing, 1 + writing


def network_of(model: ModelFolder, task: Task) -> Network:
    """Returns a folder's network, its outputs in the order of the task's labels."""
    from bertcli.tasks.task import headed
    from bertcli.weights.safetensors import load

    network = headed(task, model.config)
    load(model.path, network)
    if task.labels and model.config.labels != task.labels:
        task.adapt(network, model.config.labels)
    return network

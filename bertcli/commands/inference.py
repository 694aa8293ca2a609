"""What `predict` and `embed` share: model folders opened, and their answers written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from bertcli.commands.options import Integer

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.answers import Encoded
    from bertcli.engine.device import Device
    from bertcli.model.heads import Network
    from bertcli.tasks.task import Task
    from bertcli.weights.folder import FeatureFolder, Folder, ModelFolder

Opened = TypeVar("Opened", bound="Folder")

COMPRESSING = 2  # threads, where several processes share the work: vectors are many bytes that hardly yield to zstd

workers = click.option(
    "--workers",
    type=Integer(1),
    help="Processes that share the work beside the model's; the result is the same.  "
    "[default: 1, with a GPU 8, as far as there are cores]",
)


def open_model(streams: Streams, path: Path, **casing: bool | None) -> ModelFolder:
    """Returns a model folder; stderr says where it is not the last word of its training.

    It also says what its casing was taken to be, by the switches given, where no file of it says so.
    """
    from bertcli.weights.folder import open_folder

    return _told(streams, open_folder(path, **casing))


def open_any(streams: Streams, path: Path) -> ModelFolder | FeatureFolder:
    """Returns what `open_model` does, or a tagger on vectors."""
    from bertcli.weights import folder

    return _told(streams, folder.open_any(path))


def _told(streams: Streams, model: Opened) -> Opened:
    from bertcli import target

    if told := target.best_yet(model.path):
        streams.warn(told)
    if model.suspicion:
        streams.warn(model.suspicion)
    if model.doubt:
        streams.note(model.doubt)
    return model


def infer(streams: Streams, models: Sequence[Folder], task: Task, device: Device, workers: int | None) -> None:
    """Write what a task makes of each record, with the weights of one folder or the mean over several."""
    from bertcli.engine.answers import answers, reading
    from bertcli.engine.predict import placed
    from bertcli.parallel import Pool

    networks = [placed(network_of(model, task, streams.note), device) for model in models]
    read = shortened = 0

    def counted(batches: Iterator[Encoded | None]) -> Iterator[Encoded | None]:
        nonlocal read, shortened
        for batch in batches:
            if batch is not None:
                read, shortened = read + batch.records, shortened + batch.shortened
            yield batch

    with Pool(workers or device.workers) as pool:
        encoded = counted(streams.paced(reading(task, device), pool, text=True))
        with streams.writer(threads=min(COMPRESSING, pool.workers - 1)) as out:
            for lines in answers(networks, task, encoded, device, pool):
                out.write_lines(lines)
    if shortened:
        streams.note(f"{shortened} of {read} {task.units} were cut to {task.room} tokens")


def network_of(model: Folder, task: Task, note: Callable[[str], None] | None = None) -> Network:
    """Returns a folder's network, its outputs in the order of the task's labels; a note tells what is left out."""
    from bertcli.tasks.task import headed

    network = headed(task, model.config)
    account = model.fill(network)
    if note and account.without:
        note(f"{model.path}: not needed: {account.without}")
    if task.labels and model.config.labels != task.labels:
        task.adapt(network, model.config.labels)
    return network

"""What `predict` and `embed` share: model folders opened, and their answers written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.model.heads import Network
    from bertcli.tasks.task import Task
    from bertcli.weights.safetensors import ModelFolder


def open_model(streams: Streams, path: Path) -> ModelFolder:
    """Returns a model folder; stderr says what its casing was taken to be where no file of it says so."""
    from bertcli.weights.safetensors import open_folder

    model = open_folder(path)
    if model.casing_from.startswith("inferred"):
        streams.note(f"{path}: {model.wordpiece.casing} ({model.casing_from})")
    return model


def infer(streams: Streams, models: Sequence[ModelFolder], task: Task, device: Device) -> None:
    """Write what a task makes of each record, with the weights of one folder or the mean over several."""
    from bertcli.engine.predict import predict
    from bertcli.records import Anything

    networks = [network_of(model, task).to(device.device) for model in models]
    reader = streams.reader(Anything, text=True)
    encoded = reader.map(lambda record: (record, task.encode(record)))
    streams.write(predict(networks, task, encoded, device, reader.waits))
    if task.shortened:
        streams.note(f"{task.shortened} of {reader.read} {task.units} were cut to {task.room} tokens")


def network_of(model: ModelFolder, task: Task) -> Network:
    """Returns a folder's network, its outputs in the order of the task's labels."""
    from bertcli.tasks.task import build
    from bertcli.weights.safetensors import load

    network = build(task, model.config)
    load(model.path, network)
    if task.labels and model.config.labels != task.labels:
        task.adapt(network, model.config.labels)
    return network

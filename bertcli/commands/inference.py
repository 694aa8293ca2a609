"""What `predict` and `embed` share: a model folder opened, and its answers written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.tasks.task import Task
    from bertcli.weights.safetensors import ModelFolder


def open_model(streams: Streams, path: Path) -> ModelFolder:
    """Returns a model folder; stderr says what its casing was taken to be where no file of it says so."""
    from bertcli.weights.safetensors import open_folder

    model = open_folder(path)
    if model.casing_from.startswith("inferred"):
        streams.note(f"{path}: {model.wordpiece.casing} ({model.casing_from})")
    return model


def infer(streams: Streams, model: ModelFolder, task: Task, device: Device) -> None:
    """Write what a task makes of each record, with the weights of a folder."""
    from bertcli.engine.predict import predict
    from bertcli.records import Anything
    from bertcli.tasks.task import build
    from bertcli.weights.safetensors import load

    network = build(task, model.config)
    load(model.path, network)
    network.to(device.device)
    reader = streams.reader(Anything, text=True)
    encoded = reader.map(lambda record: (record, task.encode(record)))
    streams.write(predict(network, task, encoded, device, reader.waits))
    if task.cut:
        streams.note(f"{task.cut} of {reader.read} records were cut to {task.max_length} tokens")

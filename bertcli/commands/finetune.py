"""`finetune`: a task's records and a model folder to another model folder (sections 3.2, A.3)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertcli.commands import inference, options, training

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.engine.run import Output, Settings
    from bertcli.model.heads import Network
    from bertcli.tasks.classification import Classification
    from bertcli.weights.safetensors import ModelFolder


@options.command(
    "finetune",
    kind=options.Kind.LEARNS,
    reads='Records of the task. classification: {"id"?, "text", "text_pair"?, "label"}.',
    writes="A model folder; on stdout one plain JSON line with the last loss and the dev scores.",
    examples=[
        (
            "bertcli finetune classification labelled.jsonl -m model -o classifier --epochs 1",
            "Learn to classify texts from a pre-trained model.",
        ),
        (
            "bertcli read glue-sst-2 train.tsv | bertcli finetune classification --dev dev.jsonl -o sst2 --epochs 1",
            "From an official GLUE file, with a score on other records after each epoch.",
        ),
    ],
)
@click.argument("task_name", metavar="TASK", type=click.Choice(["classification"]))
@options.inputs("TRAIN")
@options.model
@click.option("--dev", type=click.Path(), help="Records to score the model on, after each epoch.")
@click.option(
    "--epochs",
    type=options.Number(0, min_open=True),
    default=3,
    show_default=True,
    help="Passes over the records.",
)
@click.option(
    "--max-length",
    type=options.Integer(8),
    help="Tokens per sequence, specials included; a longer text is cut.  [default: 128, or all that the model has]",
)
@training.options(lr=2e-5, warmup=0.1, batch_size=32, save_every=0)
@options.compute
def command(
    streams: Streams,
    task_name: str,
    model: Path,
    output: Output,
    force: bool,
    settings: Settings,
    device: Device,
    dev: str | None,
    max_length: int | None,
) -> None:
    """Fine-tune a model on the records of a task.

    The records are read to their end before the first step, for their number gives the schedule and their labels the
    head. The last epoch is kept. A head that the model already has is kept where task and labels agree; a fresh one is
    named on stderr. The folder opens in transformers as BertForSequenceClassification.
    """
    from bertcli.engine.run import Run
    from bertcli.records import Anything
    from bertcli.tasks.classification import Classification

    start = inference.open_model(streams, model)
    training.prepare(streams, output, settings, force=force, start=model)
    task = Classification(start.wordpiece, start.length(max_length, usual=128))
    run = Run(task, settings, output, device, {"command": training.command_line()}, say=streams.note)
    count = run.read(streams.reader(Anything).map(task.encode))
    task.close()
    streams.note(f"{count} records; {task}")
    run.dev = training.read_dev(streams, dev, task.encode)
    training.watch(streams, run, run.train(new_network(streams, start, task, settings)))


def new_network(streams: Streams, start: ModelFolder, task: Classification, settings: Settings) -> Network:
    """Returns the start folder's network under a head for the task's labels, its own where they agree."""
    from bertcli.tasks.task import build

    config = replace(start.config, labels=task.labels).with_dropout(settings.dropout)
    network = build(task, config, settings.seed)
    old = start.config.labels
    is_same = start.architecture == task.architecture and sorted(old) == sorted(task.labels)
    training.start_from(streams, network, start.path, keep_head=is_same)
    if is_same:  # its labels may be in another order
        task.reorder(network, old)
    return network

"""`score`: all metrics of a task from predictions beside gold labels."""

from __future__ import annotations

import importlib

import click

from bertcli.commands import options
from bertcli.commands.streams import Streams


@options.command(
    "score",
    kind=options.Kind.SUMS_UP,
    reads=(
        "Predictions beside gold labels, as predict writes them. classification: `label`, `prediction`. "
        "pretraining: `masked_tokens`, `prediction`, `details`, and `is_next` where there are two segments."
    ),
    writes="One plain JSON object with every metric of the task, in the units of the official scripts.",
    examples=[
        ("bertcli score classification predicted.jsonl.zst", "All metrics of a classifier's answers."),
        (
            'echo \'{"label": "1", "prediction": "1"}\' | bertcli score classification',
            "One prediction, and it is right.",
        ),
    ],
)
@click.argument("task", metavar="TASK", type=click.Choice(["classification", "pretraining"]))
@click.option(
    "--positive",
    default="1",
    show_default=True,
    metavar="LABEL",
    help="The label whose f1, precision and recall are given, where there are two labels.",
)
@options.inputs("FILE")
def command(streams: Streams, task: str, positive: str) -> None:
    """Score predictions beside gold labels.

    TASK classification gives `accuracy`, `matthews`, `precision`, `recall` and `f1` as fractions, and for each
    label the gold, predicted and correct counts. With more than two labels, or two that lack `--positive`,
    the last three are means over the labels: `macro_precision`, `macro_recall` and `macro_f1`.

    TASK pretraining gives `mlm_loss` (mean cross-entropy a masked token, in nats), `perplexity`, `mlm_accuracy`
    and `nsp_accuracy`, and how many `masked` tokens and `pairs` they stand for.

    A metric of which there is nothing to count is left out; empty input gives a `total` of 0.
    """
    metric = importlib.import_module(f"bertcli.metrics.{task}")
    given = {"positive": positive} if task == "classification" else {}
    observed = streams.reader(metric.SCHEMA).map(metric.observe)
    streams.write_result(metric.summarize(observed, **given))
    streams.report_skipped()

"""`finetune`: a task's records and a model folder to another model folder (sections 3.2, A.3)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import beginning, options, owned, progress, saving, training
from bertcli.commands.training import Usual
from bertcli.errors import BadData, UsageError, many

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.engine.distributed import Ranks
    from bertcli.engine.settings import Output, Settings
    from bertcli.engine.spool import Spool
    from bertcli.tasks.task import Task

TASKS = {
    "classification": Usual(2e-5, 32, 3, 128),
    "regression": Usual(2e-5, 32, 3, 128),
    "tagging": Usual(5e-5, 32, 3, 512),
    "span": Usual(5e-5, 32, 3, 384),
    "choice": Usual(2e-5, 16, 3, 128),
}
USUAL = {**TASKS, "--features": Usual(1e-3, 32, 20, 0)}
Weights = str | dict[str, float] | None


def parse_weights(context: click.Context, parameter: click.Parameter, value: str | None) -> Weights:
    """Returns `balanced`, or the weights of `no=1,yes=3.5` by label; raises click's error for anything else."""
    if value is None or value == "balanced":
        return value
    try:
        weights = {name: float(weight) for name, _, weight in (part.rpartition("=") for part in value.split(","))}
    except ValueError:
        weights = {}
    if not weights or not all(name and 0 <= weight < float("inf") for name, weight in weights.items()):
        raise click.BadParameter(f"{value!r} is neither 'balanced' nor a list of weights such as no=1,yes=3.5")
    return weights


@options.command(
    "finetune",
    kind=options.Kind.LEARNS,
    reads=(
        'Records of the task. classification: {"id"?, "text", "text_pair"?, "label"}, or "labels" for any number of '
        'them. regression: the same with a number. tagging: {"words", "labels"}, and "vectors" with --features. span: '
        '{"question", "context", "answers": [{"text", "start"}]}. choice: {"text", "choices", "label"}, the label an '
        "index from 0."
    ),
    writes="A model folder; on stdout one plain JSON line with the last loss, the dev scores and the table of runs.",
    examples=[
        (
            "bertcli finetune classification labelled.jsonl -m model -o classifier --epochs 1",
            "Learn to classify texts from a pre-trained model.",
        ),
        (
            "bertcli read glue-sst-2 train.tsv | bertcli finetune classification --dev dev.jsonl -o sst2 --epochs 1",
            "From an official GLUE file, with a score on other records after each epoch.",
        ),
        (
            "bertcli read conll eng.train | bertcli embed --layers concat4"
            " | bertcli finetune tagging --features -o tagger --bilstm-units 16",
            "The feature-based approach: the model stays as it is.",
        ),
        (
            "bertcli finetune classification labelled.jsonl -o best --dev dev.jsonl --epochs 1,2 --lr 1e-4,1e-3"
            " --restarts 2",
            "Eight runs, of which the best on dev is kept.",
        ),
    ],
)
@click.argument("task_name", metavar="TASK", type=click.Choice(list(TASKS)))
@options.inputs("TRAIN")
@training.ranked
@options.model
@click.option("--dev", type=click.Path(), help="Records to score the model on, after each epoch.")
@click.option(
    "--restarts",
    type=options.Integer(1, 10_000),
    default=1,
    show_default=True,
    help="Runs of each cell of the grid, from seeds that follow each other: other shuffles, other heads.",
)
@click.option(
    "--early-stop",
    type=options.Integer(0),
    default=0,
    show_default=True,
    help="End a run after so many epochs without a better dev score, and keep its best epoch; 0: never.",
)
@click.option(
    "--metric",
    help="The dev score that is to be best.  [default: accuracy; regression spearman; tagging and span f1]",
)
@owned.option(
    ("classification",),
    "--class-weights",
    callback=parse_weights,
    help="How much records of each label count, balanced or such as no=1,yes=3.5.",
)
@owned.option(
    ("classification",),
    "--positive",
    metavar="LABEL",
    help="The label whose f1, precision and recall --dev has, where there are two.  [default: 1]",
)
@owned.option(
    ("classification", "regression", "choice"),
    "--cut",
    is_flag=True,
    help="Cut texts that are too long, instead of reading windows.",
)
@options.spans
@beginning.options
@click.option(
    "--max-length",
    type=options.Integer(8),
    help="Tokens per sequence, specials included; what is longer is read in overlapping windows.  "
    "[default: 128, tagging 512, span 384, or all that the model has]",
)
@training.grid(USUAL)
@training.compute
def command(
    streams: Streams,
    task_name: str,
    model: Path,
    output: Output,
    force: bool,
    cells: list[Settings],
    device: Device,
    dev: str | None,
    restarts: int,
    bilstm: bool,
    bilstm_units: int | None,
    max_length: int | None,
    **own: Any,
) -> None:
    """Fine-tune a model on the records of a task.

    The records are read to their end before the first step, for their number gives the schedule and their labels the
    head. Of what is longer than --max-length everything is read, in windows that overlap by half (span: --stride
    tokens apart): classification and choice take a label's, or a choice's, highest score in any window, regression
    takes their mean; a word and a span are learned in every window that has them, and answered from the one where they
    have the most context. [SEP] stands between the sentences of a document. With --cut, texts end at --max-length
    instead.

    Several values of --lr, --batch-size and --epochs make a grid, and --restarts begins each cell from several seeds.
    All runs share the records, read once; the model that is best on --dev is kept, and the table of runs goes to
    stderr, to stdout and into bertcli.json. A run that gives all dev records the same answer has failed: it is kept
    only where all have. For span, --dev also fits the threshold of "no answer", which without it is 0 where some
    records have none. The last epoch is kept, with --early-stop the best.

    With --features tagging is learned from embed's vectors, a row a word, by a BiLSTM of two layers, for layers that
    are kept apart with weights that are learned; of vectors, model and layers must always be the same. --bilstm puts
    one on a model that is fine-tuned with it: classification, regression and choice then read the ends of its two
    directions.

    A head that the model already has, with the BiLSTM below it, is kept where task, labels and units agree; a fresh one
    is named on stderr. The folder opens in transformers as BertForSequenceClassification, BertForTokenClassification,
    BertForQuestionAnswering or BertForMultipleChoice; with a BiLSTM, or of a left-to-right model, it is bertcli's own.
    torchrun -m bertcli finetune … trains on several GPUs, which share the examples of each step.
    """
    from bertcli.engine.sweep import Sweep, planned

    runs, own = planned(cells, restarts), owned.own(task_name, own)
    check(streams, runs, output, dev)
    given: dict[str, Any] = {"bilstm": bilstm, "bilstm_units": bilstm_units, "max_length": max_length}
    start = beginning.begun(streams, model, task_name, own, usual=TASKS[task_name].max_length, **given)
    saving.prepare(streams, output, runs, device.ranks, force=force, start=start.path)
    spool = learned(streams, task := start.task(), output, device.ranks)
    scored = training.read_dev(streams, dev, task, output.room)
    sweep = Sweep(task, runs, output, device, training.notes(), streams.note, streams.warn)
    network_of, watch = partial(start.network, task), partial(progress.watch, streams)
    training.tell(streams, sweep.train(spool, scored, network_of, watch))


def check(streams: Streams, runs: list[Settings], output: Output, dev: str | None) -> None:
    """Raise `UsageError` for a choice between models that nothing can decide.

    Raises `NoInput` for a dev file that is not there: before anything is read.
    """
    if dev is None and len(runs) > 1:
        raise UsageError("several runs need --dev, which says which of them is best")
    if dev is None and (runs[0].early_stop or runs[0].metric is not None):
        raise UsageError("--early-stop and --metric need --dev")
    if len(runs) > 1 and output.save_at:
        raise UsageError("--save-at is for one run: several would leave their models in one place")
    if dev is not None:
        streams.of(dev).sources()


def learned(streams: Streams, task: Task, output: Output, ranks: Ranks) -> Spool:
    """Returns the examples of the input, read to its end, and closes the task's labels; says what they are.

    Of a machine's ranks one reads: the others get of it what the task has learned, and a spool that knows only how
    many examples there are.
    """
    from bertcli.engine.spool import Spool

    spool = Spool(output.room)
    if ranks.is_reader:
        read(streams, task, spool)
    ends, state = ranks.of_reader((spool.ends, {name: own for name, own in vars(task).items() if name != "wordpiece"}))
    if not ranks.is_reader:
        spool.ends = ends
        vars(task).update(state)
    return spool


def read(streams: Streams, task: Task, spool: Spool) -> None:
    """Put the examples of the input on a spool, and close the task's labels. Raises `BadData` where there is none."""
    from bertcli.records import Anything

    reader = streams.reader(Anything)
    for examples in reader.map(task.learn):
        for example in examples:
            spool.append(example)
    if not len(spool):
        raise BadData("there is no record to train on")
    task.close()
    spool.close()
    windows = f" in {many(len(spool), task.sequence)}" if len(spool) != reader.read else ""
    streams.note(f"{many(reader.read, 'record')}{windows}; {task}")

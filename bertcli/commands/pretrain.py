"""`pretrain`: pairs to a model folder (section 3.1, A.2)."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import options, progress, saving, training
from bertcli.errors import UsageError
from bertcli.model.config import OBJECTIVES, SIZES, of_size, shape

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.engine.settings import Output, Settings
    from bertcli.model.heads import Network
    from bertcli.tasks.pretraining import Pretraining
    from bertcli.text.mask import MaskRule
    from bertcli.text.wordpiece import WordPiece


class Size(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The size of a model, as its layers, width and heads."""

    name = "size"
    choices = SIZES  # which a shell offers, of more than are taken

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Returns the three numbers; raises click's error for what is no size."""
        try:
            return shape(value)
        except UsageError as error:
            self.fail(f"{error}", parameter, context)


@options.command(
    "pretrain",
    kind=options.Kind.LEARNS,
    reads="Masked pairs, or pairs, which are then masked afresh each epoch.",
    writes="A model folder; on stdout one plain JSON line with the last losses and the dev scores.",
    examples=[
        (
            "bertcli pretrain train.jsonl.zst -o tiny --preset tiny --steps 20 --batch-size 8",
            "Train the smallest preset for a few steps.",
        ),
        (
            "bertcli pairs docs.jsonl | bertcli pretrain -o fresh --preset tiny --steps 20 --batch-size 8",
            "Pairs straight from a pipe, masked afresh each epoch.",
        ),
    ],
)
@options.inputs("FILE")
@training.ranked
@options.vocabulary
@click.option(
    "--preset",
    type=Size(),
    default="base",
    show_default=True,
    help="The model's size: tiny 2x128, mini 4x256, small 4x512, medium 8x512, base 12x768, large 24x1024, or "
    "LAYERSxWIDTH with heads of 64, or LAYERSxWIDTHxHEADS.",
)
@click.option("--num-layers", type=options.Integer(1), help="Layers, instead of the preset's.")
@click.option(
    "--hidden-size",
    type=options.Integer(1),
    help="Width, instead of the preset's; the feed-forward is four times it.",
)
@click.option("--num-heads", type=options.Integer(1), help="Attention heads, instead of the preset's.")
@click.option(
    "--start",
    type=click.Path(path_type=Path),
    help="A model folder whose size, vocabulary and weights to begin from.",
)
@click.option(
    "--objective",
    type=click.Choice(list(OBJECTIVES)),
    default="mlm+nsp",
    show_default=True,
    help="What is learned: hidden tokens and next sentences; hidden tokens; each token from those before it.",
)
@click.option(
    "--max-length",
    type=options.Integer(8),
    default=128,
    show_default=True,
    help="Tokens per sequence, specials included; a longer pair is an error.",
)
@options.masking
@click.option("--dev", type=click.Path(), help="Pairs to score the model on, with each checkpoint and at the end.")
@click.option(
    "--eval-every",
    type=options.Integer(0),
    default=0,
    help="Steps between the scores of --dev, instead of with each checkpoint.",
)
@click.option(
    "--steps",
    type=options.Integer(1),
    default=1_000_000,
    show_default=True,
    help="Optimizer steps over which the rate falls.",
)
@click.option("--stop-at", type=options.Integer(0), default=0, help="Stop after this step; --resume goes on.")
@training.options(lr=1e-4, warmup=0.01, batch_size=256, save_every=1000)
@training.compute
def command(
    streams: Streams,
    output: Output,
    force: bool,
    settings: Settings,
    device: Device,
    wordpiece: WordPiece,
    rule: MaskRule,
    objective: str,
    max_length: int,
    start: Path | None,
    dev: str | None,
    **size: Any,
) -> None:
    """Pre-train BERT on pairs: the masked language model and next-sentence prediction.

    Under the objective ltr it is the left-to-right language model of the paper's Table 5: no token attends to those
    after it, every token is predicted from those before it, nothing is masked (of masked pairs the originals are put
    back), and it stays so when it is fine-tuned, where [SEP] at the end is read in the place of [CLS]. Losses and dev
    scores are then lm_loss and lm_accuracy, of every token but the first.

    The first epoch trains as the input arrives, through a shuffle buffer; later epochs are permutations of all that was
    read. Masked pairs keep their masks, so options of masks are refused; pairs are masked afresh each epoch. The folder
    opens in transformers as BertForPreTraining, as BertForMaskedLM under the objective mlm, as BertLMHeadModel under
    ltr. --start begins a new run from weights; --resume, with the same options, goes on with an old one: at its place
    in the same input, or at the first record of another, such as longer sequences with another --max-length. Beside the
    model, -o holds log.jsonl, a line a step with its losses, scores.jsonl, a line for each time that --dev was scored,
    and while the run goes on checkpoint/. SIGINT, SIGTERM and SIGUSR1 save a checkpoint first. A loss that is no finite
    number ends the run, with a checkpoint of the step before.

    torchrun -m bertcli pretrain … trains on several GPUs, or machines, which share the examples of each step.
    """
    from bertcli.engine.run import Run
    from bertcli.engine.spool import Learning
    from bertcli.parallel import Pool

    task = new_task(objective, wordpiece, max_length, rule=rule, seed=settings.seed)
    saving.prepare(streams, output, [settings], device.ranks, force=force, start=start)
    network = new_network(streams, task, settings, start, **size)
    notes = {"objective": objective, **({} if task.is_causal else asdict(rule)), **training.notes()}
    run = Run(task, settings, output, device, notes, streams.note, streams.warn)
    run.dev = training.read_dev(streams, dev, task, output.room, complete=task.masked)
    run.stream(streams.marked(Learning(task), pool := Pool(device.workers)), pool, streams.skipped, streams.stamps())
    progress.watch(streams, run, run.train(network))
    training.tell(streams, run.result())


def new_task(objective: str, wordpiece: WordPiece, max_length: int, *, rule: MaskRule, seed: int) -> Pretraining:
    """Returns what is to be learned; raises `UsageError` for an option of masks where nothing is masked."""
    from bertcli.tasks import PRETRAINING

    asked = next(iter(options.typed(*vars(rule))), "")
    task = PRETRAINING[objective](wordpiece, max_length, objective=objective, rule=rule, seed=seed, asked=asked)
    if task.is_causal and asked:
        raise UsageError(f"{asked}: nothing is masked under --objective {objective}")
    return task


def new_network(
    streams: Streams,
    task: Pretraining,
    settings: Settings,
    start: Path | None,
    *,
    preset: tuple[int, int, int],
    num_layers: int | None,
    hidden_size: int | None,
    num_heads: int | None,
) -> Network:
    """Returns a network of the size asked for, or one of the size and with the weights of the folder to start from."""
    from bertcli.tasks.task import build, headed
    from bertcli.weights.folder import open_folder

    if start and (typed := options.typed("preset", "num_layers", "hidden_size", "num_heads")):
        raise UsageError(f"--start {start} has its own size: no {typed[0]} beside it")
    if start is None:
        given = (num_layers, hidden_size, num_heads)
        chosen = (own or usual for own, usual in zip(given, preset, strict=True))
        longest = max(task.max_length, 512)  # the paper's, so that training can go on with longer sequences
        pieces = len(task.wordpiece.pieces)
        own = {"vocab_size": pieces, "max_position_embeddings": longest, "is_decoder": task.is_causal}
        config = of_size(*chosen, **own)
        return build(task, config.with_dropout(settings.dropout), settings.seed)
    model = open_folder(start)
    if model.wordpiece.pieces != task.wordpiece.pieces:
        raise UsageError(f"--start {start}: its vocabulary is not the one given by -v")
    if model.config.is_decoder and not (task.is_causal or options.typed("objective")):
        raise UsageError(f"--start {start} was trained from left to right: --objective ltr, or mlm to read both sides")
    model.length(task.max_length)
    kept = replace(model.config, labels=(), problem_type=None, bilstm=0, is_decoder=task.is_causal)
    config = kept.with_dropout(settings.dropout)
    network = headed(task, config, settings.seed)
    training.start_from(streams, network, model, keep_head=True)
    return network

"""`predict`: records to the same records with a model's answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import computing, inference, options, owned
from bertcli.errors import UsageError

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.tasks.task import Task
    from bertcli.weights.folder import FeatureFolder, ModelFolder


@options.command(
    "predict",
    kind=options.Kind.ADDS,
    reads=(
        "Records of the model's task, labels not needed; for a tagger on features with the vectors that embed adds. "
        'For a pre-trained model: masked pairs, pairs, or text with [MASK], plain or as {"text", "text_pair"?}; with '
        '--pseudo-likelihood pairs, any text, or {"good", "bad"}.'
    ),
    writes=(
        'The same with "prediction", the bare answer, and "details". classification: the label, or a list of them, and '
        '{"probabilities": {label: p}}. regression: the number. tagging: a label a word, and {"probabilities": [p]}. '
        'span: the text, and {"start", "end", "score", "null_score", "nbest"?}. choice: the index, and '
        '{"probabilities": [p]}. Pre-trained: for each hidden token a list of {"token", "probability"}, and as far as '
        'they apply {"is_next_probability", "loss"}. With --pseudo-likelihood: a number, and {"log_likelihood", '
        '"log_likelihoods": [log p], "tokens"}; of two sentences true where the good one is likelier, and '
        '{"log_likelihoods": [good, bad]}.'
    ),
    examples=[
        ("bertcli predict dev.jsonl -m classifier > predicted.jsonl.zst", "The class of each text."),
        (
            "bertcli predict dev.jsonl -m classifier --plain | head -n 1",
            "The class of the first text, for people to read.",
        ),
        (
            "echo 'the [MASK] was late' | bertcli predict --top-k 3 --plain",
            "Fill a gap, the three likeliest pieces.",
        ),
        (
            "bertcli predict dev.jsonl -m classifier -m other | bertcli score classification",
            "Two models as one.",
        ),
        (
            "bertcli predict train.jsonl.zst | bertcli score pretraining",
            "Loss and accuracy of a pre-trained model.",
        ),
        (
            "echo 'the road was long' | bertcli predict --pseudo-likelihood --plain",
            "How likely a pre-trained model finds a sentence.",
        ),
    ],
)
@options.inputs("FILE", text=True)
@options.models
@click.option(
    "--max-length",
    type=options.Integer(8),
    help="Tokens per sequence, specials included; what is longer is read in windows.  "
    "[default: the model's, which is that of its fine-tuning]",
)
@owned.option(
    ("pretraining",), "--top-k", type=options.Integer(1), help="Pieces to name for each hidden token.  [default: 5]"
)
@owned.option(
    ("pretraining",),
    "--pseudo-likelihood",
    is_flag=True,
    help="Tell how likely a text is, each of its tokens hidden in turn.",
)
@owned.option(("span",), "--nbest", type=options.Integer(1), help="Answers to name, each with its probability.")
@owned.option(
    ("span",),
    "--null-threshold",
    type=options.Threshold(),
    help="There is no answer where its score is so far below that of none; inf: there always is.  "
    "[default: the model's, if it has one, else inf]",
)
@options.spans
@inference.workers
@computing.compute
def command(
    streams: Streams,
    models: tuple[Path, ...],
    device: Device,
    max_length: int | None,
    workers: int | None,
    **own: float | None,
) -> None:
    """Add a model's predictions to records.

    Every record comes out, in order; blank lines are passed over. Input whose first character is not { is plain text,
    a record a line. Texts are gathered and computed by length; where the input pauses, what has come is answered at
    once. What is longer than the model is read in overlapping windows, combined as for `finetune`; where a gap is to
    be filled it is an error. A left-to-right model fills a gap from what is before it, and of a pair without gaps it is
    asked for every token but the first.

    With `--pseudo-likelihood` a pre-trained model hides each piece of a text in turn and tells the log of its
    probability given all the others, in nats; their sum is the text's (Salazar et al. 2020). `log_likelihoods` has one
    for each of the `tokens`: all pieces but [CLS], [SEP] and what is a [MASK] already. Of a text longer than the model
    each piece is hidden in the window in which it has the most context. Of a minimal pair, as `read blimp` makes them,
    both sentences are judged. A left-to-right model is asked for the probability of each piece given those before it;
    nothing is hidden then, and the sum is the text's own likelihood.

    Several models of one task, with the same vocabulary and labels, are an ensemble: probabilities are the means of
    each model's, regression's numbers too, and for span the scores of the tokens in each window and the
    thresholds of no answer.
    """
    folders = [inference.open_any(streams, model) for model in models]
    task = task_of(folders, max_length, own)
    inference.infer(streams, folders, task, device, workers)


def task_of(folders: list[ModelFolder | FeatureFolder], max_length: int | None, own: dict[str, Any]) -> Task:
    """Returns the task of some folders, for sequences that all of them can read.

    Raises click's error for an option that is another task's, and `UsageError` where folders differ in what they
    answer or read.
    """
    from bertcli.tasks import of_folder

    length = min(folder.length(max_length) for folder in folders)
    given = {name: value for name, value in own.items() if value is not None}
    first, *others = [of_folder(folder, length, **given) for folder in folders]
    owned.own(first.name, own)
    if {"pseudo_likelihood", "top_k"} <= given.keys():
        raise UsageError("--pseudo-likelihood and --top-k: no pieces are named but the text's own")
    if others and first.name == "pretraining":
        raise UsageError("several models are an ensemble of a task that they were fine-tuned for")
    for folder, task in zip(folders[1:], others, strict=True):
        if difference := first.difference(task):
            raise UsageError(f"{folders[0].path} and {folder.path} differ in their {difference}")
    first.join(others)
    return first

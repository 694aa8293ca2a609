"""`predict`: records to the same records with a model's answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertcli.commands import inference, options

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device


@options.command(
    "predict",
    kind=options.Kind.ADDS,
    reads=(
        "Records of the model's task, labels not needed. For a pre-trained model: masked pairs, pairs, or text with "
        '[MASK], plain or as {"text", "text_pair"?}.'
    ),
    writes=(
        'The same with "prediction", the bare answer, and "details". Classification: the label, and {"probabilities": '
        '{label: p}}. Pre-trained: for each hidden token a list of {"token", "probability"}, and as far as they apply '
        '{"is_next_probability", "loss"}.'
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
            "bertcli predict train.jsonl.zst | bertcli score pretraining",
            "Loss and accuracy of a pre-trained model.",
        ),
    ],
)
@options.inputs("FILE", text=True)
@options.model
@click.option(
    "--max-length",
    type=options.Integer(8),
    help="Tokens per sequence, specials included.  [default: the model's]",
)
@click.option(
    "--top-k",
    type=options.Integer(1),
    default=5,
    show_default=True,
    help="Pieces to name for each hidden token.",
)
@options.compute
def command(streams: Streams, model: Path, device: Device, max_length: int | None, top_k: int) -> None:
    """Add a model's predictions to records.

    Every record comes out, in order; blank lines are passed over. Input whose first character is not { is plain text,
    a record a line. Texts are gathered and computed by length; where the input pauses, what has come is answered at
    once. A text that is too long for the model is cut to classify it, the number of those told on stderr; where a gap
    is to be filled it is an error.
    """
    from bertcli.tasks import of_folder

    folder = inference.open_model(streams, model)
    task = of_folder(folder, folder.length(max_length), top_k)
    inference.infer(streams, folder, task, device)

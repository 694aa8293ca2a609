"""`embed`: records to the same records with vectors (section 5.3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bertcli.commands import computing, inference, options

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device


@options.command(
    "embed",
    kind=options.Kind.ADDS,
    reads='Records with "words", "text", or "text" and "text_pair"; plain text.',
    writes=(
        'The same with "vectors", a row of numbers each: {"dtype", "shape", "data"}, the data base64 of little-endian '
        'numbers, or with --vectors list [[number, ...], ...]; and "tokens" where the rows are pieces.'
    ),
    examples=[
        ("bertcli embed labelled.jsonl --pool mean > vectors.jsonl.zst", "A vector a text."),
        (
            """echo '{"words": ["New", "York"]}' | bertcli embed --layers concat4 --plain""",
            "A row a word, of the last four layers.",
        ),
    ],
)
@options.inputs("FILE", text=True)
@options.model
@click.option(
    "--layers",
    default="last",
    show_default=True,
    help="embeddings, last, second-to-last, concat4, weighted4, weighted-all, or a list such as -1,-2.",
)
@click.option(
    "--pool",
    type=click.Choice(["words", "tokens", "cls", "mean"]),
    help="What a row is of.  [default: words where there are some, else tokens]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float16", "float32"]),
    default="float16",
    show_default=True,
    help="The numbers' type.",
)
@click.option(
    "--vectors",
    type=click.Choice(["base64", "list"]),
    default="base64",
    show_default=True,
    help="Compact, or readable by jq.",
)
@click.option(
    "--max-length", type=options.Integer(8), help="Tokens per window, specials included.  [default: the model's]"
)
@inference.workers
@computing.compute
def command(
    streams: Streams,
    model: Path,
    device: Device,
    layers: str,
    pool: str | None,
    dtype: str,
    vectors: str,
    max_length: int | None,
    workers: int | None,
) -> None:
    """Add a model's vectors to records.

    words: each word's first piece. tokens: every piece, [CLS] and [SEP] with them. cls: [CLS] alone. mean: the mean of
    all tokens. A text longer than the model's window is read in windows that overlap by half, and each token's vector
    comes from the window in which it has the most context. Shapes are [rows, width], or [layers, rows, width] for
    weighted4 and weighted-all, which keep the layers apart. Words go before text where a record has both; a text with
    its pair is cut to one window. Input whose first character is not { is plain text, a record a line.
    """
    from bertcli.tasks.embedding import Embedding, parse_layers

    folder = inference.open_model(streams, model)
    chosen = parse_layers(layers, folder.config.num_hidden_layers)
    task = Embedding(
        folder.wordpiece, folder.length(max_length), chosen, pool=pool, dtype=dtype, as_list=vectors == "list"
    )
    inference.infer(streams, [folder], task, device, workers)

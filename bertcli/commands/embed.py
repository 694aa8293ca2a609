"""`embed`: records to the same records with vectors (section 5.3)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import computing, inference, options
from bertcli.errors import UsageError

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.device import Device
    from bertcli.weights.folder import ModelFolder


@options.command(
    "embed",
    kind=options.Kind.ADDS,
    reads="Records of any type, or with the field that --field names; plain text.",
    writes=(
        'The same with "vectors", a row of numbers each: {"dtype", "shape", "data", "source"}, the data base64 of '
        "little-endian numbers in C order, the source LAYERS/POOL/MODEL, by whose eight digits the model is known; or "
        'with --vectors list [[number, ...], ...]; and "tokens" where the rows are pieces.'
    ),
    examples=[
        ("bertcli embed labelled.jsonl --pool mean > vectors.jsonl.zst", "A vector a text."),
        (
            """echo '{"words": ["New", "York"]}' | bertcli embed --layers concat4 --plain""",
            "A row a word, of the last four layers.",
        ),
        ("bertcli embed labelled.jsonl | bertcli write npy > vectors.npy", "All rows as one array, for numpy.load."),
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
@click.option("--field", help="The field to read, a string or a list of words.  [default: those of the record's type]")
@inference.workers
@computing.compute
def command(
    streams: Streams,
    model: Path,
    device: Device,
    layers: str,
    vectors: str,
    max_length: int | None,
    workers: int | None,
    **own: Any,
) -> None:
    """Add a model's vectors to records.

    words: each word's first piece. tokens: every piece, [CLS] and [SEP] with them. cls: [CLS] alone. mean: the mean of
    all tokens. Shapes are [rows, width], or [layers, rows, width] for weighted4 and weighted-all, which keep the layers
    apart.

    A record is read by the first of these that it has: words; question and context; text and each of choices; text,
    with text_pair if there is one; sentences; the tokens of a pair, masked or not; the good sentence and the bad one of
    a minimal pair. Of choices, and of those two, cls and mean give a row each, tokens the rows of one after those of
    another. A document, which is sentences, or words with the indices of its sentences' first words, has [SEP] between
    sentences, as a tagger reads it; its rows are of words where all of it is words. Input whose first character is not
    { is plain text, a record a line.

    Nothing is cut. What is longer than the model's window is read in windows that overlap by half, a pair's two texts
    side by side, and each token's vector comes from the window in which it has the most context: it is what the window
    alone would give. [CLS] is the first window's. Otherwise a vector depends on nothing but its record.
    """
    from bertcli.tasks.embedding import Embedding, parse_layers
    from bertcli.weights.folder import fingerprint

    folder = checked(inference.open_model(streams, model), own["pool"])
    task = Embedding(
        folder.wordpiece,
        folder.length(max_length),
        parse_layers(layers, folder.config.num_hidden_layers),
        as_list=vectors == "list",
        model=fingerprint(model),
        width=folder.config.hidden_size,
        **own,
    )
    inference.infer(streams, [folder], task, device, workers)


def checked(folder: ModelFolder, pool: str | None) -> ModelFolder:
    """Returns a folder; raises `UsageError` where the pool is a token that has seen nothing."""
    if pool == "cls" and folder.config.is_decoder:
        raise UsageError(f"--pool cls: {folder.path} reads from left to right, and [CLS] comes first; try mean")
    return folder

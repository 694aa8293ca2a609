"""`convert`: a BERT folder of any make to a model folder, its vocabulary as it was or grown."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import inference, options, saving, training
from bertcli.commands.streams import Streams, readable

if TYPE_CHECKING:
    from bertcli.model.heads import Network
    from bertcli.weights.grown import Growth
    from bertcli.weights.safetensors import ModelFolder


@options.command(
    "convert",
    kind=options.Kind.STANDS_ALONE,
    reads="A BERT folder with safetensors, whole or sharded, in any float type.",
    writes="A model folder; on stdout one plain JSON line with what is in it.",
    examples=[
        (
            "bertcli convert model --extend-vocab extended.txt -o grown",
            "Let a model's vocabulary grow, as `bertcli vocab --extend model` has extended it.",
        ),
        ("bertcli convert model -o copy", "Whatever wrote the folder, write it as bertcli does."),
    ],
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@saving.place
@click.option(
    "--extend-vocab",
    metavar="NEW",
    type=click.Path(path_type=Path),
    help="The vocabulary grown, or a folder with it: SRC's pieces keep their ids.",
)
@options.quiet
@options.casing
def command(
    source: Path, path: Path, force: bool, extend_vocab: Path | None, quiet: bool, **switches: bool | None
) -> None:
    """Turn a BERT folder, or one with a vocabulary that grew, into a model folder.

    All heads that SRC has, its pooler, its labels and what its bertcli.json says come along. A tensor that has no
    place in a BERT is an error that names it. Weights are written as float32, rows beyond the vocabulary's pieces left
    out.

    With --extend-vocab, the row of each new piece in the word embeddings is the mean of the rows of the old pieces that
    its text was cut into before, and so is its bias in the head that predicts words. A piece that the old ones do not
    make, or that is no text, as [E1], gets the row of [UNK]. New pieces may stand in the places of [unusedN]. A text
    without new pieces is read exactly as before.
    """
    from bertcli import target
    from bertcli.weights.grown import grow
    from bertcli.weights.safetensors import save_folder

    streams = Streams((str(source),), plain=True, quiet=quiet, on_error="stop", text=False)
    saving.check_apart(path, source)
    with target.taken(path, force=force, resume=None, warn=streams.warn):
        model = inference.open_model(streams, source, **switches)
        growth, network = grown(streams, model, extend_vocab), network_of(model)
        grow(network, growth)
        save_folder(path, network, model.architecture, growth.wordpiece, model.max_length, notes(model, growth))
        target.clear(path, keep=target.MODEL)
    tell(streams, path, network, growth)


def grown(streams: Streams, model: ModelFolder, new: Path | None) -> Growth:
    """Returns how a folder's vocabulary is to grow; stderr says by what."""
    from bertcli.errors import many
    from bertcli.weights.grown import extended, unchanged

    pieces = len(model.wordpiece.pieces)
    if rest := model.config.vocab_size - pieces:
        streams.note(f"{model.path}: {many(rest, 'row')} beyond its {pieces} pieces left out")
    if new is None:
        return unchanged(model.wordpiece)
    growth = extended(model.wordpiece, new)
    streams.sum_up(growth)
    return growth


def network_of(model: ModelFolder) -> Network:
    """Returns all of a folder's network, as its task has it, or BERT's alone where there is none."""
    from bertcli.tasks import of_folder
    from bertcli.tasks.embedding import Embedding, parse_layers
    from bertcli.tasks.task import headed
    from bertcli.weights.whole import whole

    if not model.config.bilstm and model.architecture in (None, "BertModel"):
        layers = parse_layers("last", model.config.num_hidden_layers)
        return whole(model, headed(Embedding(model.wordpiece, model.max_length, layers), model.config))
    return whole(model, headed(of_folder(model, model.max_length), model.config))


def notes(model: ModelFolder, growth: Growth) -> dict[str, Any]:
    """Returns what `bertcli.json` is to say: what it said, and by which commands the model came to be what it is."""
    before = model.notes.get("history")
    history = [*(before if isinstance(before, list) else []), model.notes.get("command")]
    told = {"source": readable(str(model.path)), **(growth.figures if growth.parts else {})}
    return {**model.notes, **training.notes(), "history": [each for each in history if each], "converted": told}


def tell(streams: Streams, path: Path, network: Network, growth: Growth) -> None:
    """Say what a model consists of, and write it to stdout."""
    from bertcli.weights.whole import contents

    streams.note(f"{path}: {contents(network)}")
    figures = growth.figures if growth.parts else {}
    streams.write_result({"model": readable(str(path)), "pieces": len(growth.wordpiece.pieces), **figures})

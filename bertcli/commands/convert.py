"""`convert`: a BERT in any form to a model folder, its vocabulary as it was or grown, or to what others read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bertcli.commands import options, saving, training
from bertcli.commands.streams import Streams, readable
from bertcli.errors import UsageError
from bertcli.model.config import NAMED, OBJECTIVES

if TYPE_CHECKING:
    from bertcli.model.heads import Network
    from bertcli.weights.folder import ModelFolder
    from bertcli.weights.grown import Growth
    from bertcli.weights.tensors import Account

CLASSES = (*OBJECTIVES.values(), *NAMED, "BertForQuestionAnswering", "BertForMultipleChoice", "BertModel")
UNHEADED = (None, "BertModel", "BertForNextSentencePrediction")  # classes whose head no task of ours answers with
FORMS = ("bertcli", "tensorflow", "sentence-transformers", "onnx")


@options.command(
    "convert",
    kind=options.Kind.STANDS_ALONE,
    reads="A BERT: a folder, one of its files, or the prefix of a TensorFlow checkpoint.",
    writes="A model folder, or what --to says; on stdout one plain JSON line with what is in it.",
    examples=[
        (
            "bertcli convert model --extend-vocab extended.txt -o grown",
            "Let a model's vocabulary grow, as `bertcli vocab --extend model` has extended it.",
        ),
        ("bertcli convert model --to tensorflow -o google", "A checkpoint that Google's code goes on with."),
        ("bertcli convert model -o copy", "Whatever wrote the folder, write it as bertcli does."),
    ],
)
@click.argument("source", metavar="SRC", type=click.Path(path_type=Path))
@saving.place
@click.option(
    "--to",
    type=click.Choice(FORMS),
    default="bertcli",
    show_default=True,
    help="What to write: a model folder, which transformers reads too, or its like for others.",
)
@click.option(
    "--precision",
    type=click.Choice(["fp32", "int8"]),
    default="fp32",
    show_default=True,
    help="Of --to onnx: the numbers that products are made of.",
)
@click.option(
    "--extend-vocab",
    metavar="NEW",
    type=click.Path(path_type=Path),
    help="The vocabulary grown, or a folder with it: SRC's pieces keep their ids.",
)
@click.option(
    "-v",
    "--vocab",
    "vocabulary",
    type=click.Path(path_type=Path),
    help="The vocabulary, a piece a line, or a folder with one.  [default: SRC's]",
)
@click.option("--config", type=click.Path(path_type=Path), help="The config, as JSON.  [default: SRC's]")
@click.option(
    "--architecture",
    type=click.Choice(CLASSES),
    metavar="CLASS",
    help="The transformers class that SRC is of, as BertForTokenClassification.  [default: its config's, else by its "
    "tensors]",
)
@click.option(
    "--labels",
    type=options.Several(click.STRING),
    default=(),
    help="Names for the outputs of SRC's head, in their order.  [default: SRC's]",
)
@click.option(
    "--without",
    type=options.Several(click.STRING),
    default=(),
    help="Tensors to leave out: names, or patterns such as 'adapter.*'.",
)
@options.quiet
@options.casing
def command(
    source: Path,
    path: Path,
    force: bool,
    to: str,
    precision: str,
    extend_vocab: Path | None,
    quiet: bool,
    **given: Any,
) -> None:
    """Turn a BERT of any make into a model folder, or into what other programs read.

    SRC is a folder with `model.safetensors` or `pytorch_model.bin`, whole or sharded, or with a TensorFlow checkpoint,
    of which Google's first BERTs are; one such file; or the prefix of a checkpoint, as `bert_model.ckpt`. Its config
    (`config.json`, `bert_config.json`) and vocabulary lie beside it, or are given. Of a pickle plain tensors are read,
    and nothing that it asks for is run.

    Every tensor is accounted for on stderr: used, a copy of one that is, or no weight at all, as the state of an
    optimizer. What is missing, has another shape, or no place in a BERT, is an error that lists it. All heads that SRC
    has, its pooler, its labels and what its bertcli.json says come along. Weights are written as float32, rows beyond
    the vocabulary's pieces left out, those of added tokens too. Where no config names the class of the model, its
    tensors tell: a head on a pooler is taken for one of texts, but --architecture says what it is.

    Whatever is written has config, vocabulary and bertcli.json with it, so that convert reads it again. --to tensorflow
    writes `bert_model.ckpt` and `bert_config.json` (Google's code has one GELU, now by tanh), sentence-transformers a
    folder whose vectors are those of `embed --pool mean`, not normalised, of texts that are no longer than the model's
    length, for there they are cut; onnx a `model.onnx` for any number of texts of any length, with the inputs and
    outputs of transformers' model (it takes the extra `bertcli[onnx]`); of int8 its products are of 8 bits, each row of
    weights with a scale of its own, which is for CPUs.

    With --extend-vocab, the row of each new piece in the word embeddings is the mean of the rows of the old pieces that
    its text was cut into before, and so is its bias in the head that predicts words. A piece that the old ones do not
    make, or that is no text, as [E1], gets the row of [UNK]. New pieces may stand in the places of [unusedN]. A text
    without new pieces is read exactly as before.
    """
    from bertcli import target
    from bertcli.weights.folder import save_folder

    streams = Streams((str(source),), plain=True, quiet=quiet, on_error="stop", text=False)
    saving.check_apart(path, source)
    with target.taken(path, force=force, resume=None, warn=streams.warn):
        model = opened(streams, source, **given)
        save, kind = writer(model, to, precision)
        network, account = network_of(model, bare=to == "sentence-transformers")
        growth = grown(streams, model, network, extend_vocab)
        save_folder(path, network, kind, growth.wordpiece, model.max_length, notes(model, growth, kind), save)
        target.clear(path, keep=target.MODEL)
    tell(streams, path, network, growth, account)


def opened(streams: Streams, source: Path, **given: Any) -> ModelFolder:
    """Returns a model of any form; stderr says what was taken to be so although no file says it."""
    from bertcli import target
    from bertcli.weights import origin

    model, taken = origin.opened(source, **given)
    if told := target.best_yet(source):
        streams.warn(told)
    if model.suspicion:
        streams.warn(model.suspicion)
    for each in filter(None, [model.doubt, *taken]):
        streams.note(each)
    return model


def writer(model: ModelFolder, to: str, precision: str) -> tuple[Callable[[Path, Network], None], str | None]:
    """Returns what writes weights in a form, and the transformers class that they then are of."""
    from bertcli.tasks import kind_of
    from bertcli.weights import google, onnx, safetensors, sentence_transformers

    kind = model.architecture
    if precision != "fp32" and to != "onnx":
        raise UsageError(f"--precision {precision} needs --to onnx")
    match to:
        case "tensorflow":
            google.check_known(model.config)
            return google.save, kind
        case "sentence-transformers":
            return partial(sentence_transformers.save, max_length=model.max_length), "BertModel"
        case "onnx":
            return partial(onnx.save, kind=kind_of(model), in_eight_bits=precision == "int8"), kind
    return safetensors.save, kind


def network_of(model: ModelFolder, *, bare: bool = False) -> tuple[Network, Account]:
    """Returns all of a model's network, as its task has it, or BERT and its pooler alone, and what became of it."""
    from bertcli.tasks import of_folder
    from bertcli.tasks.embedding import Embedding, parse_layers
    from bertcli.tasks.task import headed
    from bertcli.weights.whole import whole

    config = replace(model.config, labels=(), problem_type=None, bilstm=0) if bare else model.config
    if not config.bilstm and (bare or model.architecture in UNHEADED):
        layers = parse_layers("last", config.num_hidden_layers)
        network = headed(Embedding(model.wordpiece, model.max_length, layers), config)
    else:
        network = headed(of_folder(model, model.max_length), config)
    return network, whole(model, network, heads=not bare)


def grown(streams: Streams, model: ModelFolder, network: Network, new: Path | None) -> Growth:
    """Returns how a model's vocabulary has grown, and lets its network grow with it; stderr says by what."""
    from bertcli.errors import many
    from bertcli.weights.grown import extended, grow, unchanged

    pieces = len(model.wordpiece.pieces)
    if rest := model.config.vocab_size - pieces:
        streams.note(f"{model.path}: {many(rest, 'row')} beyond its {pieces} pieces left out")
    growth = unchanged(model.wordpiece) if new is None else extended(model.wordpiece, new)
    if new is not None:
        streams.sum_up(growth)
    grow(network, growth)
    return growth


def notes(model: ModelFolder, growth: Growth, kind: str | None) -> dict[str, Any]:
    """Returns what `bertcli.json` is to say: what it said, and by which commands the model came to be what it is.

    Of what it said nothing holds for another class than the model was of.
    """
    before = model.notes.get("history")
    history = [*(before if isinstance(before, list) else []), model.notes.get("command")]
    told = {"source": readable(str(model.path)), **(growth.figures if growth.parts else {})}
    said = model.notes if kind == model.architecture else {}
    return {**said, **training.notes(), "history": [each for each in history if each], "converted": told}


def tell(streams: Streams, path: Path, network: Network, growth: Growth, account: Account) -> None:
    """Say what became of each tensor and what a model consists of, and write it to stdout."""
    from bertcli.weights.whole import contents

    streams.note(f"{account}")
    streams.note(f"{path}: {contents(network)}")
    figures = growth.figures if growth.parts else {}
    told = {"model": readable(str(path)), "pieces": len(growth.wordpiece.pieces), **figures}
    streams.write_result({**told, "tensors": account.figures})

"""Google's BERT, as TensorFlow saves it: a checkpoint, beside `bert_config.json` and `vocab.txt`.

Its names are the scopes of Google's code of 2018, its products have a row for each input, and an optimizer's state lies
among the weights.
"""

from __future__ import annotations

import re
from pathlib import Path

from torch import Tensor

from bertcli import folder
from bertcli.errors import BadData, NoInput, UsageError
from bertcli.headers import TensorHeader
from bertcli.model.config import Config
from bertcli.model.heads import Network
from bertcli.weights.keys import SLOTS, TRANSPOSED, from_google, googles
from bertcli.weights.tensorflow import bundle
from bertcli.weights.tensors import OPTIMIZERS, Tensors, listed, named

NAME, CONFIG = "bert_model.ckpt", "bert_config.json"
STATE = "checkpoint"  # the file in which TensorFlow notes the newest of the checkpoints beside it
LONGEST_STATE = 1 << 16  # bytes of it; its first line tells
EPSILON = 1e-12  # of all its norms
OBJECTS = "/.ATTRIBUTES/VARIABLE_VALUE"  # how names end where Keras has saved objects, of other names than these
FIELDS = (  # of `bert_config.json`, and `hidden_act`
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size"),
    "initializer_range",
)


def prefix_of(path: Path) -> Path | None:
    """Returns how the names of a checkpoint's files begin, by a folder, a file of it, or itself; None for none.

    Of a folder it is the one that its file `checkpoint` names, else the only one; raises `NoInput` where there are
    several.
    """
    if path.name == STATE and path.is_file():
        return prefix_of(path.parent)
    if not path.is_dir():
        prefix = path.with_name(re.sub(r"\.(index|meta|data-\d{5}-of-\d{5})$", "", path.name))
        return prefix if prefix.with_name(f"{prefix.name}.index").exists() else None
    prefixes = sorted(file.with_suffix("") for file in path.glob("*.index"))
    if (path / STATE).is_file():
        with (path / STATE).open("rb") as file:
            said = file.read(LONGEST_STATE).decode("utf-8", "replace")
        told = re.search(r'^model_checkpoint_path: "(?:.*/)?([^"/]+)"', said, re.MULTILINE)
        if told and path / told[1] not in prefixes:
            there = listed([*map(str, prefixes)]) or "none"
            raise NoInput(f"{path / STATE}: tells of {told[1]}, which is not there; there is {there}")
        if told:
            return path / told[1]
    if len(prefixes) > 1:
        raise NoInput(f"{path}: several checkpoints, name one of them: {', '.join(map(str, prefixes))}")
    return prefixes[0] if prefixes else None


def opened(prefix: Path) -> Tensors:
    """Returns a checkpoint's weights; raises `NoInput`, or `BadData` where it is damaged, or of other code."""
    entries = bundle.read_index(prefix)
    if any(name.endswith(OBJECTS) for name in entries):
        raise BadData("a checkpoint of Keras objects, not of Google's BERT of 2018", file=str(prefix))
    weights = [name for name in entries if not SLOTS.search(name)]
    google = {from_google(name): name for name in weights}
    if len(google) < len(weights):
        twice = [name for name in weights if google[from_google(name)] != name]
        raise BadData(f"tensors that come in two spellings: {listed(twice)}", file=str(prefix))

    def header(name: str) -> TensorHeader:
        entry = entries[name]
        return TensorHeader(entry.dtype, entry.shape[::-1] if name.endswith(TRANSPOSED) else entry.shape, entry.file)

    def read(name: str) -> Tensor:
        tensor = bundle.read(entries[google[name]])
        return tensor.T if google[name].endswith(TRANSPOSED) else tensor

    headers = {name: header(own) for name, own in google.items()}
    return Tensors.spelled(prefix, headers, read, beside={OPTIMIZERS: len(entries) - len(weights)})


def check_known(config: Config) -> None:
    """Raise `UsageError` for a model that Google's code would compute wrongly."""
    if config.bilstm or config.is_decoder:
        raise UsageError(f"Google's code has no {'BiLSTM' if config.bilstm else 'attention to the left alone'}")
    if config.layer_norm_eps != EPSILON:
        own = config.layer_norm_eps
        raise UsageError(f"Google's code has a layer_norm_eps of {EPSILON} alone, and the model one of {own}")


def save(path: Path, network: Network) -> None:
    """Write a network's weights, and the config that Google's code reads, into a folder. Raises `OSError`."""

    def turned(name: str, tensor: Tensor) -> tuple[str, Tensor]:
        google = googles(name)
        return google, tensor.T if google.endswith(TRANSPOSED) else tensor

    bundle.write(path / NAME, (turned(name, tensor) for name, tensor in named(network)))
    config = network.config
    # It has one GELU: by erf when the first checkpoints were made, by tanh since 2019.
    activation = "relu" if config.hidden_act == "relu" else "gelu"
    values = {name: getattr(config, name) for name in FIELDS}
    folder.write_json(path / CONFIG, {**values, "hidden_act": activation})

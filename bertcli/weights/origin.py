"""What `convert` reads: a model in any form, found, opened, and completed with what its files do not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bertcli import folder, headers, publish, target
from bertcli.errors import BadData, NoInput, UsageError, many
from bertcli.model.config import NAMED, OWN
from bertcli.model.config import architecture as class_named
from bertcli.weights import google, pickled, safetensors
from bertcli.weights.folder import ModelFolder, of_parts
from bertcli.weights.keys import BIASES, HEADS, POOLER, TIED, part_of
from bertcli.weights.tensors import Tensors, listed

AMBIGUOUS = ("BertForSequenceClassification",)  # whose tensors are those of other classes too
CONFIGS = ("config.json", google.CONFIG)
# Forms of other programs, and what they are called.
UNREAD = {
    "tf_model.h5": "Keras's HDF5",
    "flax_model.msgpack": "Flax's MessagePack",
    "model.onnx": "ONNX",
    "openvino_model.xml": "OpenVINO",
    "adapter_model.safetensors": "an adapter without its model",
    "adapter_model.bin": "an adapter without its model",
    "saved_model.pb": "TensorFlow's SavedModel",
}


def opened(
    path: Path,
    *,
    vocabulary: Path | None = None,
    config: Path | None = None,
    architecture: str | None = None,
    labels: Sequence[str] = (),
    without: Sequence[str] = (),
    **casing: bool | None,
) -> tuple[ModelFolder, list[str]]:
    """Returns a model of any form: a folder, a checkpoint by its prefix, or a file of tensors; and what was inferred.

    `vocabulary` and `config` are files, for those that are not beside the tensors; `architecture` is the transformers
    class, where the config names none, or another; `labels` are the names of a head's outputs; tensors that a pattern
    of `without` matches are left out. Raises `NoInput` naming what there is instead, `UsageError` for what does not go
    with the tensors, and `BadData`.
    """
    if told := target.lacking(path):
        raise NoInput(told)
    seen, home = publish.seen(path), path if path.is_dir() else path.parent
    tensors = _without(_tensors(path), without)
    if config and config.is_dir():
        config = next((config / name for name in CONFIGS if _has(config, name)), config)
    file = config or next((home / name for name in CONFIGS if _has(home, name)), None)
    if file is None:
        raise NoInput(f"{home}: no {' and no '.join(CONFIGS)}: --config names one")
    if vocabulary is None and not _has(home, "vocab.txt", "tokenizer.json"):
        raise NoInput(f"{home}: no vocab.txt and no tokenizer.json: --vocab names one")
    values = folder.read_json(file) | ({"architectures": [architecture]} if architecture else {})
    values, taken = _completed(values, str(file), tensors, labels)
    pieces = folder.vocabulary_file(vocabulary or home)
    return replace(of_parts(path, file, values, pieces, tensors, **casing), seen=seen), taken


def _tensors(path: Path) -> Tensors:
    if path.is_dir() and _has(path, headers.FILE, headers.INDEX):
        return safetensors.opened(path)
    if path.is_dir() and _has(path, pickled.FILE, pickled.INDEX):
        return pickled.opened(path)
    if prefix := google.prefix_of(path):
        return google.opened(prefix)
    if path.is_dir():
        other = next((f"; {name} is {kind}" for name, kind in UNREAD.items() if _has(path, name)), "")
        raise NoInput(f"{path}: no {headers.FILE}, {pickled.FILE} or TensorFlow checkpoint{other}")
    if not path.exists():
        raise NoInput(f"{path}: no such folder, file or TensorFlow checkpoint")
    if path.suffix == ".safetensors":
        return safetensors.opened(path)
    if path.suffix in pickled.ENDS:
        return pickled.opened(path)
    found, expected = UNREAD.get(path.name, "no file of tensors"), f".safetensors, {', '.join(pickled.ENDS)}"
    raise BadData(f"{found}; expected {expected}, or a TensorFlow checkpoint", file=str(path))


def _has(path: Path, *names: str) -> bool:
    return any((path / name).exists() for name in names)


def _without(tensors: Tensors, patterns: Sequence[str]) -> Tensors:
    """Returns tensors without those that a pattern matches; raises `UsageError` for one that matches none."""
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in tensors.headers):
            raise UsageError(f"--without {pattern}: {tensors.path} has none, but {listed([*tensors.headers], 4)}")
    out = {name for name in tensors.headers if any(fnmatchcase(name, pattern) for pattern in patterns)}
    kept = {name: header for name, header in tensors.headers.items() if name not in out}
    if BIASES in kept and (loose := out.intersection(TIED)):
        raise UsageError(f"--without {min(loose)}: it is not to be left out without the rest of its head")
    return replace(tensors, headers=kept, beside=tensors.beside + Counter({"--without": len(out)}))


# -- what the files do not say --------------------------------------------------------------------------------------


def _completed(
    values: dict[str, Any], file: str, tensors: Tensors, labels: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Returns a config with the class that the tensors are of and names for the outputs, and what was not in it."""
    taken, kind = [], class_named(values, file)
    is_own = values.get("model_type") == OWN or bool(values.get("is_decoder"))
    if kind is None and not is_own:
        kind = class_of(tensors)
        doubt = ", if it is no tagger and no choice: --architecture says" if kind in AMBIGUOUS else ""
        values, taken = {**values, "architectures": [kind]}, [f"{tensors.path}: {kind}, by its tensors{doubt}"]
    head = tensors.headers.get("classifier.weight")
    outputs = head.shape[0] if head and head.shape else 0
    if labels:
        if kind not in NAMED and not is_own:
            raise UsageError(f"--labels {','.join(labels)}: the outputs of {kind} have no names")
        if len(labels) != outputs:
            raise UsageError(f"--labels {','.join(labels)}: {tensors.path} has {many(outputs, 'output')}")
        values = {**values, "id2label": {str(number): name for number, name in enumerate(labels)}}
    elif kind in NAMED and outputs and not values.get("id2label") and "num_labels" not in values:
        values = {**values, "num_labels": outputs}
        taken += [f"{tensors.path}: LABEL_0 … for {many(outputs, 'output')} without names: --labels gives them"]
    return values, taken


def class_of(tensors: Tensors) -> str:
    """Returns the transformers class that has all the parts that there are tensors of."""
    parts = {part_of(name) for name in tensors.headers}
    has = {name for part, name in HEADS.items() if part in parts}
    if "classifier" in has:
        return "BertForSequenceClassification" if POOLER in parts else "BertForTokenClassification"
    if "span" in has:
        return "BertForQuestionAnswering"
    if "mlm" in has:
        return "BertForPreTraining" if "nsp" in has else "BertForMaskedLM"
    return "BertForNextSentencePrediction" if "nsp" in has else "BertModel"

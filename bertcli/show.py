"""What is in a model folder, a vocabulary or a stream, without torch and without its tensors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bertcli import folder, target
from bertcli.errors import NoInput, printable, shortened
from bertcli.headers import TensorHeader, elsewhere, tensor_headers
from bertcli.model.config import (
    FEATURES,
    OBJECTIVES,
    Config,
    FeatureConfig,
    architecture,
    features_from_json,
    from_json,
)
from bertcli.records import Record
from bertcli.stream import dumps
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.keys import COUNTED, HEADS, TIED, canonical, part_of

SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
TASKS = {  # the task of a transformers class, where no notes tell it
    "BertForSequenceClassification": "classification",
    "BertForTokenClassification": "tagging",
    "BertForQuestionAnswering": "span",
    "BertForMultipleChoice": "choice",
}
DEEPEST = 8  # objects within objects that are shown on lines of their own
MORE = ("hidden_act", "layer_norm_eps", "problem_type", "is_decoder", "bilstm", "layers")  # where there is any
JSON_NAMES = {str: "string", bool: "boolean", int: "number", float: "number", list: "list", dict: "object"}


def model(path: Path) -> dict[str, Any]:
    """Returns a folder's sizes, parameters by part, number types, vocabulary, labels, and how it was made.

    Raises `NoInput` or `BadData` naming the file that is missing or damaged.
    """
    if told := target.lacking(path):
        raise NoInput(told)
    file = path / "config.json"
    if not file.exists() and (other := elsewhere(path)):
        raise NoInput(f"{path}: no config.json{other}")
    values, notes = folder.read_json(file), folder.read_notes(path)
    has_bert, tensors = values.get("model_type") != FEATURES, tensor_headers(path)
    config = from_json(values, str(file)) if has_bert else features_from_json(values, str(file))
    kind = architecture(values, str(file))
    return {
        "kind": "model" if has_bert else "tagger on features",
        "architecture": kind,
        **_purpose(kind, config, notes),
        **{name: getattr(config, name) for name in SIZES if hasattr(config, name)},
        **{name: size for name in MORE if (size := getattr(config, name, 0))},
        **_tensors(tensors),
        **(_read_by(path, config) if isinstance(config, Config) else {}),
        "labels": list(config.labels),
        **({"unfinished": found} if (found := target.unfinished(path)) is not None else {}),
        **({"made_by": notes} if notes else {}),
    }


def _purpose(kind: str | None, config: Config | FeatureConfig, notes: dict[str, Any]) -> dict[str, Any]:
    """Returns what a model has learned before any task, or the task that it is for; nothing where no file says it."""
    if objective := next((name for name, own in OBJECTIVES.items() if own == kind), None):
        return {"objective": objective}
    is_number = kind == "BertForSequenceClassification" and len(config.labels) == 1
    task = notes.get("task") or ("regression" if is_number else TASKS.get(str(kind)))
    return {"task": task} if task else {}


def _tensors(tensors: dict[str, TensorHeader]) -> dict[str, Any]:
    """Returns the number of parameters of each part, and in all, and the types of their numbers.

    A part is of BERT or a head, by the names that we have for them; copies of tied tensors do not count.
    """
    parameters, own = Counter[str](), {canonical(name): header for name, header in tensors.items()}
    for name, header in own.items():
        is_copy = name in TIED and TIED[name] in own
        if not is_copy and not COUNTED.search(name):
            part = part_of(name) or "unknown"
            parameters[HEADS.get(part, part.removeprefix("bert."))] += header.size
    dtypes = sorted({header.dtype for name, header in own.items() if not COUNTED.search(name)})
    return {"parameters": {**parameters, "total": parameters.total()}, "dtypes": dtypes}


def _read_by(path: Path, config: Config) -> dict[str, Any]:
    length = folder.read_max_length(path) or config.max_position_embeddings
    return {"vocabulary": vocabulary(folder.vocabulary_file(path)), "max_length": length}


def vocabulary(path: Path) -> dict[str, Any]:
    """Returns the number of pieces of each sort, and the casing that texts get; raises as `WordPiece.open` does."""
    wordpiece, origin = WordPiece.open(path)
    pieces = wordpiece.pieces
    return {
        "kind": "vocabulary",
        "pieces": len(pieces),
        "continuations": sum(piece.startswith("##") for piece in pieces),
        "characters": sum(len(piece.removeprefix("##")) == 1 for piece in pieces),
        "unused": sum(piece.startswith("[unused") for piece in pieces),
        "longest": max(pieces, key=len),
        "casing": str(wordpiece.casing),
        "casing_from": origin,
    }


def stream(records: Iterable[Record]) -> dict[str, Any]:
    """Returns the number of records, and of each field how many have it and with values of which types."""
    count, fields, types, first = 0, Counter[str](), dict[str, set[str]](), None
    for record in records:
        first = record if count == 0 else first
        count += 1
        fields.update(record.keys())
        for name, value in record.items():
            types.setdefault(name, set()).add(JSON_NAMES.get(type(value), "null"))
    described = {name: {"in": number, "types": sorted(types[name])} for name, number in fields.items()}
    return {"kind": "stream", "records": count, "fields": described, "first": first}


def lines(value: Any, name: str = "", depth: int = 0) -> list[str]:
    """Returns a description as indented lines for people."""
    pad = "  " * (depth - 1)
    name = printable(name)
    if isinstance(value, dict) and value and depth < DEEPEST:
        head = [f"{pad}{name}:"] if name else []
        return head + [line for key, inner in value.items() for line in lines(inner, key, depth + 1)]
    text = f"{value:,}" if type(value) is int else value if isinstance(value, str) else dumps(value).decode()
    return [f"{pad}{name}: {printable(shortened(text, 200))}"]

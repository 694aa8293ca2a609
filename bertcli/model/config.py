"""The shape of a BERT, under the names of Hugging Face's `config.json`, and the paper's sizes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from bertcli.errors import BadData, UsageError

ACTIVATIONS = ("gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu")

# layers, width, heads; of Google's small models of 2020 those with names, and the paper's two (section 3)
PRESETS = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
HEAD = 64  # the width of a head in all of them
GOOGLES = tuple(f"{layers}x{width}" for layers in range(2, 13, 2) for width in (128, 256, 512, 768))  # all 24 of 2020
TABLE_6 = ("3x768", "6x768x3", "6x768", "12x768", "12x1024", "24x1024")  # the paper's sizes, in its order
SIZES = tuple(dict.fromkeys((*PRESETS, *GOOGLES, *TABLE_6)))


def shape(size: str) -> tuple[int, int, int]:
    """Returns the layers, the width and the heads of a preset, of `4x512`, or of `6x768x3` with heads of its own.

    Raises `UsageError` for anything else, and where the heads do not divide the width.
    """
    if size in PRESETS:
        return PRESETS[size]
    if not re.fullmatch("[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){1,2}", size):
        raise UsageError(f"found {size!r}, expected {', '.join(PRESETS)}, LAYERSxWIDTH or LAYERSxWIDTHxHEADS")
    layers, width, *heads = map(int, size.split("x"))
    if not heads and width % HEAD:
        expected = f"a multiple of {HEAD}, or {size}xHEADS"
        raise UsageError(f"found {size!r}, a width of {width} without heads; expected {expected}")
    count = heads[0] if heads else width // HEAD
    if width % count:
        raise UsageError(f"found {size!r}, {count} heads; expected a number that divides the width of {width}")
    return layers, width, count


@dataclass(frozen=True)
class Config:
    """Sizes, activation and dropout of the network, and the labels of its head in the order of their ids."""

    vocab_size: int
    num_hidden_layers: int = 12
    hidden_size: int = 768
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    classifier_dropout: float | None = None
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    problem_type: str | None = None  # what the labels of a text are: one of them, several, or a number's name
    is_decoder: bool = False  # transformers' word for attention to the left alone
    bilstm: int = 0  # units a direction of a BiLSTM between BERT and the head; 0: none
    labels: tuple[str, ...] = ()

    @property
    def head_width(self) -> int:
        """Returns the width of the vectors that a head reads."""
        return 2 * self.bilstm or self.hidden_size

    def with_dropout(self, share: float) -> Config:
        """Returns the same config with one dropout everywhere, as the paper has it."""
        return replace(self, hidden_dropout_prob=share, attention_probs_dropout_prob=share, classifier_dropout=None)

    def __post_init__(self) -> None:
        """Raise `UsageError` where the sizes do not go together."""
        if self.num_attention_heads < 1 or self.hidden_size % self.num_attention_heads:
            raise UsageError(
                f"a width of {self.hidden_size} does not divide into {self.num_attention_heads} attention heads"
            )


@dataclass(frozen=True)
class FeatureConfig:
    """Sizes and dropout of a BiLSTM on vectors that BERT has made once and for all, and the labels of its head."""

    hidden_size: int  # the width of a vector
    bilstm: int  # units a direction
    layers: int = 0  # that are kept apart, for weights to be learned; 0: one vector a word
    hidden_dropout_prob: float = 0.1
    classifier_dropout: float | None = None
    initializer_range: float = 0.02
    labels: tuple[str, ...] = ()

    @property
    def head_width(self) -> int:
        """Returns the width of the vectors that a head reads."""
        return 2 * self.bilstm


def of_size(layers: int, width: int, heads: int, **others: Any) -> Config:
    """Returns a config with the feed-forward four times as wide as the rest (paper, footnote 3)."""
    return Config(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        **others,
    )


# The `model_type` of a folder that holds no BERT, or one that transformers has no class for and would read wrongly.
FEATURES, OWN = "bertcli-features", "bertcli-bert"
UNSAID = ("problem_type", "is_decoder", "bilstm", "layers")  # where they are None or 0; others are looked for as null

# What may be learned before any task (section 5.1), and transformers' class for it.
OBJECTIVES = {"mlm+nsp": "BertForPreTraining", "mlm": "BertForMaskedLM", "ltr": "BertLMHeadModel"}
CAUSAL = (OBJECTIVES["ltr"], "BertModel")  # what reads from left to right: others read [CLS], which then sees nothing
NAMED = ("BertForSequenceClassification", "BertForTokenClassification")  # transformers classes whose outputs have names

LARGEST = 1 << 24  # of any size; weights of it are nobody's, and what the weights have is compared when they are opened
MOST_UNNAMED = 1 << 16  # labels: their number alone is not to fill the memory
# What a field of a type may hold in `config.json`.
VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (lambda value: type(value) is int and 0 < value <= LARGEST, f"a whole number from 1 to {LARGEST}"),
    "float": (lambda value: type(value) in (int, float) and 0 <= value <= 1, "a number from 0 to 1"),
    "str": (lambda value: type(value) is str, "a name"),
    "bool": (lambda value: type(value) is bool, "true or false"),
}


def from_json(values: dict[str, Any], file: str) -> Config:
    """Returns the config that a `config.json` holds; raises `BadData` naming the field that is not BERT's."""
    if (kind := values.get("model_type", "bert")) not in ("bert", OWN):
        raise BadData(file=file, field="model_type", found=kind, expected="bert")
    if (position := values.get("position_embedding_type", "absolute")) != "absolute":
        raise BadData(file=file, field="position_embedding_type", found=position, expected="absolute")
    if cross := values.get("add_cross_attention"):
        raise BadData(file=file, field="add_cross_attention", found=cross, expected="false: attention to itself alone")
    for name in ("pruned_heads", "quantization_config"):
        if values.get(name):
            raise BadData(file=file, field=name, found=values[name], expected="nothing: whole layers, of plain numbers")
    given = _given(Config, values, file)
    _check_direction(given, architecture(values, file), file)
    if (activation := given.get("hidden_act", "gelu")) not in ACTIVATIONS:
        raise BadData(file=file, field="hidden_act", found=activation, expected=" or ".join(ACTIVATIONS))
    try:
        return Config(**given, labels=_labels(values, file))
    except UsageError as error:
        raise BadData(str(error), file=file) from None


def features_from_json(values: dict[str, Any], file: str) -> FeatureConfig:
    """Returns the config of a tagger on vectors that a `config.json` holds; raises `BadData` naming the field."""
    return FeatureConfig(**_given(FeatureConfig, values, file), labels=_labels(values, file))


def _given(kind: type[Config] | type[FeatureConfig], values: dict[str, Any], file: str) -> dict[str, Any]:
    """Returns those fields of a config that are there; raises `BadData` where one is wrong, or is needed and lacks."""
    own = [field for field in fields(kind) if field.name != "labels"]
    given = {field.name: values[field.name] for field in own if values.get(field.name) is not None}
    for field in own:
        is_valid, expected = VALUES[str(field.type).removesuffix(" | None")]
        if not is_valid(given[field.name]) if field.name in given else field.default is MISSING:
            raise BadData(file=file, field=field.name, found=given.get(field.name), expected=expected)
    return given


def architecture(values: dict[str, Any], file: str) -> str | None:
    """Returns the transformers class that a `config.json` names, if it names one; raises `BadData`."""
    names = values.get("architectures") or []
    if type(names) is not list or not all(type(name) is str for name in names):
        raise BadData(file=file, field="architectures", found=names, expected="a list of names")
    return names[0] if names else None


def class_for(config: Config | FeatureConfig, kind: str | None) -> str | None:
    """Returns the transformers class `kind` where it reads such a network rightly: none of them has a BiLSTM."""
    is_foreign = isinstance(config, FeatureConfig) or config.bilstm or (config.is_decoder and kind not in CAUSAL)
    return None if is_foreign else kind


def is_own(config: Config, kind: str | None) -> bool:
    """Returns whether a folder of that config and class is of a network that transformers has no class for."""
    return bool(config.bilstm) or (config.is_decoder and kind is None)


def _check_direction(given: dict[str, Any], kind: str | None, file: str) -> None:
    """Raise `BadData` where a class does not go with the direction of attention: what predicts must not see ahead."""
    is_decoder = given.get("is_decoder", False)
    if is_decoder and kind not in (*CAUSAL, None):
        raise BadData(file=file, field="is_decoder", found=True, expected=f"false, as {kind} reads both sides")
    if kind == OBJECTIVES["ltr"] and not is_decoder:
        raise BadData(file=file, field="is_decoder", found=False, expected=f"true, as {kind} predicts the next token")


def _labels(values: dict[str, Any], file: str) -> tuple[str, ...]:
    names = values.get("id2label")
    if not names:  # transformers leaves the names out where they are the two that it gives by itself
        count = values.get("num_labels", 2)
        if type(count) is not int or not 0 < count <= MOST_UNNAMED:
            raise BadData(
                file=file, field="num_labels", found=count, expected=f"a whole number from 1 to {MOST_UNNAMED}"
            )
        return tuple(f"LABEL_{number}" for number in range(count)) if architecture(values, file) in NAMED else ()
    try:
        by_id = {int(number): str(name) for number, name in names.items()}
        labels = tuple(by_id[number] for number in range(len(names)))
    except (AttributeError, KeyError, ValueError):
        labels = ("", "")
    if len(set(labels)) < len(labels):
        raise BadData(file=file, field="id2label", found=names, expected="a name of its own for each id from 0")
    return labels


def to_json(config: Config | FeatureConfig, architecture: str | None, **others: Any) -> dict[str, Any]:
    """Returns what `config.json` holds; without an architecture no other program takes the folder for its own."""
    own = [field.name for field in fields(config) if field.name != "labels"]
    values = {name: value for name in own if (value := getattr(config, name)) or name not in UNSAID}
    head = {} if architecture is None else {"architectures": [architecture]}
    if config.labels:
        values["id2label"] = {str(number): name for number, name in enumerate(config.labels)}
        values["label2id"] = {name: number for number, name in enumerate(config.labels)}
    kind = "bert"
    if isinstance(config, FeatureConfig):
        kind = FEATURES
    elif is_own(config, architecture):
        kind = OWN
    return {**head, "model_type": kind, **values, "dtype": "float32", **others}

"""The shape of a network in `config.json`, and what is refused there."""

from __future__ import annotations

import json
from typing import Any

import models
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from bertcli.errors import BadData, UsageError
from bertcli.model.bert import Bert
from bertcli.model.config import GOOGLES, PRESETS, SIZES, TABLE_6, Config, from_json, of_size, shape, to_json

SMALL = {"vocab_size": 9, "hidden_size": 8, "num_attention_heads": 2}


def test_presets_are_the_papers_and_googles() -> None:
    base, large = (of_size(*PRESETS[name], vocab_size=30522) for name in ("base", "large"))
    assert (base.num_hidden_layers, base.hidden_size, base.num_attention_heads) == (12, 768, 12)
    assert (large.num_hidden_layers, large.hidden_size, large.num_attention_heads) == (24, 1024, 16)
    assert (base.intermediate_size, large.intermediate_size) == (3072, 4096)
    assert all(width == 64 * heads for _, width, heads in PRESETS.values())
    assert base == Config(vocab_size=30522)  # what an empty config.json means to transformers


def weights(network: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize("size", SIZES)
def test_a_size_has_as_many_weights_as_in_transformers(size: str) -> None:
    layers, width, heads = shape(size)
    with torch.device("meta"):
        own = Bert(of_size(layers, width, heads, vocab_size=30_522))
        options = {"num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads}
        other = models.transformers.BertModel(models.transformers.BertConfig(**options, intermediate_size=4 * width))
    assert weights(own) == weights(other)


def test_table_6() -> None:
    """PAPER's table of sizes, its weights computed with the pooler's and a vocabulary of 30,522 pieces."""
    with torch.device("meta"):
        counts = [weights(Bert(of_size(*shape(size), vocab_size=30_522))) for size in TABLE_6]
    assert counts == [45_691_392, 66_955_008, 66_955_008, 109_482_240, 183_987_200, 335_141_888]
    assert [shape(size)[2] for size in TABLE_6] == [12, 3, 12, 12, 16, 16]


def test_googles_small_models() -> None:
    assert len(GOOGLES) == 24
    assert {shape(size) for size in ("tiny", "mini", "small", "medium", "base")} <= {shape(size) for size in GOOGLES}


@given(*[some.integers(1, 99)] * 3)
def test_any_size_has_heads_of_64_or_as_many_as_are_given(layers: int, heads: int, head_width: int) -> None:
    assert shape(f"{layers}x{64 * heads}") == (layers, 64 * heads, heads)
    assert shape(f"{layers}x{head_width * heads}x{heads}") == (layers, head_width * heads, heads)


NO_SIZES = ["", "4", "4x", "4X512", "4x512x8x1", "-4x512", "4 x512", "0x512", "4x0", "4x512x0", "4x512.5", "\u0664x512"]
ALL = "tiny, mini, small, medium, base, large, LAYERSxWIDTH or LAYERSxWIDTHxHEADS"


@pytest.mark.parametrize(
    ("size", "said"),
    [
        *((size, f"found {size!r}, expected {ALL}") for size in (*NO_SIZES, "huge", "Tiny")),
        ("4x500", "found '4x500', a width of 500 without heads; expected a multiple of 64, or 4x500xHEADS"),
        ("4x512x7", "found '4x512x7', 7 heads; expected a number that divides the width of 512"),
    ],
)
def test_what_is_no_size_is_named(size: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        shape(size)
    assert str(caught.value) == said


def test_what_is_written_is_read_again() -> None:
    config = Config(**SMALL, labels=("no", "yes"), hidden_act="relu", layer_norm_eps=1e-5, classifier_dropout=0.3)
    values = json.loads(json.dumps(to_json(config, "BertForSequenceClassification")))
    assert from_json(values, "f") == config
    assert values["label2id"] == {"no": 0, "yes": 1}
    assert "architectures" not in to_json(config, None)


def test_one_dropout_everywhere() -> None:
    config = Config(**SMALL, classifier_dropout=0.7).with_dropout(0.2)
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.2, 0.2)
    assert config.classifier_dropout is None


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model_type": "roberta"}, "f: field 'model_type': found 'roberta', expected bert"),
        ({"position_embedding_type": "relative_key"}, "f: field 'position_embedding_type': found 'relative_key'"),
        ({"hidden_act": "swish"}, "f: field 'hidden_act': found 'swish', expected gelu or gelu_python or gelu_new"),
        ({"hidden_act": 3}, "f: field 'hidden_act': found 3, expected a name"),
        ({"vocab_size": None}, "f: field 'vocab_size': found nothing"),
        ({"vocab_size": "9"}, "f: field 'vocab_size': found '9', expected a whole number from 1"),
        ({"num_hidden_layers": 2.5}, "f: field 'num_hidden_layers': found 2.5, expected a whole number from 1"),
        ({"num_hidden_layers": True}, "f: field 'num_hidden_layers': found true"),
        ({"is_decoder": 1}, "f: field 'is_decoder': found 1, expected true or false"),
        (
            {"is_decoder": True, "architectures": ["BertForMaskedLM"]},
            "f: field 'is_decoder': found true, expected false, as BertForMaskedLM reads both sides",
        ),
        (
            {"architectures": ["BertLMHeadModel"]},
            "f: field 'is_decoder': found false, expected true, as BertLMHeadModel predicts the next token",
        ),
        ({"add_cross_attention": True}, "f: field 'add_cross_attention': found true, expected false"),
        ({"add_cross_attention": "no"}, "f: field 'add_cross_attention': found 'no', expected false"),
        ({"num_attention_heads": 0}, "f: field 'num_attention_heads': found 0"),
        ({"num_attention_heads": 3}, "f: a width of 8 does not divide into 3 attention heads"),
        ({"hidden_dropout_prob": -0.1}, "f: field 'hidden_dropout_prob': found -0.1, expected a number from 0"),
        (
            {"id2label": {"0": "a", "2": "b"}},
            "f: field 'id2label': found an object, expected a name of its own for each id",
        ),
        ({"id2label": ["a", "b"]}, "f: field 'id2label': found a list"),
    ],
)
def test_what_is_not_a_bert_is_named(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        from_json(SMALL | changed, "f")
    assert str(caught.value).startswith(said)


def test_sizes_that_do_not_go_together_are_wrong_usage() -> None:
    with pytest.raises(UsageError, match="a width of 100 does not divide into 3 attention heads"):
        of_size(2, 100, 3, vocab_size=9)


def test_labels_are_those_of_the_config_or_the_two_that_transformers_leaves_out() -> None:
    head = {"architectures": ["BertForSequenceClassification"]}
    assert from_json(SMALL | head, "f").labels == ("LABEL_0", "LABEL_1")
    assert from_json(SMALL, "f").labels == ()
    assert from_json(SMALL | head | {"id2label": {"1": "b", "0": "a"}}, "f").labels == ("a", "b")

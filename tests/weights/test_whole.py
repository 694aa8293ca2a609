"""What a folder holds beside its task's network comes along; what has no place is named, and never lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import models
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertcli.commands.convert import network_of
from bertcli.errors import BadData
from bertcli.headers import FILE
from bertcli.model.heads import Network
from bertcli.weights.folder import open_folder
from bertcli.weights.safetensors import save
from bertcli.weights.whole import contents

Tensors = dict[str, Tensor]


def read(
    path: Path, kind: str, change: Callable[[Tensors], Tensors] = dict, architecture: str | None = None
) -> Network:
    """Returns the whole network of a folder of transformers, its tensors changed, or the class that it names."""
    models.save(models.theirs(kind, num_labels=2 if "Question" in kind else 3), path)
    save_file(change(load_file(path / FILE)), path / FILE, metadata={"format": "pt"})
    config = json.loads((path / "config.json").read_text())
    if architecture is not None:
        config["architectures"] = [architecture] if architecture else None
        (path / "config.json").write_text(json.dumps(config))
    return network_of(open_folder(path))[0]


@pytest.mark.parametrize(
    ("kind", "architecture", "said"),
    [
        ("BertForPreTraining", None, "pooler, mlm, nsp"),
        ("BertForPreTraining", "BertForMaskedLM", "pooler, mlm, nsp"),  # as bert-base-uncased is on the hub
        ("BertForPreTraining", "", "pooler, mlm, nsp"),  # as all folders were in 2018
        ("BertForMaskedLM", "", "mlm"),
        ("BertForSequenceClassification", "", "pooler, classifier"),
        ("BertForSequenceClassification", None, "pooler, classifier"),
        ("BertForTokenClassification", None, "classifier"),
        ("BertForQuestionAnswering", "", "span"),
        ("BertForMultipleChoice", None, "pooler, classifier"),
        ("BertModel", None, "pooler"),
    ],
)
def test_all_that_is_there_comes_along(tmp_path: Path, kind: str, architecture: str | None, said: str) -> None:
    network = read(tmp_path, kind, architecture=architecture)
    assert contents(network).split(": BERT, ")[1] == said
    before = load_file(tmp_path / FILE)
    save(tmp_path, network)
    after = load_file(tmp_path / FILE)
    if kind == "BertModel":
        before = {f"bert.{name}": tensor for name, tensor in before.items()}
    assert after.keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in after.items())


def test_a_pooler_that_a_task_does_not_need_stays(tmp_path: Path) -> None:
    pooler = {"bert.pooler.dense.weight": torch.ones(32, 32), "bert.pooler.dense.bias": torch.ones(32)}
    network = read(tmp_path, "BertForQuestionAnswering", lambda found: found | pooler)
    assert contents(network).endswith(": BERT, pooler, span")
    assert network.bert.pooler is not None
    assert torch.equal(network.bert.pooler.weight, pooler["bert.pooler.dense.weight"])


def test_what_is_counted_up_or_a_copy_is_no_tensor_of_its_own(tmp_path: Path) -> None:
    def old(found: Tensors) -> Tensors:
        return found | {
            "bert.embeddings.position_ids": torch.arange(64)[None],
            "cls.predictions.decoder.weight": found["bert.embeddings.word_embeddings.weight"].clone(),
            "cls.predictions.decoder.bias": found["cls.predictions.bias"].clone(),
        }

    assert contents(read(tmp_path, "BertForMaskedLM", old)).endswith(": BERT, mlm")


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (
            "BertModel",
            lambda found: found | {"lora.a": torch.ones(1), "b": torch.ones(1)},
            "no place in a BERT: b, lor",
        ),
        (
            "BertModel",
            lambda found: found | {"encoder.layer.0.adapter.weight": torch.ones(1)},
            "no place in a BERT: bert.encoder.layer.0.adapter.weight",
        ),
        (
            "BertForTokenClassification",
            lambda found: found | {"module.classifier.bias": torch.ones(3)},
            "come in two spellings: classifier.bias",
        ),
        (
            "BertModel",
            lambda found: found | {"cls.predictions.bias": torch.ones(len(models.PIECES))},
            "weights are missing: cls.predictions.transform.dense.weight",
        ),
        ("BertModel", lambda found: found | {"classifier.bias": torch.ones(3)}, "missing: classifier.weight"),
        ("BertModel", lambda found: found | {"classifier.weight": torch.ones(())}, "missing: classifier.bias"),
        (
            "BertForMaskedLM",
            lambda found: found | {"bert.pooler.dense.bias": torch.ones(32)},
            "missing: bert.pooler.dense.weight",
        ),
    ],
)
def test_what_has_no_place_or_is_half_there(
    tmp_path: Path, kind: str, change: Callable[[Tensors], Tensors], said: str
) -> None:
    with pytest.raises(BadData, match=said):
        read(tmp_path, kind, change)

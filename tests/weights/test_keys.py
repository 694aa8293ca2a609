"""The table of names: each of our tensors is one of transformers', and none is left over."""

from __future__ import annotations

from collections import Counter
from typing import Any

import models
import pytest

from bertcli.tasks.classification import Classification
from bertcli.tasks.embedding import Embedding, parse_layers
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build
from bertcli.weights.keys import TIED, canonical, theirs

WORDPIECE = models.wordpiece()
NETWORKS = [
    ("BertForPreTraining", Pretraining(WORDPIECE, 64)),
    ("BertForMaskedLM", Pretraining(WORDPIECE, 64, objective="mlm")),
    ("BertLMHeadModel", Pretraining(WORDPIECE, 64, objective="ltr")),
    ("BertForSequenceClassification", Classification(WORDPIECE, 64, ["a", "b", "c"])),
    ("BertModel", Embedding(WORDPIECE, 64, parse_layers("last", 12))),
]


@pytest.mark.parametrize(("kind", "task"), NETWORKS, ids=[kind for kind, _ in NETWORKS])
def test_names_are_two_way(kind: str, task: Any) -> None:
    config = models.config(layers=12, width=8, heads=2, labels=("a", "b", "c"))
    network = build(task, config)
    model = models.theirs(kind, 12, 8, 2, num_labels=3, intermediate_size=32)
    shapes = {canonical(name): tensor.shape for name, tensor in model.state_dict().items()}
    shapes = {name: shape for name, shape in shapes.items() if name not in TIED and "position_ids" not in name}
    if not task.pooler:
        shapes = {name: shape for name, shape in shapes.items() if "pooler" not in name}
    named = [name for ours in network.state_dict() for name in theirs(ours)]
    assert Counter(named) == Counter(list(shapes))  # none is missing, none comes twice
    for ours, tensor in network.state_dict().items():
        parts = [shapes[name] for name in theirs(ours)]
        assert sum(part[0] for part in parts) == tensor.shape[0]
        assert all(part[1:] == tensor.shape[1:] for part in parts)


@pytest.mark.parametrize(
    ("spelled", "name"),
    [
        ("module.bert.pooler.dense.bias", "bert.pooler.dense.bias"),
        ("encoder.layer.3.output.dense.weight", "bert.encoder.layer.3.output.dense.weight"),
        ("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"),
        ("cls.predictions.transform.LayerNorm.beta", "cls.predictions.transform.LayerNorm.bias"),
        ("classifier.weight", "classifier.weight"),
    ],
)
def test_other_spellings(spelled: str, name: str) -> None:
    assert canonical(spelled) == name

"""The network computes what transformers computes, in fp32 within 1e-5, however sequences are batched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import models
import pytest
import torch

from bertcli.model.config import OBJECTIVES, from_json
from bertcli.model.heads import Network
from bertcli.tasks.classification import Classification
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Batch, build, scores
from bertcli.weights.folder import open_folder

LENGTHS = [7, 1, 33, 16, 2, 17, 48, 16, 32, 5]
SHAPES = {
    "head width 8": {"width": 32, "heads": 4, "hidden_act": "gelu_python"},
    "head width 64": {"width": 64, "heads": 1, "hidden_act": "gelu_new"},
    "head width 256": {"width": 512, "heads": 2, "layers": 1, "hidden_act": "gelu_fast"},
    "odd sizes": {"width": 21, "heads": 3, "layers": 3, "intermediate_size": 37, "hidden_act": "relu"},
    "other epsilon": {"width": 24, "heads": 2, "layer_norm_eps": 1e-5, "hidden_act": "gelu_pytorch_tanh"},
}


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


def encoder(path: Path, pooler: bool = True) -> Network:
    network = Network(open_folder(path).config, {}, pooler=pooler)
    models.load(path, network)
    return network.eval()


@torch.no_grad()
def same_states(network: Network, model: Any, ids: list[list[int]], borders: list[Any]) -> None:
    batch = models.packed(ids, borders)
    states = network.bert.hidden_states(batch)
    pooled = network.bert.pool(states[-1], batch)
    torch.testing.assert_close(network.bert(batch), states[-1], atol=0, rtol=0)
    for number, (sequence, border) in enumerate(zip(ids, borders, strict=True)):
        theirs = model(**models.alone(sequence, border), output_hidden_states=True)
        place = slice(batch.boundaries[number], batch.boundaries[number + 1])
        assert len(states) == len(theirs.hidden_states)
        for ours, hidden in zip(states, theirs.hidden_states, strict=True):
            close(ours[place], hidden[0])
        close(pooled[number], theirs.pooler_output[0])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_layer_and_the_pooler(tmp_path: Path, shape: dict[str, Any]) -> None:
    model = models.theirs("BertModel", **shape)
    network = encoder(models.save(model, tmp_path / "model"))
    ids, borders = models.sequences(LENGTHS)
    same_states(network, model, ids, borders)
    for sequence, border in zip(ids[:3], borders[:3], strict=True):
        same_states(network, model, [sequence], [border])


def test_every_layer_and_the_pooler_of_a_real_model() -> None:
    path = models.minilm()
    model = models.transformers.BertModel.from_pretrained(path).eval()
    network = encoder(path)
    ids, borders = models.sequences([128, 3, 17, 64, 16, 256, 512], pieces=model.config.vocab_size)
    same_states(network, model, ids, borders)
    same_states(network, model, ids[2:3], borders[2:3])


@torch.no_grad()
def test_a_sequence_does_not_depend_on_its_batch(tmp_path: Path) -> None:
    network = encoder(models.save(models.theirs("BertModel"), tmp_path / "model"))
    ids, borders = models.sequences([9, 9, 10, 30, 2, 64])
    whole = network.bert(models.packed(ids, borders)).split([len(sequence) for sequence in ids])
    for order in ([5, 4, 3, 2, 1, 0], [0, 2], [3, 3, 1], [4]):
        part = network.bert(models.packed([ids[i] for i in order], [borders[i] for i in order]))
        for ours, index in zip(part.split([len(ids[i]) for i in order]), order, strict=True):
            torch.testing.assert_close(ours, whole[index], atol=2e-6, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_pretraining_logits(tmp_path: Path, objective: str, shape: dict[str, Any]) -> None:
    model = models.theirs(OBJECTIVES[objective], **shape, is_decoder=objective == "ltr")
    folder = open_folder(models.save(model, tmp_path / "model"))
    task = Pretraining(folder.wordpiece, 64, objective=objective, training=False)
    network = build(task, folder.config)
    assert models.load(folder.path, network) == []
    ids, borders = models.sequences(LENGTHS)
    batch = models.packed(ids, borders)
    everywhere = Batch(batch, {"positions": torch.arange(len(batch.ids))}, {})
    masked, classes = task.hidden(network.eval(), everywhere)
    pieces = task.logits(network, masked)
    assert (classes is None) == (objective != "mlm+nsp")
    for number, (sequence, border) in enumerate(zip(ids, borders, strict=True)):
        theirs = model(**models.alone(sequence, border))
        place = slice(batch.boundaries[number], batch.boundaries[number + 1])
        close(pieces[place], (theirs.logits if classes is None else theirs.prediction_logits)[0])
        if classes is not None:
            close(classes[number], theirs.seq_relationship_logits[0])


@torch.no_grad()
@pytest.mark.parametrize("labels", [2, 3])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_classification_logits(tmp_path: Path, labels: int, shape: dict[str, Any]) -> None:
    model = models.theirs("BertForSequenceClassification", num_labels=labels, **shape)
    folder = open_folder(models.save(model, tmp_path / "model"))
    assert folder.config.labels == tuple(f"LABEL_{number}" for number in range(labels))
    task = Classification(folder.wordpiece, 64, folder.config.labels)
    network = build(task, folder.config)
    assert models.load(folder.path, network) == []
    ids, borders = models.sequences(LENGTHS)
    logits = scores(network.eval(), Batch(models.packed(ids, borders), {}, {}))
    for ours, sequence, border in zip(logits, ids, borders, strict=True):
        close(ours, model(**models.alone(sequence, border)).logits[0])


@torch.no_grad()
def test_one_segment_is_enough(tmp_path: Path) -> None:
    model = models.theirs("BertModel", type_vocab_size=1)
    network = encoder(models.save(model, tmp_path / "model"))
    ids, _ = models.sequences([5, 20])
    same_states(network, model, ids, [None, None])


def test_gradients_are_those_of_transformers(tmp_path: Path) -> None:
    model = models.theirs("BertModel")
    network = encoder(models.save(model, tmp_path / "model"))
    ids, borders = models.sequences(LENGTHS)
    batch = models.packed(ids, borders)
    weight = torch.randn(32, generator=torch.Generator().manual_seed(1))
    (network.bert.pool(network.bert(batch), batch) @ weight).sum().backward()
    for sequence, border in zip(ids, borders, strict=True):
        (model(**models.alone(sequence, border)).pooler_output @ weight).sum().backward()
    theirs = dict(model.named_parameters())
    torch.testing.assert_close(
        network.bert.embeddings.word.weight.grad, theirs["embeddings.word_embeddings.weight"].grad, atol=1e-4, rtol=1e-4
    )
    qkv = [theirs[f"encoder.layer.0.attention.self.{name}.weight"].grad for name in ("query", "key", "value")]
    torch.testing.assert_close(network.bert.layers[0].qkv.weight.grad, torch.cat(qkv), atol=1e-4, rtol=1e-4)


def test_dropout_falls_in_training_alone(tmp_path: Path) -> None:
    path = models.save(models.theirs("BertModel"), tmp_path / "model")
    network = Network(from_json(models.json.loads((path / "config.json").read_text()), "").with_dropout(0.5), {})
    models.load(path, network)
    ids, borders = models.sequences([20, 8])
    batch = models.packed(ids, borders)
    still = network.eval().bert(batch)
    assert torch.equal(network.bert(batch), still)
    network.train()
    assert not torch.allclose(network.bert(batch), still, atol=0.1)

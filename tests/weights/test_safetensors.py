"""Model folders: transformers reads ours, we read its, and a weight that lacks is named."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from program import environment
from safetensors.torch import load_file, save_file

from bertcli.errors import BadData, BertcliError, NoInput, UsageError
from bertcli.headers import FILE, INDEX
from bertcli.model.config import OBJECTIVES
from bertcli.tasks.classification import Classification
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Batch, build, scores
from bertcli.weights.folder import fingerprint, open_folder, save_folder

IDS, BORDERS = models.sequences([7, 20, 3, 64])


def pretrained(path: Path, objective: str = "mlm+nsp") -> tuple[Any, Any]:
    task = Pretraining(models.wordpiece(), 64, objective=objective)
    config = models.config(initializer_range=0.2, is_decoder=objective == "ltr")
    network = build(task, config, seed=5).eval()
    save_folder(path, network, task.architecture, task.wordpiece, 64, {"task": task.name})
    return task, network


def reopened(path: Path, kind: str) -> Any:
    model, info = getattr(models.transformers, kind).from_pretrained(path, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_transformers_reads_a_pretrained_folder_to_the_same_logits(tmp_path: Path, objective: str) -> None:
    task, network = pretrained(tmp_path, objective)
    model = reopened(tmp_path, OBJECTIVES[objective])
    for ids, border in zip(IDS, BORDERS, strict=True):
        batch = Batch(models.packed([ids], [border]), {"positions": torch.arange(len(ids))}, {})
        masked, classes = task.hidden(network, batch)
        pieces = task.logits(network, masked)
        theirs = model(**models.alone(ids, border))
        logits = theirs.logits if classes is None else theirs.prediction_logits
        torch.testing.assert_close(pieces, logits[0], atol=1e-5, rtol=0)
        if classes is not None:
            torch.testing.assert_close(classes, theirs.seq_relationship_logits, atol=1e-5, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("labels", [("no", "yes"), ("LABEL_0", "LABEL_1"), ("a", "b", "c")])
def test_transformers_reads_a_classifier_to_the_same_logits(tmp_path: Path, labels: tuple[str, ...]) -> None:
    task = Classification(models.wordpiece(), 64, labels)
    network = build(task, models.config(initializer_range=0.2, labels=labels)).eval()
    save_folder(tmp_path, network, task.architecture, task.wordpiece, 64, {})
    model = reopened(tmp_path, "BertForSequenceClassification")
    assert model.config.id2label == dict(enumerate(labels))
    logits = scores(network, Batch(models.packed(IDS, BORDERS), {}, {}))
    for ours, ids, border in zip(logits, IDS, BORDERS, strict=True):
        torch.testing.assert_close(ours, model(**models.alone(ids, border)).logits[0], atol=1e-5, rtol=0)


def test_what_is_saved_is_read_again_bit_for_bit(tmp_path: Path) -> None:
    task, network = pretrained(tmp_path)
    folder = open_folder(tmp_path)
    assert (folder.config, folder.architecture, folder.max_length) == (network.config, "BertForPreTraining", 64)
    assert folder.notes == {"task": "pretraining"}
    again = build(task, folder.config, seed=9)
    assert models.load(tmp_path, again) == []
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in network.state_dict().items())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["bertcli.json", "config.json", FILE, "tokenizer.json", "tokenizer_config.json", "vocab.txt"]
    )


def test_tied_weights_are_saved_once_in_float32_for_pytorch(tmp_path: Path) -> None:
    _, network = pretrained(tmp_path)
    tensors = load_file(tmp_path / FILE)
    assert not [name for name in tensors if "decoder" in name]
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert sum(tensor.numel() for tensor in tensors.values()) == sum(p.numel() for p in network.parameters())
    from safetensors import safe_open

    assert safe_open(tmp_path / FILE, framework="pt").metadata() == {"format": "pt"}


# -- what transformers saves ----------------------------------------------------------------------------------------


def same_as(path: Path, model: Any) -> None:
    folder = open_folder(path)
    assert folder.wordpiece.pieces == models.PIECES
    network = build(Pretraining(folder.wordpiece, 64), folder.config)
    assert models.load(path, network) == []
    theirs = model.state_dict()
    assert torch.equal(network.bert.embeddings.word.weight, theirs["bert.embeddings.word_embeddings.weight"].float())
    query = theirs["bert.encoder.layer.1.attention.self.query.weight"].float()
    assert torch.equal(network.bert.layers[1].qkv.weight[:32], query)
    assert torch.equal(network.heads["mlm"].bias, theirs["cls.predictions.bias"].float())


def test_a_folder_of_todays_transformers_sharded(tmp_path: Path) -> None:
    model = models.theirs("BertForPreTraining")
    path = models.save(model, tmp_path / "model", max_shard_size="20KB")
    assert (path / INDEX).exists()
    assert len(list(path.glob("*.safetensors"))) > 2
    same_as(path, model)
    next(path.glob("*.safetensors")).unlink()
    with pytest.raises(NoInput, match=r"model-0000\d-of-\d+.safetensors: No such file"):
        models.load(path, build(Pretraining(models.wordpiece(), 64), open_folder(path).config))


def test_a_shard_outside_the_folder_is_refused(tmp_path: Path) -> None:
    path = models.save(models.theirs("BertForPreTraining"), tmp_path / "model", max_shard_size="20KB")
    index = json.loads((path / INDEX).read_text())
    index["weight_map"]["bert.pooler.dense.bias"] = "../other.safetensors"
    (path / INDEX).write_text(json.dumps(index))
    with pytest.raises(BadData, match="field 'weight_map'"):
        models.load(path, build(Pretraining(models.wordpiece(), 64), open_folder(path).config))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_to_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    model = models.theirs("BertForPreTraining").to(dtype)
    same_as(models.save(model, tmp_path / "model"), model)


def rewritten(tmp_path: Path, change: Any, kind: str = "BertForPreTraining") -> tuple[Path, Any]:
    """Returns a folder whose tensors were changed, and a fresh network of its size."""
    path = models.save(models.theirs(kind), tmp_path / "model")
    tensors = load_file(path / FILE)
    save_file(change(tensors), path / FILE, metadata={"format": "pt"})
    return path, build(Pretraining(models.wordpiece(), 64), open_folder(path).config)


def test_old_spellings_and_copies_are_read(tmp_path: Path) -> None:
    def old(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        def spelled(name: str) -> str:
            return "module." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
                "LayerNorm.bias", "LayerNorm.beta"
            )

        bias = tensors.pop("cls.predictions.bias")
        words = tensors["bert.embeddings.word_embeddings.weight"]
        return {spelled(name): tensor for name, tensor in tensors.items()} | {
            "cls.predictions.decoder.bias": bias,
            "cls.predictions.decoder.weight": words.clone(),
            "bert.embeddings.position_ids": torch.arange(64)[None],
        }

    path, _ = rewritten(tmp_path, old)
    same_as(path, models.theirs("BertForPreTraining"))


def test_an_untied_decoder_is_refused_where_it_would_be_used(tmp_path: Path) -> None:
    path, network = rewritten(
        tmp_path, lambda found: found | {"cls.predictions.decoder.weight": torch.zeros(len(models.PIECES), 32)}
    )
    with pytest.raises(BadData, match=r"cls.predictions.decoder.weight is not the same as .*: an untied model"):
        models.load(path, network)
    task = Classification(models.wordpiece(), 64, "ab")
    assert models.load(path, build(task, models.config(labels=("a", "b"))), new_head=True) == [
        "heads.classifier.output.weight",
        "heads.classifier.output.bias",
    ]


def without(*parts: str) -> Any:
    return lambda tensors: {name: t for name, t in tensors.items() if not any(part in name for part in parts)}


def test_missing_tensors_are_all_listed(tmp_path: Path) -> None:
    path, network = rewritten(tmp_path, without("layer.1.attention.self.key", "position_embeddings"))
    with pytest.raises(BadData) as caught:
        models.load(path, network, new_head=True)
    assert str(path) in str(caught.value)
    for name in ("bert.embeddings.position_embeddings.weight", "bert.encoder.layer.1.attention.self.key.bias"):
        assert name in str(caught.value)
    assert "layer.0" not in str(caught.value)


def test_only_a_new_head_and_its_pooler_may_be_fresh(tmp_path: Path) -> None:
    path, network = rewritten(tmp_path, without("cls.seq_relationship", "pooler"))
    with pytest.raises(BadData, match=r"missing: bert.pooler.dense.weight, bert.pooler.dense.bias, cls.seq_relation"):
        models.load(path, network)
    before = network.bert.pooler.weight.clone()
    assert models.load(path, network, new_head=True) == [
        "bert.pooler.weight",
        "bert.pooler.bias",
        "heads.nsp.weight",
        "heads.nsp.bias",
    ]
    assert torch.equal(network.bert.pooler.weight, before)


def test_a_head_that_is_there_can_be_left(tmp_path: Path) -> None:
    path, network = rewritten(tmp_path, lambda tensors: tensors)
    before = network.heads["nsp"].weight.clone()
    fresh = models.load(path, network, new_head=True, keep_head=False)
    assert {name.split(".")[0] for name in fresh} == {"heads"}
    assert torch.equal(network.heads["nsp"].weight, before)


def test_a_tensor_of_another_shape(tmp_path: Path) -> None:
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    path, network = rewritten(tmp_path, lambda tensors: tensors | {name: torch.zeros(100, 32)})
    with pytest.raises(BadData) as caught:
        models.load(path, network)
    assert str(caught.value) == f"{path}: {name}: found [100, 32], the config asks for [128, 32]"


def test_layers_that_the_config_does_not_have(tmp_path: Path) -> None:
    path, _ = rewritten(tmp_path, lambda tensors: tensors)
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 1}))
    with pytest.raises(BadData, match=r"layers from 1 on: the config has 1 layers only"):
        models.load(path, build(Pretraining(models.wordpiece(), 64), open_folder(path).config))


@pytest.mark.parametrize("kept", [0, 4, 100, 20_000])
def test_a_truncated_file(tmp_path: Path, kept: int) -> None:
    path, network = rewritten(tmp_path, lambda tensors: tensors)
    (path / FILE).write_bytes((path / FILE).read_bytes()[:kept])
    with pytest.raises(BadData, match=rf"{FILE}: not a whole safetensors file"):
        models.load(path, network)


def test_a_folder_without_weights_config_or_vocabulary(tmp_path: Path) -> None:
    with pytest.raises(NoInput, match=r"config.json: No such file"):
        open_folder(tmp_path)
    path, network = rewritten(tmp_path, lambda tensors: tensors)
    (path / FILE).unlink()
    with pytest.raises(NoInput, match=f"no {FILE}"):
        models.load(path, network)
    (path / "tokenizer.json").unlink()
    with pytest.raises(NoInput, match=r"no vocab.txt and no tokenizer.json"):
        open_folder(path)


def test_more_pieces_than_rows(tmp_path: Path) -> None:
    pretrained(tmp_path)
    with (tmp_path / "vocab.txt").open("a") as file:
        file.write("more\n")
    with pytest.raises(BadData, match=rf"{len(models.PIECES) + 1} pieces, but the config has vocab_size"):
        open_folder(tmp_path)


def test_the_length_of_a_folders_sequences(tmp_path: Path) -> None:
    pretrained(tmp_path)
    folder = open_folder(tmp_path)
    assert [folder.length(asked) for asked in (None, 8, 64)] == [64, 8, 64]
    assert [folder.length(None, usual=usual) for usual in (32, 128)] == [32, 64]
    with pytest.raises(UsageError, match=r"--max-length 65: .* has 64 positions"):
        folder.length(65)


def test_a_disk_that_fills_leaves_the_old_weights(tmp_path: Path) -> None:
    pretrained(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    code = f"""
import sys; sys.path.insert(0, {str(Path(models.__file__).parent)!r})
import resource, signal, models
from pathlib import Path
from bertcli.errors import IOFailed
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build, scores
from bertcli.weights.folder import save_folder
task = Pretraining(models.wordpiece(), 64)
network = build(task, models.config(), seed=8)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    save_folder(Path({str(tmp_path)!r}), network, task.architecture, task.wordpiece, 64, {{}})
except IOFailed as error:
    print(error)"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment(), check=False)
    assert done.stderr == b""
    assert done.stdout.startswith(f"{tmp_path}: {FILE}: ".encode())
    assert (tmp_path / FILE).read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_real_model_is_read() -> None:
    path = models.minilm()
    folder = open_folder(path)
    assert (len(folder.wordpiece.pieces), folder.architecture) == (30522, "BertModel")
    network = build(Classification(folder.wordpiece, 128, "ab"), replace(folder.config, labels=("a", "b")))
    with pytest.raises(BertcliError, match=r"missing: classifier.weight"):
        models.load(path, network)


def test_a_fingerprint_is_that_of_the_encoder_however_it_is_saved(tmp_path: Path) -> None:
    model = models.theirs("BertForPreTraining")
    known = fingerprint(models.save(model, tmp_path / "whole"))
    assert known == fingerprint(models.save(model, tmp_path / "sharded", max_shard_size="20KB"))
    assert (tmp_path / "sharded" / INDEX).exists()
    assert known == fingerprint(models.save(model.bert, tmp_path / "bare"))
    tagger = models.transformers.BertForTokenClassification.from_pretrained(tmp_path / "whole")
    assert known == fingerprint(models.save(tagger, tmp_path / "tagger"))
    with torch.no_grad():
        model.bert.encoder.layer[1].output.dense.bias[3] += 1e-3
    assert known != fingerprint(models.save(model, tmp_path / "trained"))

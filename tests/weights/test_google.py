"""Google's checkpoints: TensorFlow's own numbers from TensorFlow's own files, and the way back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from program import ROOT
from torch import Tensor

from bertcli.commands.convert import network_of
from bertcli.errors import BadData, NoInput, UsageError
from bertcli.model.heads import Network
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Batch, build
from bertcli.weights import google, origin
from bertcli.weights.keys import from_google, googles
from bertcli.weights.tensorflow import bundle
from bertcli.weights.tensors import Account, named

GOLDEN = ROOT / "tests" / "golden" / "tensorflow"
Case = dict[str, Any]


def golden(name: str) -> tuple[Network, Account, list[Case]]:
    """Returns one of TensorFlow's models, and inputs with the outputs that TensorFlow has computed."""
    network, account = network_of(origin.opened(GOLDEN / name)[0])
    return network.eval(), account, json.loads((GOLDEN / name / "logits.json").read_text())


def batch(case: Case) -> Batch:
    segments = torch.tensor(case["segments"])
    return Batch(models.packed([case["ids"]], [int((segments == 0).sum())]), {}, {})


def same(found: Tensor, expected: Any) -> None:
    torch.testing.assert_close(found, torch.tensor(expected), atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_classifier_with_an_optimizers_state() -> None:
    network, account, cases = golden("classifier")
    assert (account.used, dict(account.left)) == (41, {"an optimizer's state": 83})
    for case in cases:
        same(network.heads["classifier"](network.pooled(batch(case).packed))[0], case["logits"])


@torch.no_grad()
def test_a_pretrained_model_in_two_files() -> None:
    network, account, cases = golden("pretraining")
    assert (account.used, account.left.total()) == (46, 0)
    assert network.config.hidden_act == "gelu_new"
    task = Pretraining(models.wordpiece(), 32)
    for case in cases:
        own = batch(case)
        own.targets["positions"] = torch.tensor(case["positions"])
        hidden, classes = task.hidden(network, own)
        same(task.logits(network, hidden), case["mlm"])
        assert classes is not None
        same(classes[0], case["nsp"])


@torch.no_grad()
def test_a_reader_of_answers() -> None:
    network, account, cases = golden("squad")
    assert (account.used, account.left.total()) == (41, 0)
    for case in cases:
        start, end = network.heads["span"](network.hidden(batch(case).packed)).unbind(1)
        same(start, case["start"])
        same(end, case["end"])


def test_fixtures_are_small() -> None:
    assert sum(file.stat().st_size for file in GOLDEN.rglob("*") if "__pycache__" not in file.parts) < 200_000


# -- names ----------------------------------------------------------------------------------------------------------


def everything() -> Network:
    """Returns a network with all the heads that Google's code has."""
    network = build(Pretraining(models.wordpiece(), 64), models.config(layers=12), seed=3)
    from bertcli.weights.whole import MAKE

    network.heads.update({"classifier": MAKE["classifier"](network.config, 3), "span": MAKE["span"](network.config, 2)})
    return network


def test_names_are_two_way() -> None:
    names = [name for name, _ in named(everything())]
    assert [from_google(googles(name)) for name in names] == names
    assert "bert/encoder/layer_11/attention/output/LayerNorm/gamma" in map(googles, names)
    assert {googles(name) for name in names} >= {
        "bert/embeddings/word_embeddings",
        "bert/encoder/layer_0/attention/self/query/kernel",
        "bert/pooler/dense/bias",
        "cls/predictions/transform/LayerNorm/beta",
        "cls/predictions/output_bias",
        "cls/seq_relationship/output_weights",
        "cls/squad/output_bias",
        "output_weights",
    }


def test_the_names_are_those_that_tensorflow_has_written() -> None:
    for name in ("classifier", "pretraining", "squad"):
        prefix = google.prefix_of(GOLDEN / name)
        assert prefix is not None
        tensors = google.opened(prefix)
        entries = bundle.read_index(prefix)
        assert {googles(own) for own in tensors.headers} == {own for own in entries if "adam" not in own} - {
            "global_step"
        }


def test_what_is_written_is_read_again_bit_for_bit(tmp_path: Path) -> None:
    network = everything()
    google.save(tmp_path, network)
    tensors = google.opened(tmp_path / google.NAME)
    expected = dict(named(network))
    assert tensors.headers.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensors.headers[name].shape == tensor.shape
        assert torch.equal(tensors.read(name), tensor), name
    config = json.loads((tmp_path / google.CONFIG).read_text())
    golden = json.loads((GOLDEN / "classifier" / google.CONFIG).read_text())
    assert config.keys() == golden.keys()


# -- which checkpoint -----------------------------------------------------------------------------------------------


def test_a_checkpoint_is_found_by_its_folder_its_files_and_its_prefix(tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(GOLDEN / "classifier", path)
    prefix = path / "model.ckpt-20"
    for name in ("", ".index", ".data-00000-of-00001", ".meta"):
        assert google.prefix_of(path / f"model.ckpt-20{name}") == prefix
    assert google.prefix_of(path / "model.ckpt-2") is None
    for file in path.glob("model.ckpt-20.*"):
        shutil.copy(file, path / file.name.replace("20", "9"))
    assert google.prefix_of(path) == prefix  # the newest, as `checkpoint` says
    (path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/run/model.ckpt-9"\n')
    assert google.prefix_of(path) == path / "model.ckpt-9"
    (path / "checkpoint").unlink()
    with pytest.raises(NoInput, match=r"several checkpoints, name one of them: .*ckpt-20, .*ckpt-9"):
        google.prefix_of(path)


def test_what_googles_code_cannot_compute_is_not_written() -> None:
    refused = {
        "no BiLSTM": {"bilstm": 8},
        "to the left alone": {"is_decoder": True},
        "one of 0.1": {"layer_norm_eps": 0.1},
    }
    for said, own in refused.items():
        with pytest.raises(UsageError, match=said):
            google.check_known(models.config(**own))


def test_a_config_and_a_vocabulary_from_elsewhere(tmp_path: Path) -> None:
    """As Google's fine-tuning leaves them: a run's folder has neither."""
    run = tmp_path / "run"
    shutil.copytree(GOLDEN / "classifier", run)
    for name in (google.CONFIG, "vocab.txt"):
        (run / name).rename(tmp_path / name)
    with pytest.raises(NoInput, match=r"no config.json and no bert_config.json: --config names one"):
        origin.opened(run)
    with pytest.raises(NoInput, match=r"no vocab.txt and no tokenizer.json: --vocab names one"):
        origin.opened(run, config=tmp_path / google.CONFIG)
    labels = ("contradiction", "entailment", "neutral")
    given = {"config": tmp_path / google.CONFIG, "vocabulary": tmp_path / "vocab.txt"}
    model, taken = origin.opened(run, labels=labels, **given)
    assert model.config.labels == labels
    doubt = "BertForSequenceClassification, by its tensors, if it is no tagger and no choice: --architecture says"
    assert taken == [f"{run / 'model.ckpt-20'}: {doubt}"]
    tagger, taken = origin.opened(run, labels=labels, architecture="BertForTokenClassification", **given)
    assert (tagger.architecture, tagger.config.labels, taken) == ("BertForTokenClassification", labels, [])
    unnamed, taken = origin.opened(run, **given)
    assert unnamed.config.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert taken[1].endswith("LABEL_0 … for 3 outputs without names: --labels gives them")
    with pytest.raises(UsageError, match=r"--labels yes,no: .* has 3 outputs"):
        origin.opened(run, labels=("yes", "no"), **given)
    with pytest.raises(UsageError, match="the outputs of BertForPreTraining have no names"):
        origin.opened(GOLDEN / "pretraining", labels=("yes", "no"))


def test_a_config_of_other_sizes_is_told(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "squad", tmp_path / "run")
    config = tmp_path / "run" / google.CONFIG
    config.write_text(json.dumps(json.loads(config.read_text()) | {"intermediate_size": 48}))
    with pytest.raises(BadData, match=r"intermediate.dense.weight: found \[\d+, 8\], the config asks for \[48, 8\]"):
        network_of(origin.opened(tmp_path / "run")[0])

"""An ONNX file answers as the network does, and as transformers' model of the same folder."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from torch import Tensor

from bertcli.commands.convert import network_of
from bertcli.errors import UsageError
from bertcli.model.config import FeatureConfig
from bertcli.model.heads import Classifier, FeatureNetwork, Network
from bertcli.weights import onnx as ours
from bertcli.weights.folder import open_folder
from bertcli.weights.onnx import CLASSES, INPUTS, quantize, save_onnx

pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SHAPES = [(1, 1), (1, 64), (7, 13)]
OPTIONS: dict[str, dict[str, Any]] = {
    "BertLMHeadModel": {"is_decoder": True},
    "BertForSequenceClassification": {"num_labels": 3},
    "BertForTokenClassification": {"num_labels": 3},
}


def made(folder: Path, kind: str, layers: int = 1, **options: Any) -> tuple[Any, Network, Path]:
    """Returns a model of transformers, our network of its folder, and the ONNX file of that."""
    peer = models.theirs(kind, layers, **OPTIONS.get(kind, {}), **options)
    network = network_of(open_folder(models.save(peer, folder / "model")))[0].eval()
    save_onnx(folder / "model.onnx", network, kind)
    return peer, network, folder / "model.onnx"


def inputs(shape: tuple[int, ...]) -> list[dict[str, Tensor]]:
    """Returns inputs whose rows are as long as told, and such with padding at the right."""
    drawn = torch.Generator().manual_seed(sum(shape))
    lengths = torch.randint(1, shape[-1] + 1, (*shape[:-1], 1), generator=drawn)
    ids = torch.randint(5, len(models.PIECES), shape, generator=drawn)
    segments = torch.randint(0, 2, shape, generator=drawn)
    masks = torch.ones_like(ids), (torch.arange(shape[-1]) < lengths).long()
    return [{"input_ids": ids, "attention_mask": mask, "token_type_ids": segments} for mask in masks]


def answered(session: Any, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns what a file makes of inputs, by name."""
    names = [output.name for output in session.get_outputs()]
    outputs = session.run(names, {name: tensor.numpy() for name, tensor in given.items()})
    return dict(zip(names, map(torch.from_numpy, outputs), strict=True))


def session(file: Path) -> Any:
    """Returns what runs a file, on one core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(file, options)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_file_answers_as_transformers_does_at_any_size(tmp_path: Path, kind: str) -> None:
    peer, _, file = made(tmp_path, kind)
    runs = session(file)
    is_choice = kind == "BertForMultipleChoice"
    for rows, columns in SHAPES:
        for given in inputs((rows, 2, columns) if is_choice else (rows, columns)):
            with torch.no_grad():
                expected = peer(**given)
            found = answered(runs, given)
            assert tuple(found) == CLASSES[kind][1]
            for name, tensor in found.items():
                assert tensor.shape == expected[name].shape
                # What stands at padding means nothing.
                of_tokens = tensor.shape[:2] == (rows, columns) and not is_choice
                at = given["attention_mask"].bool() if of_tokens else ...
                torch.testing.assert_close(tensor[at], expected[name][at], rtol=0, atol=1e-5)


def test_a_file_answers_as_the_network_and_in_int8_nearly_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, network, file = made(tmp_path, "BertForSequenceClassification", layers=2, width=128, noise=0)
    ids, borders = models.sequences([1, 5, 64, 9])
    with torch.no_grad():  # its layers are as they were before
        expected = network.heads["classifier"](network.pooled(models.packed(ids, borders)))
    given = {name: torch.zeros(4, 64, dtype=torch.long) for name in INPUTS}
    for row, (sequence, border) in enumerate(zip(ids, borders, strict=True)):
        alone = {**models.alone(sequence, border), "attention_mask": torch.ones(1, len(sequence), dtype=torch.long)}
        for name, values in alone.items():
            given[name][row, : len(sequence)] = values[0]
    torch.testing.assert_close(answered(session(file), given)["logits"], expected, rtol=0, atol=1e-5)
    assert str(Path(ours.__file__).parent).encode() not in file.read_bytes()
    size = file.stat().st_size
    quantize(file)
    products = sum(each.numel() for name, each in network.named_parameters() if "layers" in name)
    assert file.stat().st_size < size - 2.5 * products
    assert torch.cosine_similarity(answered(session(file), given)["logits"], expected, -1).min() > 0.99
    assert capfd.readouterr() == ("", "")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["model", "model.onnx"]


def test_shapes_that_an_exporter_tells_of_do_not_hinder_the_quantizer(tmp_path: Path) -> None:
    """Which transposes weights: their old shapes are told of by torch 2.11, and not by newer ones."""
    *_, file = made(tmp_path, "BertForSequenceClassification")
    model = onnx.load(file)
    for weight in model.graph.initializer:
        model.graph.value_info.add(name=weight.name).type.tensor_type.elem_type = weight.data_type
        for size in weight.dims:
            model.graph.value_info[-1].type.tensor_type.shape.dim.add(dim_value=size)
    onnx.save(model, file)
    quantize(file)
    assert session(file)


def test_of_a_left_to_right_classifier_the_last_token_is_read(tmp_path: Path) -> None:
    network = Network(models.config(1, is_decoder=True, labels=("a", "b")), {}).eval()
    network.heads["classifier"] = Classifier(network.config, 2).eval()
    save_onnx(tmp_path / "model.onnx", network, "BertForSequenceClassification")
    _, given = inputs((7, 13))
    given["token_type_ids"][:] = 0
    lengths = given["attention_mask"].sum(1).tolist()
    ids = [row[:length] for row, length in zip(given["input_ids"].tolist(), lengths, strict=True)]
    with torch.no_grad():
        expected = network.heads["classifier"](network.pooled(models.packed(ids, [None] * 7)))
    found = answered(session(tmp_path / "model.onnx"), given)["logits"]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_what_has_no_form_in_onnx_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, plain = tmp_path / "model.onnx", Network(models.config(), {})
    with pytest.raises(UsageError, match="a BiLSTM"):
        save_onnx(file, Network(models.config(bilstm=4), {}), "BertForTokenClassification")
    with pytest.raises(UsageError, match="a BiLSTM"):
        save_onnx(file, FeatureNetwork(FeatureConfig(8, 4), {}), None)
    with pytest.raises(UsageError, match="found BertForNextSentencePrediction, expected BertModel, "):
        save_onnx(file, plain, "BertForNextSentencePrediction")
    monkeypatch.setattr(ours, "MOST", 1)
    with pytest.raises(UsageError, match="no room in one file"):
        save_onnx(file, plain, None)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("absent", ["onnx", "onnxscript", "onnxruntime"])
def test_without_its_packages_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str) -> None:
    monkeypatch.setattr(ours, "find_spec", lambda name: None if name == absent else find_spec(name))
    file, network = tmp_path / "model.onnx", Network(models.config(), {})
    with pytest.raises(UsageError, match=rf"the package {absent}: pip install 'bertcli\[onnx\]'"):
        quantize(file) if absent == "onnxruntime" else save_onnx(file, network, None)

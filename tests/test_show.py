"""What `show` says of a folder, a vocabulary and a stream, and of damaged ones; never with torch."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import models
import pytest
from program import Result, run

from bertcli import show
from bertcli.errors import BadData, NoInput


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    model = models.theirs("BertForSequenceClassification", num_labels=3, id2label={0: "c", 1: "a", 2: "b"})
    found = show.model(models.save(model, tmp_path / "model"))
    assert found["architecture"] == "BertForSequenceClassification"
    assert [found[name] for name in show.SIZES] == [2, 32, 4, 128, 64]
    assert found["labels"] == ["c", "a", "b"]
    assert found["parameters"].pop("total") == sum(found["parameters"].values()) == model.num_parameters()
    assert [*found["parameters"]] == ["embeddings", "encoder", "pooler", "classifier"]
    assert (found["parameters"]["classifier"], found["task"]) == (3 * 32 + 3, "classification")
    assert found["dtypes"] == ["F32"]
    assert found["vocabulary"]["pieces"] == len(models.PIECES)
    assert "made_by" not in found


def test_the_real_model() -> None:
    found = show.model(models.minilm())
    assert (found["parameters"]["total"], found["num_hidden_layers"]) == (
        22_713_216,
        6,
    )  # position_ids are no parameters
    assert found["vocabulary"]["casing"] == "--uncased --strip-accents --split-cjk"


def test_our_own_tells_how_it_was_made(house: Path) -> None:
    made = show.model(house / "classifier")["made_by"]
    assert (made["task"], made["settings"]["epochs"]) == ("classification", 1)
    assert made["command"].startswith("bertcli finetune classification")


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"architectures": 5}, "architectures"),
        ({"architectures": "BertModel"}, "architectures"),
        ({"id2label": ["a", "b"]}, "id2label"),
        ({"id2label": {"x": "a"}}, "id2label"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
)
def test_a_config_of_odd_values_is_named(house: Path, tmp_path: Path, values: dict[str, object], field: str) -> None:
    path = shutil.copytree(house / "classifier", tmp_path / "model")
    config = json.loads((path / "config.json").read_text()) | values
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadData, match=rf"config.json: field '{field}': found"):
        show.model(path)


def test_what_is_not_there(house: Path, tmp_path: Path) -> None:
    path = shutil.copytree(house / "classifier", tmp_path / "model")
    (path / "model.safetensors").write_bytes(b"half")
    with pytest.raises(BadData, match="not a whole safetensors file"):
        show.model(path)
    (path / "model.safetensors").unlink()
    with pytest.raises(NoInput, match=r"no model.safetensors"):
        show.model(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("model.safetensors", "tensors, of which `bertcli convert`"), ("vectors.npy", "arrays; expected")],
)
def test_a_file_of_numbers_is_named(bertcli: Callable[..., Result], tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_bytes(bytes(range(256)))
    result = bertcli("show", name)
    assert (result.status, said in result.err) == (65, True)


def test_a_text_or_a_folder_is_no_tensors_by_its_name(
    bertcli: Callable[..., Result], house: Path, tmp_path: Path
) -> None:
    (tmp_path / "news.pt").write_text("uma notícia\n")
    assert b"records: 1" in bertcli("show", "news.pt").out
    shutil.copytree(house / "model", tmp_path / "m.bin")
    assert b"kind: model" in bertcli("show", "m.bin").out


def test_a_vocabulary() -> None:
    found = show.vocabulary(models.minilm() / "vocab.txt")
    assert (found["pieces"], found["unused"], found["casing_from"]) == (30_522, 994, "tokenizer_config.json")


def test_a_stream_is_counted_by_field() -> None:
    found = show.stream(iter([{"a": 1, "b": None}, {"a": "x"}, {"c": [1]}]))
    assert found["records"] == 3
    assert found["fields"]["a"] == {"in": 2, "types": ["number", "string"]}
    assert found["fields"]["b"] == {"in": 1, "types": ["null"]}
    assert found["first"] == {"a": 1, "b": None}


def test_people_and_programs_are_told_the_same(bertcli: Callable[..., Result], house: Path) -> None:
    told = bertcli("show", house / "model").out.decode().splitlines()
    (found,) = bertcli("show", house / "model", "--json").records
    assert f"  total: {found['parameters']['total']:,}" in told
    assert f"num_hidden_layers: {found['num_hidden_layers']}" in told


def test_a_model_is_shown_without_torch(house: Path) -> None:
    code = f"from bertcli.cli import run; import sys; run(['show', {str(house / 'model')!r}])"
    result = run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"])
    assert result.status == 0, result.err

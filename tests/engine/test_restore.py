"""Damaged checkpoints: each is named, the one before it is taken, and nothing of it comes into the run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from program import Result
from safetensors.torch import load_file, save_file

from bertcli.engine import checkpoint
from bertcli.engine.checkpoint import OPTIMIZER, RANDOM, STATE, WEIGHTS
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.restore import restored
from bertcli.engine.settings import Input
from bertcli.errors import BadData
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build

LINE = ["pretrain", "pairs.jsonl", "-o", "model", "--num-layers", 1, "--hidden-size", 16, "--num-heads", 2]
LINE += ["--steps", 12, "--batch-size", 8, "--device", "cpu", "--save-every", 3, "--max-length", 32]
WORD = "bert.embeddings.words.weight"


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def garbled(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 9)


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Returns what changes a file's tensors, or fields."""

    def damage(path: Path) -> None:
        if path.name == STATE:
            values = json.loads(path.read_text())
            change(values)
            path.write_text(json.dumps(values))
        else:
            values = load_file(path)
            change(values)
            save_file(values, path)

    return damage


def first(values: dict[str, Any]) -> str:
    return next(name for name in values if name.endswith(("weight", "exp_avg", "cpu")))


def lacks_one(values: dict[str, Any]) -> None:
    del values[first(values)]


def has_another_shape(values: dict[str, Any]) -> None:
    values[first(values)] = values[first(values)][:1].clone()


def has_another_type(values: dict[str, Any]) -> None:
    values[first(values)] = values[first(values)].double()


def has_another_name(values: dict[str, Any]) -> None:
    values["other"] = values.pop(first(values))


def has_another_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)


TENSORS = (lacks_one, has_another_shape, has_another_type, has_another_name)
FAULTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{
        f"{file} {how.__name__}": (file, how)
        for file in (WEIGHTS, OPTIMIZER, RANDOM, STATE)
        for how in (cut, garbled, Path.unlink)
    },
    **{f"{file} {has_another_byte.__name__}": (file, has_another_byte) for file in (WEIGHTS, OPTIMIZER, RANDOM)},
    **{f"{file} {how.__name__}": (file, changed(how)) for file in (WEIGHTS, OPTIMIZER, RANDOM) for how in TENSORS},
    **{
        f"{STATE} without {key}": (STATE, changed(lambda values, key=key: values.pop(key)))  # type: ignore[misc]
        for key in ("step", "settings", "input", "best", "checks")
    },
    f"{STATE} of another step": (STATE, changed(lambda values: values.update(step=99))),
    f"{STATE} with a list": (STATE, lambda path: path.write_text("[]")),
    f"{STATE} with another input": (STATE, changed(lambda values: values["input"].pop("begun"))),
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, program: Any) -> Path:
    """Returns a folder in which a run was stopped after step 8, with three checkpoints, and one that was not."""
    path = tmp_path_factory.mktemp("stopped")
    (path / "pairs.jsonl").write_bytes(models.lines(models.pairs(30)))
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    line = [str(word) for word in LINE]
    for more in (["--keep", "3", "--stop-at", "8"], ["-o", "whole"]):
        result = program.run([*line, *more], path)
        assert result.status == 0, result.err
    assert [home.name for home in checkpoint.complete(path / "model")] == ["3", "6", "8"]
    return path


def learning() -> tuple[torch.nn.Module, Optimizer]:
    network = build(Pretraining(models.wordpiece(), 64), models.config())
    return network, Optimizer(network, Schedule(1e-2, 10, 0, "constant"))


def saved(path: Path) -> None:
    network, optimizer = learning()
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step(1)
    state = {"step": 1, "settings": {}, "input": asdict(Input()), "best": None}
    tensors = network.state_dict(), checkpoint.moments(network, optimizer)
    checkpoint.write(path, state, *tensors, [checkpoint.random_states(network)])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_checkpoint_is_named_and_changes_nothing(tmp_path: Path, fault: str) -> None:
    file, damage = FAULTS[fault]
    saved(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    network, optimizer = learning()
    damage(tmp_path / "checkpoint" / "1" / file)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    random = torch.get_rng_state()
    with pytest.raises(BadData, match=f"^{tmp_path / 'checkpoint' / '1' / file}: "):
        restored(tmp_path, network, optimizer, {}, warn=pytest.fail)
    assert all(torch.equal(weights[name], tensor) for name, tensor in network.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)
    assert not optimizer.adam.state
    assert sorted(tmp_path.rglob("*")) in (before, [path for path in before if path.name != file])


@pytest.mark.parametrize("fault", [f"{WEIGHTS} cut", f"{STATE} garbled", f"{OPTIMIZER} lacks_one"])
def test_the_one_before_is_taken_instead(
    bertcli: Callable[..., Result], stopped: Path, tmp_path: Path, fault: str
) -> None:
    """And what comes of it is the whole run; the damaged ones are not taken for the newest when others are saved."""
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    file, damage = FAULTS[fault]
    for step in ("6", "8"):
        damage(tmp_path / "model" / "checkpoint" / step / file)
    result = bertcli(*LINE, "--resume", "--stop-at", 5)
    assert result.status == 0, result.err
    told = [line for line in result.err.splitlines() if line.startswith("warning: ")]
    places = [f"model/checkpoint/{step}/{file}" for step in (8, 6)]
    assert [line.split(": ")[1] for line in told] == places
    assert all(line.endswith(": this checkpoint is passed over") for line in told)
    assert "resuming after step 3" in result.err
    assert os.listdir(tmp_path / "model" / "checkpoint") == ["5"]
    assert bertcli(*LINE, "--resume").status == 0
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("model", "whole")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "model" / "checkpoint").exists()


def test_where_none_is_whole_nothing_is_touched(bertcli: Callable[..., Result], stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    homes = checkpoint.complete(tmp_path / "model")
    for home in homes:
        cut(home / WEIGHTS)
    result = bertcli(*LINE, "--resume")
    assert result.status == 65
    *_, told = result.err.splitlines()
    assert told.startswith("bertcli pretrain: model/checkpoint/8/weights.safetensors: not a whole safetensors file (")
    assert "warning" not in result.err
    assert checkpoint.complete(tmp_path / "model") == homes
    assert (tmp_path / "model" / "log.jsonl").read_bytes() == (stopped / "model" / "log.jsonl").read_bytes()


def test_what_a_killed_run_was_writing_goes_with_the_next(
    bertcli: Callable[..., Result], stopped: Path, tmp_path: Path
) -> None:
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    place = tmp_path / "model" / "checkpoint"
    for name in (".9", ".7.123.old"):
        shutil.copytree(place / "8", place / name)
    result = bertcli(*LINE, "--resume", "--stop-at", 9, "--keep", 2)
    assert result.status == 0, result.err
    assert sorted(os.listdir(place)) == ["8", "9"]

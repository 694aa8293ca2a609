"""Checkpoints: a run that was stopped and resumed is, bit for bit, the run that was not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import models
import pytest
import torch
from running import PAIRS, SETTINGS, WORDPIECE, figures, logged, run
from safetensors.torch import load_file

from bertcli.engine import checkpoint
from bertcli.engine.device import choose
from bertcli.engine.run import Run
from bertcli.engine.settings import Output
from bertcli.errors import BadData, UsageError
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model"
    run(path)
    return path


@pytest.mark.parametrize("stop", [2, 3, 4, 7, 11])
@pytest.mark.parametrize("bias_correction", [True, False])
def test_a_resumed_run_is_the_whole_one(tmp_path: Path, whole: Path, stop: int, bias_correction: bool) -> None:
    settings, path, said = replace(SETTINGS, bias_correction=bias_correction), tmp_path / "model", []
    if not bias_correction:
        whole = tmp_path / "whole"
        run(whole, settings=settings)
    first = run(path, settings=settings, stop_at=stop)
    assert [home.name for home in checkpoint.complete(path)] == [str(stop)]
    torch.manual_seed(99)  # what has happened since must not matter
    second = run(path, settings=settings, resume=True, said=said)
    assert said[0] == f"resuming after step {stop}"
    assert [row["step"] for row in first + second] == list(range(1, 13))
    assert figures(first + second) == figures(logged(path)) == figures(logged(whole))
    ours, theirs = (load_file(home / "model.safetensors") for home in (path, whole))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert sorted(home.name for home in path.iterdir()) == sorted(home.name for home in whole.iterdir())
    assert not (path / "checkpoint").exists()
    assert not (path / "spool").exists()


def test_epochs_are_masked_and_ordered_afresh(whole: Path) -> None:
    rows = logged(whole)
    assert len({row["mlm_loss"] for row in rows}) == len(rows)
    assert [row["lr"] for row in rows[:3]] == pytest.approx([1e-3, 2e-3, 2e-3])


def test_checkpoints_on_the_way_keep_the_newest_alone(tmp_path: Path) -> None:
    """And are there when that is said."""
    seen = []
    path = tmp_path / "model"
    path.mkdir()
    task = Pretraining(WORDPIECE, 64)
    network = build(task, models.config())
    one = Run(task, SETTINGS, Output(path, save_every=3, save_at=(2, 5)), choose("cpu"), {})
    one.stream(models.stream(task, PAIRS))

    def watch(message: str) -> None:
        if told := re.fullmatch(r"step (\d+) of 12: loss (.*), saved", message):
            row = next(row for row in logged(path) if row["step"] == int(told[1]))
            assert told[2] == f"{row['loss']:.4f}"
            seen.append((told[1], [home.name for home in checkpoint.complete(path)]))

    one.say = watch
    list(one.train(network))
    assert seen == [("3", ["3"]), ("6", ["6"]), ("9", ["9"])]
    assert sorted(home.name for home in (path / "steps").iterdir()) == ["2", "5"]
    fifth = json.loads((path / "steps" / "5" / "bertcli.json").read_text())
    assert fifth["step"] == 5
    model = models.transformers.BertForPreTraining.from_pretrained(path / "steps" / "5")
    assert model.config.hidden_size == 32


OTHERS = {
    "lr": replace(SETTINGS, lr=1e-3),
    "warmup": replace(SETTINGS, warmup=3),
    "schedule": replace(SETTINGS, schedule="google"),
    "bias_correction": replace(SETTINGS, bias_correction=False),
    "batch_size": replace(SETTINGS, batch_size=4),
    "dropout": replace(SETTINGS, dropout=0.0),
    "seed": replace(SETTINGS, seed=4),
    "steps": replace(SETTINGS, steps=13),
}


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "model"
    run(path, stop_at=2)
    for name, settings in OTHERS.items():
        said = f"--resume goes on with the same settings only: {name} was "
        with pytest.raises(UsageError, match=said) as caught:
            run(path, settings=settings, resume=True)
        assert str(caught.value).count(" was ") == 1
    with pytest.raises(UsageError, match="hidden_size was 32 and is now 64, intermediate_size was 128 and is now 256"):
        run(path, config=models.config(width=64), resume=True)
    assert run(path, resume=True)[0]["step"] == 3


def test_what_is_not_complete_is_passed_over(tmp_path: Path) -> None:
    path, said = tmp_path / "model", []
    (path / "checkpoint" / ".9").mkdir(parents=True)
    (path / "checkpoint" / "9.old").mkdir()
    (path / "checkpoint" / ".9" / "weights.safetensors").write_bytes(b"half")
    assert run(path, resume=True, stop_at=2, said=said)[0]["step"] == 1
    assert said[:1] == [f"{path}: no complete checkpoint, starting anew"]
    assert [home.name for home in checkpoint.complete(path)] == ["2"]
    (path / "checkpoint" / ".7").mkdir()
    assert run(path, resume=True)[0]["step"] == 3


def test_the_newest_of_several_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "model"
    run(path, stop_at=9)
    (path / "checkpoint" / "9").rename(path / "checkpoint" / "10")
    (path / "checkpoint" / "9").mkdir()
    assert checkpoint.complete(path)[-1].name == "10"


def test_a_run_that_was_stopped_after_its_last_step_is_not_trained_further(tmp_path: Path, whole: Path) -> None:
    path = tmp_path / "model"
    run(path, stop_at=4)
    weights = (path / "model.safetensors").read_bytes()
    assert run(path, resume=True, stop_at=4) == []
    assert run(path, resume=True, stop_at=3) == []
    assert json.loads((path / "bertcli.json").read_text())["step"] == 4
    assert (path / "model.safetensors").read_bytes() == weights
    assert [home.name for home in checkpoint.complete(path)] == ["4"]
    assert run(path, resume=True)[0]["step"] == 5
    assert (path / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("resume", [True, False])
def test_no_record_is_no_success(tmp_path: Path, resume: bool) -> None:
    path = tmp_path / "model"
    if resume:
        run(path, stop_at=2)
    with pytest.raises(BadData, match="no record to train on"):
        run(path, records=[], resume=resume)
    assert bool(checkpoint.complete(path)) == resume

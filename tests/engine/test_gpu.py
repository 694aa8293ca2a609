"""What a GPU alone can show: that the host runs ahead of it, and that the fast step learns what the plain one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean

import models
import pytest
import torch
import toys
from program import environment

from bertcli import tasks
from bertcli.engine.device import choose
from bertcli.engine.log import Log
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.packing import Step
from bertcli.engine.train import Trainer
from bertcli.tasks.left_to_right import LeftToRight
from bertcli.tasks.task import Example, Task, build

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")

STEPS, BATCH = 20, 16


def learned(name: str) -> tuple[Task, list[Example]]:
    """Returns a task and what it learns from in some steps."""
    if name in tasks.PRETRAINING:
        task: Task = tasks.PRETRAINING[name](models.wordpiece(), 64, objective=name)
        return task, models.learned(task, models.pairs(BATCH * STEPS))
    task = tasks.new(name, models.wordpiece(), 64)
    return task, models.learned(task, toys.records(name, BATCH * STEPS))


def begun(task: Task, *, is_fast: bool, dropout: float) -> Trainer:
    """Returns a trainer of a small network, all of whose switches are on, or off."""
    device = choose("cuda", "bf16", None, "auto" if is_fast else "off", "auto" if is_fast else "off")
    own = {"labels": task.labels, "is_decoder": isinstance(task, LeftToRight)}
    config = models.config(2, 64, 4, **own).with_dropout(dropout)
    network = device.place(build(task, config, seed=1), learns=True, is_long=task.name == "pretraining").train()
    return Trainer(network, task, Optimizer(network, Schedule(1e-3, STEPS, 0.1)), device)


def steps_of(trainer: Trainer, examples: list[Example]) -> list[Step]:
    """Returns the steps of some examples."""
    numbered = [(0, example) for example in examples]
    return [trainer.prepare(numbered[begin : begin + BATCH]) for begin in range(0, len(numbered), BATCH)]


@pytest.mark.parametrize("name", [*toys.TASKS, "mlm+nsp", "ltr"])
def test_the_host_does_not_wait_for_the_device(name: str, tmp_path: Path) -> None:
    """Neither for a step nor for its losses, once all is compiled and memory is there."""
    task, examples = learned(name)
    trainer, log = begun(task, is_fast=True, dropout=0.1), Log(tmp_path / "log.jsonl")
    steps, rows = steps_of(trainer, examples), []
    try:
        for number, step in enumerate(steps, 1):
            if number == STEPS // 2:
                torch.cuda.set_sync_debug_mode("error")
            log.add(number, *trainer.step(number, step), trainer.optimizer.norm)
            rows += log.drain()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len(rows) + len(list(log.drain(now=True))) == len(steps)


@pytest.mark.parametrize(("own", "grows"), [({}, True), ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, False)])
def test_memory_grows_in_one_piece_unless_told_otherwise(own: dict[str, str], grows: bool) -> None:
    code = (
        "import torch; from bertcli.engine.device import choose; held = torch.ones(1 << 24, device=choose().device); "
        "print(any(segment['is_expandable'] for segment in torch.cuda.memory_snapshot()))"
    )
    outer = {name: value for name, value in os.environ.items() if not name.endswith("ALLOC_CONF")}
    done = subprocess.run([sys.executable, "-c", code], env=outer | own, capture_output=True, check=True)
    assert done.stdout.split() == [str(grows).encode()]


@pytest.mark.parametrize("switch", ["auto", "off"])
def test_recording_is_told_and_can_be_turned_off(switch: str, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(models.PIECES) + "\n")
    sizes = ["--num-layers=1", "--hidden-size=16", "--num-heads=2", "--max-length=64"]
    told = ["-o", "model", "--steps=4", "--batch-size=8", f"--cuda-graphs={switch}", *sizes]
    seeing = {name: value for name, value in environment().items() if name != "CUDA_VISIBLE_DEVICES"}
    line, pairs = [sys.executable, "-m", "bertcli", "pretrain", *told], models.lines(models.pairs(32))
    subprocess.run(line, cwd=tmp_path, env=seeing, input=pairs, capture_output=True, check=True)
    notes = json.loads((tmp_path / "model" / "bertcli.json").read_text())
    assert notes["engine"]["cuda_graphs"] == (switch == "auto")


@pytest.mark.parametrize("name", [*toys.TASKS, "mlm+nsp", "ltr"])
def test_the_fast_step_learns_what_the_plain_one_does(name: str) -> None:
    task, examples = learned(name)
    losses = {}
    for is_fast in (True, False):
        trainer = begun(task, is_fast=is_fast, dropout=0.0)
        taken = [trainer.step(number, step)[0] for number, step in enumerate(steps_of(trainer, examples), 1)]
        losses[is_fast] = [float(sum(each.values())) for each in taken]
    assert mean(losses[False][-5:]) < mean(losses[False][:5])
    assert losses[True] == pytest.approx(losses[False], abs=0.05 * losses[False][0])

"""`--compile`: the same losses, one code for all sizes, and its time told."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import models
import program
import pytest
from program import Result
from torch._dynamo.utils import counters

from bertcli.engine.device import choose
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.train import Trainer
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build

needs_compiler = pytest.mark.skipif(not shutil.which("g++"), reason="torch compiles for a CPU by g++")
STEPS = 6


@needs_compiler
def test_steps_of_all_sizes_share_one_code() -> None:
    losses = {}
    for compiles in ("off", "on"):
        device = choose("cpu", max_tokens=64, compiles=compiles)
        task = Pretraining(models.wordpiece(), 64)
        network = device.place(build(task, models.config().with_dropout(0.0), seed=1), learns=True).train()
        trainer = Trainer(network, task, Optimizer(network, Schedule(1e-3, STEPS, 0)), device)
        examples = [(0, task.encode(task.masked(record))[0]) for record in models.pairs(8 * STEPS)]
        counters.clear()
        losses[compiles], graphs = [], []
        for number in range(STEPS):
            step = trainer.prepare(examples[8 * number : 8 * (number + 1)])
            losses[compiles].append(float(sum(trainer.step(number + 1, step)[0].values())))
            graphs.append(counters["stats"]["unique_graphs"])
    assert graphs[0] > 0
    assert graphs[1:] == graphs[:-1]  # nothing is compiled after the first step
    assert losses["on"] == pytest.approx(losses["off"], abs=1e-5)


@needs_compiler
def test_what_is_compiled_is_told(invoke: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(models.PIECES) + "\n")
    sizes = ["--num-layers=1", "--hidden-size=16", "--num-heads=2", "--max-length=64"]
    told = ["-o", "model", "--steps=1", "--batch-size=8", "--compile=on", *sizes]
    done = invoke("pretrain", *told, stdin=models.lines(models.pairs(16)))
    assert done.status == 0
    assert "step 1: compiled, and taken, in " in done.err
    engine = json.loads((tmp_path / "model" / "bertcli.json").read_text())["engine"]
    assert (engine["compiled"], engine["kernels"], engine["ranks"]) == (True, False, 1)


def test_what_is_not_compiled_does_not_wait_for_the_compiler(tmp_path: Path) -> None:
    """Loading it takes longer than many a run."""
    models.save(models.theirs("BertForPreTraining", noise=0), tmp_path / "start")
    texts = models.lines(models.coloured(16))
    for line in ("finetune classification -m start -o model --epochs 1", "predict -m model"):
        code = f"import sys; from bertcli.cli import run; print(run({line.split()}), 'torch._dynamo' in sys.modules)"
        done = program.run([sys.executable, "-c", code], texts, tmp_path)
        assert done.out.endswith(b"0 False\n"), done

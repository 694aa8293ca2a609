"""A loss that is no finite number: the run ends, and the last good step is saved however late the host sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import pytest
import toys
from program import Result
from torch import Tensor

from bertcli.engine import checkpoint
from bertcli.engine import log as log_module
from bertcli.engine.device import choose
from bertcli.engine.run import Run
from bertcli.engine.settings import Output, Settings
from bertcli.errors import Diverged
from bertcli.model.heads import Network
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Batch, build

SETTINGS = Settings(
    lr=2e-3, warmup=0.2, schedule="linear", bias_correction=True, batch_size=8, dropout=0.2, seed=3, steps=20
)
BAD = 12


class Poisoned(Pretraining):
    """Pre-training whose loss, or its gradient alone, is no number in one pass."""

    how = ""
    passes = 0

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        losses, self.passes = super().losses(network, batch), self.passes + 1
        if self.how and self.passes == BAD:
            tensor = losses["mlm_loss"] * float("nan") if self.how == "loss" else losses["mlm_loss"]
            if self.how == "gradient":
                tensor.register_hook(lambda gradient: gradient * float("inf"))
            return {**losses, "mlm_loss": tensor}
        return losses


def run(path: Path, *, how: str = "", settings: Settings = SETTINGS, **output: Any) -> list[dict[str, Any]]:
    path.mkdir(exist_ok=True)
    task = Poisoned(models.wordpiece(), 64, seed=3)
    task.how = how
    network = build(task, models.config().with_dropout(settings.dropout), settings.seed)
    one = Run(task, settings, Output(path, **output), choose("cpu"), {})
    one.stream(models.stream(task, models.pairs(60)))
    return list(one.train(network))


def logged(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
@pytest.mark.parametrize("how", ["loss", "gradient"])
@pytest.mark.parametrize("late", [True, False])
def test_the_last_good_step_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, how: str, late: bool
) -> None:
    """Seen at once, or at the next checkpoint, six steps that were not taken later."""
    monkeypatch.setattr(log_module, "DRAIN_SECONDS", 3600 if late else 0)
    settings, bad, good = replace(SETTINGS, optimizer=kind), tmp_path / "bad", tmp_path / "good"
    home = bad / "checkpoint" / f"{BAD - 1}"
    what = {"loss": "the loss is nan", "gradient": "the gradient's norm is (inf|nan)"}[how]
    with pytest.raises(Diverged, match=f"^{what} at step {BAD}; try a lower --lr; step {BAD - 1} is saved in {home}$"):
        run(bad, how=how, settings=settings, save_every=9)
    assert [home.name for home in checkpoint.complete(bad)] == ["9", f"{BAD - 1}"]
    assert not (bad / "config.json").exists()
    run(good, settings=settings, stop_at=BAD - 1)
    for name in (checkpoint.WEIGHTS, checkpoint.OPTIMIZER, checkpoint.RANDOM, checkpoint.STATE):
        assert (home / name).read_bytes() == (good / "checkpoint" / home.name / name).read_bytes(), name
    assert logged(bad) == logged(good)
    run(bad, settings=settings, resume=True)
    run(good, settings=settings, resume=True)
    assert [row["step"] for row in logged(bad)] == list(range(1, 21))
    assert logged(bad) == logged(good)


def test_without_checkpoints_there_is_the_error_alone(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=f"^the loss is nan at step {BAD}; try a lower --lr$"):
        run(tmp_path / "model", how="loss")
    assert checkpoint.complete(tmp_path / "model") == []
    assert [row["step"] for row in logged(tmp_path / "model")] == list(range(1, BAD))


def test_nothing_is_published_of_a_step_that_was_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "DRAIN_SECONDS", 3600)
    with pytest.raises(Diverged):
        run(tmp_path / "model", how="loss", save_at=(BAD - 1, BAD + 2))
    assert [home.name for home in (tmp_path / "model" / "steps").iterdir()] == [f"{BAD - 1}"]


def test_weights_that_are_no_numbers_themselves_are_not_saved(tmp_path: Path) -> None:
    """As after a step whose loss and gradient were finite, but not its change."""
    settings = replace(SETTINGS, lr=1e308, schedule="constant", warmup=0)
    with pytest.raises(Diverged, match=r"at step 2; try a lower --lr$"):
        run(tmp_path / "model", settings=settings, save_every=5)
    assert checkpoint.complete(tmp_path / "model") == []


def test_an_absurd_rate_ends_the_program_with_one_line(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(models.pairs(60)))
    line = ["pretrain", "pairs.jsonl", "-o", "model", "--preset", "tiny", "--max-length", 32, "--steps", 20]
    line += ["--batch-size", 8, "--lr", 1e30, "--warmup", 4, "--device", "cpu"]
    result = bertcli(*line)
    assert (result.status, result.out) == (1, b"")
    *_, told = result.err.splitlines()
    assert "is nan at step 2; try a lower --lr; step 1 is saved in model/checkpoint/1" in told
    assert [row["step"] for row in logged(tmp_path / "model")] == [1]
    again = bertcli(*line, "--resume")
    assert (again.status, "resuming after step 1" in again.err) == (1, True)
    assert [home.name for home in checkpoint.complete(tmp_path / "model")] == ["1"]


def test_fine_tuning_leaves_no_half_model(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(models.lines(toys.records("classification", 48)))
    line = ["finetune", "classification", "train.jsonl", "-m", toys.start(tmp_path / "start"), "-o", "model"]
    result = bertcli(*line, "--batch-size", 8, "--lr", 1e30, "--device", "cpu")
    assert (result.status, result.out) == (1, b"")
    assert result.err.splitlines()[-1].endswith("try a lower --lr")
    left = sorted(path.name for path in (tmp_path / "model").rglob("*"))
    assert left == ["checkpoint", "log.jsonl"]

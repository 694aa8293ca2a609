"""The log: a row a step, in order, and after a resume no step twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from bertcli.engine import log as module
from bertcli.engine.log import Log
from bertcli.errors import Diverged


def rows(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def add(log: Log, *steps: int) -> None:
    for step in steps:
        log.add(step, {"mlm_loss": torch.tensor(1.5), "nsp_loss": torch.tensor(0.5 * step)}, 1e-4, 99)


def test_a_row_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 3600)
    log = Log(tmp_path / "log.jsonl")
    add(log, 1, 2)
    assert log.drain() == []  # too soon to make the device wait
    assert not (tmp_path / "log.jsonl").exists()
    drained = log.drain(now=True)
    assert rows(tmp_path / "log.jsonl") == drained
    assert log.drain(now=True) == []
    assert list(drained[0]) == ["step", "loss", "mlm_loss", "nsp_loss", "lr", "tokens", "seconds"]
    assert [row["loss"] for row in drained] == [2.0, 2.5]
    assert drained[0]["seconds"] >= 0


def test_a_new_log_replaces_an_old_one_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for steps in ((1, 2, 3), (1, 2, 3, 4, 5)):
        log = Log(path)
        add(log, *steps)
        log.drain(now=True)
    with path.open("a") as file:
        file.write('{"step":6,"lo')  # cut off by a crash
    resumed = Log(path, done=3)
    add(resumed, 4, 5)
    resumed.drain(now=True)
    assert [row["step"] for row in rows(path)] == [1, 2, 3, 4, 5]
    lost = Log(tmp_path / "lost.jsonl", done=3)
    add(lost, 4)
    lost.drain(now=True)
    assert [row["step"] for row in rows(tmp_path / "lost.jsonl")] == [4]


def test_a_log_has_a_room_of_its_own_among_those_of_other_runs(tmp_path: Path) -> None:
    for number in (1, 2):
        log = Log(tmp_path / "runs" / f"{number}.jsonl")
        assert not (tmp_path / "runs" / f"{number}.jsonl").exists()  # a run that takes no step leaves none
        add(log, *range(1, 3 + number))
        log.drain(now=True)
    assert [len(rows(tmp_path / "runs" / f"{number}.jsonl")) for number in (1, 2)] == [3, 4]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path, value: float) -> None:
    log = Log(tmp_path / "log.jsonl")
    add(log, 1)
    log.add(2, {"mlm_loss": torch.tensor(value), "nsp_loss": torch.tensor(0.5)}, 1e-4, 9)
    with pytest.raises(Diverged, match="at step 2; try a lower --lr"):
        log.drain(now=True)
    (row,) = (tmp_path / "log.jsonl").read_text().splitlines()  # NaN would be null there
    assert '"step":1,' in row

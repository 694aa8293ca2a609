"""The log: a row a step, in order, and after a resume no step twice."""

from __future__ import annotations

import json
import time
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
        losses = {"mlm_loss": torch.tensor(1.5), "nsp_loss": torch.tensor(0.5 * step)}
        log.add(step, losses, 1e-4, 99, torch.tensor(3.0))


def test_a_row_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 3600)
    log = Log(tmp_path / "log.jsonl")
    add(log, 1, 2)
    assert list(log.drain()) == []  # too soon to make the device wait
    assert not (tmp_path / "log.jsonl").exists()
    drained = list(log.drain(now=True))
    assert rows(tmp_path / "log.jsonl") == drained
    assert list(log.drain(now=True)) == []
    assert list(drained[0]) == ["step", "loss", "mlm_loss", "nsp_loss", "lr", "tokens", "seconds"]
    assert [row["loss"] for row in drained] == [2.0, 2.5]
    assert drained[0]["seconds"] >= 0


def test_a_new_log_replaces_an_old_one_and_a_resumed_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for steps in ((1, 2, 3), (1, 2, 3, 4, 5)):
        log = Log(path)
        add(log, *steps)
        list(log.drain(now=True))
    with path.open("a") as file:
        file.write('{"step":6,"lo')  # cut off by a crash
    resumed = Log(path, done=3)
    add(resumed, 4, 5)
    list(resumed.drain(now=True))
    assert [row["step"] for row in rows(path)] == [1, 2, 3, 4, 5]
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'{"step":4', bytes(9)))  # what the power's failure leaves of a block
    resumed = Log(path, done=5)
    add(resumed, 6)
    list(resumed.drain(now=True))
    assert [row["step"] for row in rows(path)] == [1, 2, 3, 6]
    lost = Log(tmp_path / "lost.jsonl", done=3)
    add(lost, 4)
    list(lost.drain(now=True))
    assert [row["step"] for row in rows(tmp_path / "lost.jsonl")] == [4]


def test_a_log_has_a_room_of_its_own_among_those_of_other_runs(tmp_path: Path) -> None:
    for number in (1, 2):
        log = Log(tmp_path / "runs" / f"{number}.jsonl")
        assert not (tmp_path / "runs" / f"{number}.jsonl").exists()  # a run that takes no step leaves none
        add(log, *range(1, 3 + number))
        list(log.drain(now=True))
    assert [len(rows(tmp_path / "runs" / f"{number}.jsonl")) for number in (1, 2)] == [3, 4]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("what", ["the loss", "the gradient's norm"])
def test_a_loss_or_norm_that_is_no_number_ends_the_run_after_the_rows_before(
    tmp_path: Path, value: float, what: str
) -> None:
    log, drained = Log(tmp_path / "log.jsonl"), []
    add(log, 1, 2)
    loss, norm = (value, 1.0) if what == "the loss" else (1.0, value)
    log.add(3, {"mlm_loss": torch.tensor(loss), "nsp_loss": torch.tensor(0.5)}, 1e-4, 9, torch.tensor(norm))
    add(log, 4)
    with pytest.raises(Diverged, match=f"^{what} is {value} at step 3; try a lower --lr") as caught:
        drained.extend(row["step"] for row in log.drain(now=True))
    assert (drained, caught.value.step) == ([1, 2], 3)
    assert [row["step"] for row in rows(tmp_path / "log.jsonl")] == [1, 2]  # NaN would be null there


def test_a_first_loss_that_is_no_number_is_not_the_rates_fault(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.add(1, {"loss": torch.tensor(torch.nan)}, 1e-4, 9, torch.tensor(1.0))
    with pytest.raises(Diverged, match=r"^the loss is nan at step 1; are the weights that it begins with whole"):
        list(log.drain(now=True))


def test_seconds_go_on_where_a_run_does(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step":1,"seconds":100.5}\n{"step":2,"seconds":900}\n')
    resumed = Log(path, done=1)
    add(resumed, 2, 3)
    (second, third) = resumed.drain(now=True)
    assert 100.5 <= second["seconds"] <= third["seconds"] < 200


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_row_has_the_time_at_which_the_device_was_done(tmp_path: Path, device: str) -> None:
    """The host may be ahead of it by then, and does not wait."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    log = Log(tmp_path / "log.jsonl")
    for step in (1, 2):
        log.add(step, {"loss": torch.ones((), device=device)}, 0.1, 7, torch.ones((), device=device))
        if device == "cuda":
            torch.cuda._sleep(1_000_000_000)  # cycles: half a second or so
        else:
            time.sleep(0.05)
    early = list(log.drain())
    first, second = (row["seconds"] for row in [*early, *log.drain(now=True)])
    assert first < second
    assert second - first > (0.2 if device == "cuda" else 0.04)
    assert not early  # it is too soon to write

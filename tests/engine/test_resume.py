"""Several runs that were ended and go on, and runs that stop early: what comes of them is as if nothing had been."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import warm
from sweeps import STEPS, Here, Home, Killed, line, notes, rows

from bertcli import target
from bertcli.engine import checkpoint
from bertcli.model.heads import Network


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, program: warm.Program) -> Home:
    return Home(tmp_path_factory.mktemp("home"), program)


@pytest.fixture
def here(home: Home, monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(home.path, monkeypatch)


def essence(path: Path) -> dict[str, Any]:
    """Returns all that a folder holds but for times and the command line."""
    told = {name: value for name, value in notes(path).items() if name not in ("command", "history")}
    logs = {f"{log.relative_to(path)}": rows(log) for log in path.rglob("*.jsonl")}
    files = sorted(f"{file.relative_to(path)}" for file in path.rglob("*"))
    return {"files": files, "weights": (path / "model.safetensors").read_bytes(), **told, **logs}


def result_of(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Returns the last result on stdout, without its time."""
    told = json.loads(capfd.readouterr().out.splitlines()[-1])
    return {name: value for name, value in told.items() if name not in ("model", "seconds")}


SWEEPS = {"the first is best": "5e-3,1e-12,2e-12", "the last is best": "1e-12,2e-12,5e-3"}
MOMENTS = {
    "before any step": (1, "parameters", Killed),
    "at the end of run 1": (1, "step 24: dev", signal.SIGTERM),
    "when run 1 has left its model": (1, "is complete", Killed),
    "between runs": (2, "starting from", Killed),
    "in the middle of run 2": (2, "step 12: dev", signal.SIGTERM),
    "in the middle of run 2 without a word": (2, "step 12: dev", Killed),
    "when run 3 has left its model": (3, "is complete", Killed),
}
FEW = ("in the middle of run 2", "when run 3 has left its model")


@pytest.fixture(scope="module")
def whole(home: Home) -> Callable[[str], dict[str, Any]]:
    """Returns what sweeps leave that nothing ends, each run once, and what they tell."""
    made: dict[str, dict[str, Any]] = {}

    def whole(rates: str) -> dict[str, Any]:
        if rates not in made:
            result = home.finetune(f"whole-{rates}", "--lr", rates)
            told = {n: v for n, v in result.records[0].items() if n not in ("model", "seconds")}
            made[rates] = {"essence": essence(home.path / f"whole-{rates}"), "told": told}
        return made[rates]

    return whole


@pytest.mark.parametrize(
    ("sweep", "moment"),
    [*(("the first is best", moment) for moment in MOMENTS), *(("the last is best", moment) for moment in FEW)],
)
def test_a_sweep_that_was_ended_and_resumed_is_the_whole_one(
    sweep: str,
    moment: str,
    here: Here,
    whole: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    options, expected = ["--lr", SWEEPS[sweep]], whole(SWEEPS[sweep])
    status = here.run(tmp_path / "out", *options, moment=MOMENTS[moment])
    assert status == (75 if MOMENTS[moment][2] == signal.SIGTERM else -signal.SIGKILL)
    assert not target.is_finished(tmp_path / "out")
    assert here.run(tmp_path / "out", *options, "--resume") == 0, here.said
    assert essence(tmp_path / "out") == expected["essence"]
    assert result_of(capfd) == expected["told"]


BETWEEN = {
    "when run 2 begins": (1, "^run 2 of 3", "before the first step of run 2 of 3"),
    "when run 2 has its network": (2, "parameters", "before the first step of run 2 of 3"),
    "in run 2": (2, "step 12: dev", "after step 12 of run 2 of 3"),
    "when run 2 is trained": (2, "is complete", "after run 2 of 3"),
}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", BETWEEN)
def test_a_signal_to_a_sweep_is_told_with_its_place(
    here: Here,
    whole: Callable[[str], dict[str, Any]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    moment: str,
    number: int,
) -> None:
    run, said, told = BETWEEN[moment]
    options = ["--lr", SWEEPS["the first is best"]]
    with suppress(KeyboardInterrupt):
        assert here.run(tmp_path / "out", *options, moment=(run, said, number)) == 75
    name = signal.Signals(number).name
    last = capfd.readouterr().err.splitlines()[-1]
    assert last == f"bertcli finetune: stopped by {name} {told}; --resume goes on from there"
    if number == signal.SIGTERM:
        assert here.run(tmp_path / "out", *options, "--resume") == 0, here.said
        assert essence(tmp_path / "out") == whole(SWEEPS["the first is best"])["essence"]


def test_a_signal_to_a_sweep_that_is_trained_lets_it_finish(
    here: Here, whole: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    options = ["--lr", SWEEPS["the first is best"]]
    assert here.run(tmp_path / "out", *options, moment=(3, "is complete", signal.SIGTERM)) == 0
    assert essence(tmp_path / "out") == whole(SWEEPS["the first is best"])["essence"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_sweep_that_a_signal_ended_goes_on_from_its_checkpoint(home: Home, number: int) -> None:
    options = ["--restarts", "3", "--epochs", "6", "--save-every", "9"]
    if not (home.path / "signalled").exists():
        assert home.finetune("signalled", *options).status == 0
    out = f"signal-{number}"
    words = line(out, *options, files=["train.jsonl"])
    with open(os.devnull, "r+b") as nothing, open(home.path / f"{out}.err", "wb") as err:
        process = home.program.start(words, home.path, [nothing, nothing, err])
    log, ends = home.path / out / "runs" / "2.jsonl", time.monotonic() + warm.PATIENCE
    while not (log.exists() and b'"step":18,' in log.read_bytes()):
        assert time.monotonic() < ends
        assert process.is_alive(), (home.path / f"{out}.err").read_text()
        time.sleep(0.002)
    process.send_signal(number)
    assert process.wait() == (75 if number == signal.SIGTERM else -number)
    assert not target.is_finished(home.path / out)
    assert [row["step"] for row in rows(home.path / out / "runs" / "1.jsonl")] == list(range(1, 37))
    resumed = home.finetune(out, *options, "--resume")
    assert resumed.status == 0, resumed.err
    assert re.search(r"resuming after step \d+", resumed.err)
    assert essence(home.path / out) == essence(home.path / "signalled")


CHANGES = {
    "lr of the first": ["--lr", "2e-3,1e-12,2e-12"],
    "lr of the one at hand": ["--lr", "5e-3,1e-11,2e-12"],
    "lr of the last": ["--lr", "5e-3,1e-12,3e-12"],
    "another order": ["--lr", "5e-3,2e-12,1e-12"],
    "one more": ["--lr", "5e-3,1e-12,2e-12,3e-12"],
    "one less": ["--lr", "5e-3,1e-12"],
    "one alone": ["--lr", "5e-3"],
    "restarts": ["--lr", "5e-3,1e-12,2e-12", "--restarts", 2],
    "epochs": ["--lr", "5e-3,1e-12,2e-12", "--epochs", 5],
    "seed": ["--lr", "5e-3,1e-12,2e-12", "--seed", 2],
    "dropout": ["--lr", "5e-3,1e-12,2e-12", "--dropout", 0.2],
    "metric": ["--lr", "5e-3,1e-12,2e-12", "--metric", "macro_f1"],
}


@pytest.mark.parametrize("number", [signal.SIGTERM, Killed])
def test_another_grid_is_refused(
    here: Here, whole: Callable[[str], dict[str, Any]], tmp_path: Path, number: Any
) -> None:
    """With a checkpoint, which knows its own run's settings, and without one."""
    same = ["--lr", SWEEPS["the first is best"], "--resume"]
    here.run(tmp_path / "out", *same, moment=(2, "step 12: dev", number))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*") if path.is_file()}
    for name, change in CHANGES.items():
        assert here.run(tmp_path / "out", *change, "--resume") == 2, name
        assert {path: path.stat().st_mtime_ns for path in before} == before, name
    assert here.run(tmp_path / "out", *same) == 0
    assert essence(tmp_path / "out") == whole(SWEEPS["the first is best"])["essence"]


def test_a_finished_sweep_is_not_resumed(here: Here, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    same = ["--lr", SWEEPS["the first is best"]]
    assert here.run(tmp_path / "out", *same) == 0
    before, told = essence(tmp_path / "out"), result_of(capfd)
    assert here.run(tmp_path / "out", *same, "--resume") == 0
    assert "finished already" in here.said[-1]
    again = result_of(capfd)
    assert {"step", "dev"} <= set(again)
    assert again == {name: told[name] for name in again}
    for name, change in CHANGES.items():
        assert here.run(tmp_path / "out", *change, "--resume") == 2, name
    assert here.run(tmp_path / "out", *same) == 73
    assert essence(tmp_path / "out") == before


@pytest.mark.parametrize(("epochs", "how"), [(2, signal.SIGTERM), (1, Killed)])
def test_an_early_stop_that_was_ended_and_resumed_keeps_the_same_epoch(
    here: Here, home: Home, tmp_path: Path, epochs: int, how: Any
) -> None:
    """Ended when there have been some epochs without a better score."""
    options = ["--early-stop", 4, "--epochs", 12]
    if not (home.path / "early-whole").exists():
        assert home.finetune("early-whole", *options).status == 0
    best = notes(home.path / "early-whole")["step"]
    assert best < 7 * STEPS  # else it is the schedule that ends the run
    here.run(tmp_path / "out", *options, moment=(1, f"step {best + epochs * STEPS}: dev", how))
    assert not target.is_finished(tmp_path / "out")
    assert here.run(tmp_path / "out", *options, "--resume") == 0
    assert essence(tmp_path / "out") == essence(home.path / "early-whole")


def test_a_run_that_failed_leaves_no_checkpoint_to_the_next(here: Here, tmp_path: Path) -> None:
    """Else the next one would take it, of another run and a later step, for its own newest."""
    options = ["--lr", "1e3,5e-3", "--save-every", 5, "--batch-size", 32, "--epochs", 6]  # epochs of 3 steps
    assert here.run(tmp_path / "whole", *options) == 0
    (failed,) = [at for at, said in enumerate(here.said) if said.startswith("run 1 has failed")]
    assert any(said.endswith("saved") for said in here.said[:failed])
    assert here.run(tmp_path / "out", *options, moment=(2, "step 3: dev", signal.SIGTERM)) == 75
    assert [home.name for home in checkpoint.complete(tmp_path / "out")] == ["3"]
    assert here.run(tmp_path / "out", *options, "--resume") == 0
    assert essence(tmp_path / "out") == essence(tmp_path / "whole")


# -- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_runs_do_not_pile_up_in_memory(here: Here, tmp_path: Path, device: str) -> None:
    """Although the program seldom looks for cycles."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    alive: list[int] = []

    def count(message: str) -> None:
        if message.startswith("starting from"):
            alive.append(sum(isinstance(each, Network) for each in gc.get_objects()))

    gc.collect()
    count("starting from")
    here.watch = count
    gc.disable()
    try:
        assert here.run(tmp_path / "out", "--restarts", 4, "--epochs", 1, "--device", device) == 0
    finally:
        gc.enable()
    assert alive[1:] == [alive[0] + 1] * 4

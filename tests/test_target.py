"""A run's output folder: what protects it, what is refused before any input is read, and what a failure leaves."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from program import Result

from bertcli import publish
from bertcli.errors import CannotCreate
from bertcli.publish import publishing
from bertcli.target import clear, is_finished, is_worth_keeping, taken


def take(folder: Path, *, force: bool = False, resume: bool = False) -> None:
    with taken(folder, force=force, resume=resume, warn=pytest.fail):
        assert (folder / ".lock").exists()


def test_a_folder_that_holds_a_model_is_not_overwritten_by_chance(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "model"
    home.mkdir(parents=True)
    take(home)
    (home / "config.json").write_text("{}")
    (home / "own.txt").write_text("mine")
    with pytest.raises(CannotCreate, match="holds a model already"):
        take(home)
    with pytest.raises(CannotCreate, match="holds a model already"):
        take(home, resume=True)  # which bertcli did not make
    (home / "bertcli.json").write_text("{}")
    assert is_finished(home)
    (home / "checkpoint" / "3").mkdir(parents=True)
    assert not is_finished(home)
    take(home, resume=True)
    assert (home / "checkpoint" / "3").exists()
    take(home, force=True)
    assert (home / "config.json").exists()  # until the first step of the new one
    clear(home)
    assert os.listdir(home) == ["own.txt"]
    with pytest.raises(CannotCreate, match=r"own.txt: "):
        take(home / "own.txt")


@pytest.mark.parametrize("place", ["", "steps/5"])
def test_models_that_were_on_their_way_are_put_in_order(tmp_path: Path, place: str) -> None:
    """Also one that was kept on the way: that of its step comes again, and finds no other's files in its way."""
    path = tmp_path / place
    for value in ("old", "new"):
        with pytest.MonkeyPatch.context() as killed, suppress(ZeroDivisionError), publishing(path) as draft:
            (draft / "config.json").write_text(value)
            if value == "new":
                killed.setattr(publish, "_move_in", lambda folder: 1 / 0)
    assert (path / "config.json").read_text() == "old"
    take(tmp_path, resume=True, force=True)
    assert (path / "config.json").read_text() == "new"
    assert os.listdir(path) == ["config.json"]
    with publishing(path) as draft:
        (draft / "config.json").write_text("newest")
    assert (path / "config.json").read_text() == "newest"


def test_an_old_run_s_checkpoint_goes_at_once(tmp_path: Path) -> None:
    """One of which half is gone would be taken for damaged by the run that resumes."""
    for name in "ab":
        (tmp_path / "checkpoint" / "7" / name).mkdir(parents=True)
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(publish.shutil, "rmtree", lambda path, **_: next(path.rglob("a")).rmdir())
        clear(tmp_path)
    assert not is_worth_keeping(tmp_path)
    take(tmp_path)
    assert os.listdir(tmp_path) == []


WORTH = ("config.json", "model.safetensors", "bertcli.json", "steps/5/", "checkpoint/7/", "checkpoint/runs.jsonl")
WORTHLESS = ("log.jsonl", "scores.jsonl", "runs/1.jsonl", "steps/", "checkpoint/.7/half", "checkpoint/", "own.txt")


@pytest.mark.parametrize("name", [*WORTH, *WORTHLESS])
def test_only_what_is_worth_something_protects_a_folder(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir() if name.endswith("/") else path.touch()
    if name in WORTH:
        with pytest.raises(CannotCreate, match="holds a model already"):
            take(tmp_path / "model")
    else:
        take(tmp_path / "model")
    assert path.exists()
    assert not (tmp_path / "model" / ".lock").exists()


def test_what_is_made_goes_if_it_stays_empty(tmp_path: Path) -> None:
    take(tmp_path / "deep" / "model")
    assert os.listdir(tmp_path) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(ZeroDivisionError), taken(tmp_path / "mine" / "model", force=False, resume=False, warn=print):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == ["mine"]
    with taken(tmp_path / "mine", force=False, resume=False, warn=print):
        (tmp_path / "mine" / "log.jsonl").touch()
    assert os.listdir(tmp_path / "mine") == ["log.jsonl"]


LINES = {
    "pretrain": ["pretrain", "--preset", "tiny", "--steps", "1"],
    "finetune": ["finetune", "classification"],
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize("where", ["file", "below a file", "where nothing can be made"])
def test_what_cannot_be_made_is_told_before_any_input_is_read(
    bertcli: Callable[..., Result], house: Path, tmp_path: Path, line: list[str], where: str
) -> None:
    """The input is bad from its first line on, which would be told of if it were read."""
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    (tmp_path / "file").touch()
    out = {"file": "file", "below a file": "file/model"}.get(where, "/proc/model")
    result = bertcli(*line, "-o", out, "--device", "cpu", "--quiet", stdin=b"bad\n")
    assert (result.status, result.out) == (73, b"")
    assert result.err.startswith(f"bertcli {line[0]}: {out.removesuffix('/model') if 'file' in out else out}")
    assert result.err.count("\n") == 1


# -- what is not finished -------------------------------------------------------------------------------------------


def remade(path: Path, *names: str) -> Path:
    """Returns a folder with files, and folders, of these names."""
    for name in names:
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if name.endswith("/") else place.write_text("{}")
    return path


@pytest.mark.parametrize("line", [["show"], ["predict", "-m"], ["embed", "-m"], ["finetune", "classification", "-m"]])
def test_a_run_that_is_not_finished_has_no_model_yet_but_says_what_it_has(
    bertcli: Callable[..., Result], tmp_path: Path, line: list[str]
) -> None:
    more = ["-o", "out"] if line[0] == "finetune" else []
    remade(tmp_path / "begun", "checkpoint/", "log.jsonl")
    remade(tmp_path / "saved", "checkpoint/20/", "checkpoint/9/", "checkpoint/.30/", "steps/5/", "steps/10/")
    for name, told in {
        "begun": "nothing is saved yet",
        "saved": "--resume goes on after step 20; whole models: steps/5, steps/10",
    }.items():
        result = bertcli(*line, name, *more)
        assert (result.status, result.out) == (66, b"")
        assert result.err == f"bertcli {line[0]}: {name}: training is not finished there: {told}\n"
    assert not (tmp_path / "out").exists()


def test_the_best_of_runs_that_are_not_finished_says_so(
    bertcli: Callable[..., Result], house: Path, tmp_path: Path
) -> None:
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    table = [{"runs": [{}, {}, {}]}, {"run": 1}, {"run": 2}]
    remade(tmp_path / "classifier", "checkpoint/7/")
    told = "warning: classifier: the best model yet: no run is finished; --resume goes on with them"
    assert bertcli("show", "classifier").err.splitlines() == [told]
    (tmp_path / "classifier/checkpoint/runs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in table))
    shown = bertcli("show", "classifier", "--json")
    predicted = bertcli("predict", "dev.jsonl", "-m", "classifier", "--device", "cpu")
    for result in (shown, predicted):
        assert result.status == 0
        assert result.err.splitlines() == [told.replace("no run is", "2 of its 3 runs are")]
    assert shown.records[0]["unfinished"] == {"step": 7, "finished": 2, "runs": 3}
    assert len(predicted.records) == 16
    assert "unfinished" not in bertcli("show", "model", "--json").records[0]

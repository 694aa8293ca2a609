"""Options that mean something, and those that cannot: each refused before anything is read or written."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from program import Result, environment

TUNE = ["finetune", "classification", "labelled.jsonl", "-o", "out"]
DEV = [*TUNE, "--dev", "dev.jsonl"]
PREDICT = ["predict", "dev.jsonl", "-m", "classifier"]
TRAIN = ["pretrain", "train.jsonl.zst", "-o", "out", "--num-layers", 1, "--hidden-size", 8, "--num-heads", 1]


@pytest.fixture
def home(house: Path, tmp_path: Path) -> Path:
    """Returns a copy of the house, in which `bertcli` runs."""
    return Path(shutil.copytree(house, tmp_path, dirs_exist_ok=True))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["mask", "pairs.jsonl.zst", "--fates", "nan,nan,nan"], "three percentages"),
        (["mask", "pairs.jsonl.zst", "--fates", "80,10"], "three percentages"),
        (["mask", "pairs.jsonl.zst", "--rate", "nan"], "not a finite number"),
        (["mask", "pairs.jsonl.zst", "--bernoulli", "--ngram", 2], "--bernoulli and --ngram"),
        ([*TRAIN, "--bernoulli", "--ngram", 2], "--bernoulli and --ngram"),
        (["pairs", "docs.jsonl", "--short", "nan"], "not a finite number"),
        (["pairs", "nowhere", "--pool", "docs.jsonl"], "nowhere: No such file"),
        (["vocab", "docs.jsonl", "--size", 1 << 31], "is not in the range"),
        (["pairs", "-", "--pool", "-"], "stdin is asked for twice"),
        ([*TRAIN, "--lr", "inf"], "not a finite number"),
        ([*TRAIN, "--save-at", "-5"], "not a list of steps"),
        ([*TRAIN, "--force", "--resume"], "begin anew, or go on"),
        ([*TRAIN, "--device", "meta"], "--device meta"),
        (["pretrain", "train.jsonl.zst", "-o", "out", "--start", "model", "--preset", "base"], "has its own size"),
        ([*TRAIN, "--preset", "4x500"], "found '4x500', a width of 500 without heads"),
        (["finetune", "classification", "dev.jsonl", "-o", "model", "-m", "model/steps/3"], "No such file"),
        (["embed", "dev.jsonl", "--layers", "9"], "--layers 9"),
        ([*PREDICT, "--max-length", 100000], "has 512 positions"),
        ([*DEV, "--lr", ""], "'' is not a valid number"),
        ([*DEV, "--lr", "1e-3,"], "'' is not a valid number"),
        ([*DEV, "--lr", "1e-3,,1e-4"], "'' is not a valid number"),
        ([*DEV, "--lr", "1e-3;1e-4"], "is not a valid number"),
        ([*DEV, "--lr", "1e-3,nan"], "not a finite number"),
        ([*DEV, "--lr", "1e-3,0"], "is not in the range"),
        ([*DEV, "--lr", "1e-3,2e-3,1e-3"], "'--lr'"),
        ([*DEV, "--batch-size", "8,1.5"], "is not a valid integer"),
        ([*DEV, "--batch-size", "8,0"], "is not in the range"),
        ([*DEV, "--batch-size", "8,16,8"], "'--batch-size'"),
        ([*DEV, "--epochs", "1,-1"], "is not in the range"),
        ([*DEV, "--epochs", "1,1.0"], "'--epochs'"),
        ([*DEV, "--restarts", 0], "is not in the range"),
        ([*DEV, "--early-stop", -1], "is not in the range"),
        ([*TUNE, "--positive", "yes"], "--positive yes: not one of the labels"),
        ([*TUNE, "--restarts", 2], "several runs need --dev"),
        ([*TUNE, "--lr", "1e-3,1e-4"], "several runs need --dev"),
        ([*TUNE, "--batch-size", "8,16"], "several runs need --dev"),
        ([*TUNE, "--epochs", "1,2"], "several runs need --dev"),
        ([*TUNE, "--early-stop", 1], "--early-stop and --metric need --dev"),
        ([*TUNE, "--metric", "accuracy"], "--early-stop and --metric need --dev"),
        ([*DEV, "--stride", 9], "--stride is an option of span, not of classification"),
        ([*DEV, "--max-question", 9], "--max-question is an option of span, not of classification"),
        ([*DEV, "--max-answer", 9], "--max-answer is an option of span, not of classification"),
        (["finetune", "span", *DEV[2:], "--cut"], "--cut is an option of classification and regression and choice"),
        (["finetune", "tagging", *DEV[2:], "--cut"], "--cut is an option of classification and regression and choice"),
        (["finetune", "regression", *DEV[2:], "--class-weights", "balanced"], "--class-weights is an option of"),
        ([*DEV, "--class-weights", "even"], "neither 'balanced' nor a list"),
        ([*DEV, "--class-weights", "0=1,1=-1"], "neither 'balanced' nor a list"),
        ([*DEV, "--class-weights", "0=1,=2"], "neither 'balanced' nor a list"),
        ([*DEV, "--class-weights", "0=1,1=inf"], "neither 'balanced' nor a list"),
        (["finetune", "parsing", "labelled.jsonl", "-o", "out"], "'parsing' is not one of"),
        (
            ["predict", "dev.jsonl", "-m", "classifier", "--nbest", 2],
            "--nbest is an option of span, not of classification",
        ),
        (
            ["predict", "dev.jsonl", "-m", "classifier", "--null-threshold", 1],
            "--null-threshold is an option of span, not of",
        ),
        ([*PREDICT, "--null-threshold", "nan"], "not a number"),
        (
            ["predict", "dev.jsonl", "-m", "classifier", "--stride", 9],
            "--stride is an option of span, not of classification",
        ),
        (
            ["predict", "dev.jsonl", "-m", "classifier", "--top-k", 2],
            "--top-k is an option of pretraining, not of classification",
        ),
        (
            ["predict", "pairs.jsonl.zst", "-m", "model", "--nbest", 2],
            "--nbest is an option of span, not of pretraining",
        ),
        (
            ["predict", "dev.jsonl", "-m", "classifier", "--pseudo-likelihood"],
            "--pseudo-likelihood is an option of pretraining, not of classification",
        ),
        (["predict", "dev.jsonl", "--pseudo-likelihood", "--top-k", 2], "--pseudo-likelihood and --top-k"),
        (["predict", "pairs.jsonl.zst", "-m", "model", "-m", "model"], "several models are an ensemble of a task"),
        ([*PREDICT, "-m", "model"], "classifier and model differ in their tasks"),
        ([*PREDICT, "-m", "nowhere"], "nowhere/config.json: No such file"),
        (["convert", "nowhere", "-o", "out"], "nowhere: no such folder, file or TensorFlow checkpoint"),
        (["convert", "model", "-o", "model", "--force"], "must be another folder than the model to start from, model"),
        (["convert", "model", "-o", ".", "--force"], "must be another folder than the model to start from, model"),
        (["convert", "model", "-o", "out", "--extend-vocab", "nowhere"], "nowhere: No such file"),
    ],
)
def test_what_cannot_be_meant(bertcli: Callable[..., Result], home: Path, line: list[object], said: str) -> None:
    before = sorted(path.relative_to(home) for path in home.rglob("*"))
    result = bertcli(*line)
    assert result.status in (2, 66)
    assert result.out == b""
    assert said in result.err
    assert "internal error" not in result.err
    assert sorted(path.relative_to(home) for path in home.rglob("*")) == before


def test_the_old_model_stays_until_the_new_one_begins(bertcli: Callable[..., Result], home: Path) -> None:
    before = (home / "classifier" / "model.safetensors").read_bytes()
    (home / "bad.jsonl").write_text('{"text": "a", "label": "0"}\nno record\n')
    line = ["finetune", "classification", "-o", "classifier", "--force", "--epochs", 1]
    assert bertcli(*line, "bad.jsonl").status == 65
    assert (home / "classifier" / "model.safetensors").read_bytes() == before
    assert bertcli(*line, "labelled.jsonl", "--seed", 1).status == 0
    assert (home / "classifier" / "model.safetensors").read_bytes() != before


def test_what_fails_before_its_first_step_leaves_no_folder(bertcli: Callable[..., Result], home: Path) -> None:
    (home / "bad.jsonl").write_text('{"text": "a", "label": "0"}\nno record\n')
    (home / "mine").mkdir()
    for output in ("new", "mine"):
        assert bertcli("finetune", "classification", "bad.jsonl", "-o", output).status == 65
        assert bertcli("pretrain", "bad.jsonl", "-o", output, *TRAIN[4:]).status == 65
    assert not (home / "new").exists()
    assert list((home / "mine").iterdir()) == []


def test_messages_stand_above_the_bar(home: Path) -> None:
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 120))
    line = [sys.executable, "-m", "bertcli", *DEV, "--epochs", "2"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=end, cwd=home, env=environment()) as process:
        os.close(end)
        shown = b""
        with suppress(OSError):  # the end of a terminal
            while data := os.read(terminal, 65536):
                shown += data
    os.close(terminal)
    assert process.returncode == 0
    parts = [part for part in re.split(r"[\r\n]", shown.decode()) if " parameters, " in part or ": dev " in part]
    assert len(parts) == 3
    assert all(re.match(r"[\d,]+ parameters, |step \d+: dev ", part) for part in parts), parts


def test_a_start_within_the_output_is_not_deleted_by_it(bertcli: Callable[..., Result], home: Path) -> None:
    shutil.copytree(home / "model", home / "whole" / "steps" / "2")
    line = ["finetune", "classification", "labelled.jsonl", "-o", "whole", "--force"]
    refused = bertcli(*line, "-m", "whole/steps/2")
    assert (refused.status, "must be another folder" in refused.err) == (2, True)
    assert (home / "whole" / "steps" / "2" / "model.safetensors").exists()


def test_the_dev_set_is_scored_after_each_epoch(bertcli: Callable[..., Result], home: Path) -> None:
    options = ["--epochs", 3, "--batch-size", 16, "--dev", "dev.jsonl", "-o", "out"]
    result = bertcli("finetune", "classification", "labelled.jsonl", *options)
    assert result.status == 0, result.err
    count = len((home / "labelled.jsonl").read_text().splitlines())
    ends = [-(-count * epoch // 16) for epoch in (1, 2, 3)]
    assert [int(line.split(":")[0].split()[1]) for line in result.err.splitlines() if ": dev " in line] == ends


@pytest.mark.parametrize("name", ["f2", "total", "labels", ""])
def test_a_metric_that_there_is_not_is_told_before_the_first_step(
    bertcli: Callable[..., Result], home: Path, name: str
) -> None:
    """Which are there is known when the records have been read; the old model stays."""
    before = (home / "classifier" / "model.safetensors").read_bytes()
    line = ["finetune", "classification", "labelled.jsonl", "-o", "classifier", "--force", "--dev", "dev.jsonl"]
    result = bertcli(*line, "--metric", name)
    assert (result.status, result.out) == (2, b"")
    assert "--metric" in result.err
    assert "accuracy" in result.err
    assert "matthews" in result.err
    assert (home / "classifier" / "model.safetensors").read_bytes() == before
    assert "step 1" not in result.err


def test_a_usual_grid_is_what_the_task_usually_has(bertcli: Callable[..., Result], home: Path) -> None:
    """A setting that is not given has one value, the task's own."""
    result = bertcli(*DEV, "--lr", "1e-3,2e-3")
    assert result.status == 0, result.err
    runs = result.records[0]["runs"]
    assert [(row["lr"], row["batch_size"], row["epochs"]) for row in runs] == [(1e-3, 32, 3), (2e-3, 32, 3)]


def test_a_vocabulary_given_by_the_environment_yields_to_the_start(
    bertcli: Callable[..., Result], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "other.txt").write_text((home / "vocab.txt").read_text() + "another\n")
    monkeypatch.setenv("BERTCLI_VOCAB", "other.txt")
    line = ["pretrain", "train.jsonl.zst", "-o", "out", "--start", "model", "--steps", 1, "--batch-size", 4]
    assert bertcli(*line).status == 0


def test_show_reads_a_pipe_once(shell: Callable[..., Result], home: Path) -> None:
    counted = shell("bertcli show <(bertcli mask pairs.jsonl.zst -q) --json").records[0]["records"]
    assert counted == shell("bertcli mask pairs.jsonl.zst -q | bertcli show --json").records[0]["records"] > 0
    assert shell("bertcli show <(cat vocab.txt) --json").records[0]["kind"] == "stream"


def test_a_full_stderr_stops_nothing(shell: Callable[..., Result], home: Path) -> None:
    usual = shell("bertcli mask pairs.jsonl.zst --plain")
    assert (shell("bertcli mask pairs.jsonl.zst --plain 2>/dev/full")[:2]) == usual[:2]
    assert (shell("bertcli mask pairs.jsonl.zst --plain 2>&-")[:2]) == usual[:2]
    assert shell("bertcli mask nowhere 2>/dev/full").status == 66
    assert shell("bertcli mask pairs.jsonl.zst >&-").status == 74

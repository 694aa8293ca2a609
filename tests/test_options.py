"""Options that mean something, and those that cannot: each refused before anything is read or written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Result

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
        (["finetune", "classification", "dev.jsonl", "-o", "model", "-m", "model/steps/3"], "No such file"),
        (["embed", "dev.jsonl", "--layers", "9"], "--layers 9"),
        (["predict", "dev.jsonl", "-m", "classifier", "--max-length", 100000], "has 512 positions"),
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

"""`finetune` at work on several runs, for tests: a folder to learn in, and a run that can be ended at any moment."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import toys
import warm
from program import Result

from bertcli import cli
from bertcli.commands.streams import Streams

COUNT, SEED, BATCH, STEPS = 96, 1, 16, 6  # records, and steps in an epoch
FINETUNE = ["-m", "start", "--dev", "dev.jsonl", "--device", "cpu", "--max-length", "16", "--batch-size", f"{BATCH}"]
FINETUNE += ["--lr", "5e-3", "--epochs", "4", "--seed", f"{SEED}"]


class Home:
    """A folder with what there is to learn from, where `finetune classification` runs."""

    def __init__(self, path: Path, program: warm.Program) -> None:
        self.path, self.program = path, program
        toys.start(path / "start")
        (path / "train.jsonl").write_bytes(models.lines(toys.records("classification", COUNT)))
        (path / "dev.jsonl").write_bytes(models.lines(toys.records("classification", 60, seed=1)))

    def finetune(self, out: str, *options: object, stdin: bytes | None = None) -> Result:
        """Returns how it ended, its model in a folder of that name; `stdin` is bytes instead of the file."""
        return self.program.run(line(out, *options, files=["train.jsonl"] * (stdin is None)), self.path, stdin or b"")

    def rescored(self, out: str) -> dict[str, Any]:
        """Returns the dev scores of a folder by `predict | score`."""
        predicted = self.program.run(["predict", "dev.jsonl", "-m", out, "--plain", "--device", "cpu"], self.path)
        return dict(self.program.run(["score", "classification"], self.path, predicted.out).records[0])


def line(out: object, *options: object, files: list[str]) -> list[str]:
    """Returns the words of a command that learns from files; of options that come twice the last counts."""
    return [str(word) for word in ["finetune", "classification", *files, "-o", out, *FINETUNE, *options]]


class Killed(BaseException):
    """Ends a command where it stands, as SIGKILL does."""


class Here:
    """`finetune` in this process, to be watched, and ended in the middle of what it says."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.moment: tuple[int, str, Any] | None = None
        self.watch: Callable[[str], None] = lambda message: None
        monkeypatch.chdir(home)
        for name in ("note", "warn"):
            monkeypatch.setattr(Streams, name, lambda _, message: self.hear(message))

    def hear(self, message: str) -> None:
        self.said.append(message)
        self.watch(message)
        run = sum(said.startswith("starting from") for said in self.said)
        if self.moment and run == self.moment[0] and re.search(self.moment[1], message):
            how, self.moment = self.moment[2], None
            if how is Killed:
                raise Killed
            os.kill(os.getpid(), how)

    def run(self, out: Path, *options: object, moment: tuple[int, str, Any] | None = None) -> int:
        """Returns the status; the moment is the number of a run, what it says then, and how it is ended."""
        self.said, self.moment = [], moment
        try:
            return cli.run(line(out, *options, files=["train.jsonl"]))
        except Killed:
            return -signal.SIGKILL


def rows(path: Path) -> list[dict[str, Any]]:
    """Returns a log without the time that it took."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


def notes(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "bertcli.json").read_text()))

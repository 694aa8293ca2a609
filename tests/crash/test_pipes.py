"""Stages of a pipe of which one is killed or stalls: no later stage takes a part for the whole, and nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import crashes
import pytest
import warm
from program import decompressed

SMALL = ["--batch-size", "8", "--device", "cpu", "--quiet"]
PIPES = {
    "read | pairs | mask | pretrain": (
        "corpus.txt",
        ["read", "text"],
        ["pairs", "--max-length", "64", "--quiet"],
        ["mask", "--quiet"],
        ["pretrain", "-o", "out", *crashes.SIZE, *SMALL, "--steps", "9"],
    ),
    "read | tokenize": ("train.tsv", ["read", "glue-sst-2"], ["tokenize", "--quiet"]),
    "read | finetune": (
        "train.tsv",
        ["read", "glue-sst-2"],
        ["finetune", "classification", "-o", "out", "--epochs", "1", *SMALL],
    ),
    "predict | score": (
        "labelled.jsonl",
        ["predict", "-m", "classifier", "--device", "cpu", "--quiet"],
        ["score", "classification"],
    ),
    "tokenize | embed": ("labelled.jsonl", ["tokenize", "--quiet"], ["embed", "--device", "cpu", "--quiet"]),
}
PARTS = [(name, part) for name, (_, *stages) in PIPES.items() for part in range(len(stages) - 1)]


class Pipe:
    """The stages of a pipe at work, the first one's input in our hands."""

    def __init__(self, name: str, folder: Path, program: warm.Program, *options: str) -> None:
        file, *lines = PIPES[name]
        self.folder, self.data = folder, (folder / file).read_bytes()
        inlet, self.ours = os.pipe()
        self.stages: list[warm.Process] = []
        for number, line in enumerate(lines):
            is_last = number == len(lines) - 1
            following, outlet = (None, os.open(folder / "stdout", os.O_CREAT | os.O_WRONLY)) if is_last else os.pipe()
            with (folder / f"err{number}").open("wb") as err:
                self.stages.append(program.start([*line, *options], folder, [inlet, outlet, err]))
            os.close(inlet)
            os.close(outlet)
            inlet = following or -1

    def feed(self, data: bytes) -> None:
        """Write to the first stage, which takes it."""
        while data:
            data = data[os.write(self.ours, data) :]

    def ended(self) -> tuple[list[int], list[str]]:
        """Returns how all stages have ended, and what they have said."""
        os.close(self.ours)
        statuses = [stage.wait() for stage in self.stages]
        return statuses, [(self.folder / f"err{number}").read_text() for number in range(len(statuses))]


def written(stage: warm.Process) -> int:
    """Returns how many bytes a process has written."""
    found = re.search(r"wchar: (\d+)", Path(f"/proc/{stage.pid}/io").read_text())
    assert found
    return int(found[1])


@pytest.fixture
def folder(house: Path, tmp_path: Path) -> Path:
    shutil.copytree(house, tmp_path / "folder")
    return tmp_path / "folder"


@contextmanager
def at_work(name: str, folder: Path, program: warm.Program, *options: str) -> Iterator[Pipe]:
    yield Pipe(name, folder, program, *options)
    crashes.assert_alone(folder)


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_a_stage_is_killed(name: str, part: int, folder: Path, program: warm.Program) -> None:
    """In the middle of its frame: every later stage has bad data, and none before it hangs."""
    with at_work(name, folder, program) as pipe:
        pipe.feed(pipe.data)
        killed = pipe.stages[part]
        assert crashes.wait_until(lambda: written(killed) > 100, warm.PATIENCE)
        killed.send_signal(signal.SIGKILL)
        assert crashes.wait_until(lambda: not killed.is_alive(), warm.PATIENCE)
        statuses, said = pipe.ended()
    before = [0] * (part - 1) + [-signal.SIGPIPE] * (part > 0)
    assert statuses == [*before, -signal.SIGKILL, *[65] * (len(statuses) - part - 1)], said
    for err in said[part + 1 :]:
        assert re.fullmatch(r"bertcli \w+: <stdin>:\d+: .*\(truncated\)\n", err), err
    assert set(said[: part + 1]) == {""}
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", PIPES)
def test_a_stage_stalls(name: str, folder: Path, program: warm.Program) -> None:
    """And before it the producer, in the middle of a line: what comes out in the end is the same."""
    made = []
    for stalls in (False, True):
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "stdout").unlink(missing_ok=True)
        with at_work(name, folder, program) as pipe:
            half = len(pipe.data) // 2 + 3
            pipe.feed(pipe.data[:half])
            if stalls:
                time.sleep(0.5)
                pipe.stages[-2].send_signal(signal.SIGSTOP)
            pipe.feed(pipe.data[half:])
            if stalls:
                time.sleep(0.5)
                pipe.stages[-2].send_signal(signal.SIGCONT)
            statuses, said = pipe.ended()
        assert set(statuses) == {0}, said
        is_learned = (folder / "out").exists()
        out = decompressed((folder / "stdout").read_bytes())
        made.append(crashes.essence(folder / "out") if is_learned else out)
    assert made[0]
    assert made[0] == made[1]


@pytest.mark.parametrize(("stage", "source"), [("tokenize", "corpus.txt"), ("mask", "pairs.jsonl.zst")])
def test_a_reader_goes_away_from_workers(stage: str, source: str, folder: Path, program: warm.Program) -> None:
    """The stage before ends by SIGPIPE, quietly, and so do its processes."""
    (folder / "much").write_bytes(decompressed((folder / source).read_bytes()) * 300)
    inlet, outlet = os.pipe()
    with open("/dev/null", "rb") as nothing, (folder / "err").open("wb") as err:
        line = [stage, "much", "--plain", "--quiet", "--workers", "3"]
        process = program.start(line, folder, [nothing, outlet, err])
    os.close(outlet)
    assert crashes.wait_until(
        lambda: os.read(inlet, 1 << 16) and len(crashes.below(process.pid)) == 2, warm.PATIENCE, 0
    )
    os.close(inlet)
    assert (process.wait(), (folder / "err").read_text()) == (-signal.SIGPIPE, "")
    crashes.assert_alone(folder)

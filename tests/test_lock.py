"""Two processes in one folder: the second is refused, whatever became of others before."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import models
import pytest
import warm
from program import environment

from bertcli.errors import CannotCreate
from bertcli.lock import NAME, held

HOLDER = """
import os, sys
from pathlib import Path
from bertcli.lock import held
with held(Path(sys.argv[1]), print):
    if len(sys.argv) > 2 and os.fork():
        sys.stdout.write("held\\n"); sys.stdout.flush()
        os.kill(os.getpid(), 9)
    if len(sys.argv) == 2:
        sys.stdout.write("held\\n"); sys.stdout.flush()
    sys.stdin.read()
    os._exit(0) if len(sys.argv) > 2 else None
"""


@contextmanager
def other(folder: Path, *how: str) -> Iterator[subprocess.Popen[bytes]]:
    """Gives a process that holds a folder until its stdin ends; or whose fork outlives it."""
    command = [sys.executable, "-c", HOLDER, str(folder), *how]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.stdin.close()


def test_the_second_is_told_who_the_first_is(tmp_path: Path) -> None:
    with other(tmp_path) as first:
        told = f"^{tmp_path}: process {first.pid} on {socket.gethostname()} is at work there$"
        with pytest.raises(CannotCreate, match=told), held(tmp_path, pytest.fail):
            pass
        assert (tmp_path / NAME).exists()
    assert not (tmp_path / NAME).exists()
    with held(tmp_path, pytest.fail):
        assert (tmp_path / NAME).read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"
    assert os.listdir(tmp_path) == []


def test_a_killed_holder_is_no_hindrance(tmp_path: Path) -> None:
    """Nor what it has forked, which has the file open still."""
    with other(tmp_path, "forks") as first:
        assert first.wait() == -signal.SIGKILL
        assert (tmp_path / NAME).read_text().startswith(f"process {first.pid} on ")
        with held(tmp_path, pytest.fail):
            pass
    assert os.listdir(tmp_path) == []


def test_a_file_that_its_holder_has_just_removed_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, opened = fcntl.lockf, []

    def late(file: int, how: int) -> None:
        if not opened:
            (tmp_path / NAME).unlink()
        opened.append(file)
        lock(file, how)

    monkeypatch.setattr(fcntl, "lockf", late)
    with held(tmp_path, pytest.fail):
        assert len(opened) == 2
        assert (tmp_path / NAME).read_text()


def test_a_file_that_is_another_holders_by_now_stays(tmp_path: Path) -> None:
    with held(tmp_path, pytest.fail):
        (tmp_path / NAME).unlink()
        (tmp_path / NAME).write_text("another's")
    assert (tmp_path / NAME).read_text() == "another's"


def test_a_disk_without_locks_is_warned_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "lockf", none)
    told: list[str] = []
    with held(tmp_path, told.append):
        pass
    assert told == [f"{tmp_path}: no locks on its disk (No locks available): no other run may be at work there"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / NAME).symlink_to(tmp_path / "mine")
    with pytest.raises(CannotCreate, match="symbolic links"), held(tmp_path, pytest.fail):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("options", [[], ["--resume"], ["--force"]])
def test_a_second_run_leaves_the_first_alone(program: warm.Program, tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(models.pairs(30)))
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    line = ["pretrain", "pairs.jsonl", "-o", "model", "--num-layers", "1", "--hidden-size", "16", "--num-heads", "2"]
    line += ["--batch-size", "8", "--device", "cpu"]
    with open(os.devnull, "r+b") as nothing, (tmp_path / "err").open("wb") as err:
        first = program.start(line, tmp_path, [nothing, nothing, err])
    log, ends = tmp_path / "model" / "log.jsonl", time.monotonic() + warm.PATIENCE
    while not (log.exists() and log.stat().st_size):
        assert time.monotonic() < ends
        assert first.is_alive(), (tmp_path / "err").read_text()
        time.sleep(0.02)
    second = program.run([*line, *options], tmp_path)
    assert (second.status, second.out) == (73, b"")
    assert second.err.splitlines()[-1].startswith(f"bertcli pretrain: model: process {first.pid} on ")
    first.send_signal(signal.SIGTERM)
    assert first.wait() == 75
    steps = [line.split(b",")[0] for line in log.read_bytes().splitlines()]
    assert steps == [b'{"step":%d' % (number + 1) for number in range(len(steps))]
    assert not (tmp_path / "model" / NAME).exists()

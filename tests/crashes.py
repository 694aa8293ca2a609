"""Runs that are ended in the middle, for tests: real processes, what is left of them, and what they have left.

All processes of a run have its folder as their working directory, by which they are found.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from mmap import PAGESIZE
from pathlib import Path
from subprocess import DEVNULL, run
from typing import Any

import pytest
from safetensors.torch import load_file

SOON = 10  # seconds within which whatever belongs to a dead run has to end
SIZE = ["--num-layers", "1", "--hidden-size", "32", "--num-heads", "2", "--max-length", "64", "--device", "cpu"]


# -- processes --------------------------------------------------------------------------------------------------------


def at_work(folder: Path) -> list[int]:
    """Returns the processes that have a folder as their own and are not dead."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it may end meanwhile
            if os.readlink(process / "cwd") == str(folder) and _state(process) not in "ZX":
                found.append(int(process.name))
    return found


def _state(process: Path) -> str:
    return (process / "stat").read_text().rpartition(") ")[2][0]


def below(process: int) -> list[int]:
    """Returns the processes that one has started."""
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def kill(processes: list[int]) -> None:
    """End processes without a word, as far as they are there."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def wait_until(condition: Callable[[], Any], seconds: float, pause: float = 0.02) -> bool:
    """Returns whether something has come true within so many seconds."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(pause)
    return True


def assert_alone(folder: Path) -> None:
    """Asserts that soon no process of a folder's run is left; those that are left are ended."""
    is_quiet = wait_until(lambda: not at_work(folder), SOON)
    left = {process: Path(f"/proc/{process}/cmdline").read_bytes() for process in at_work(folder)}
    kill(list(left))
    assert is_quiet, f"still there after {SOON} s: {left}"


# -- what they have left ----------------------------------------------------------------------------------------------


def checkpoints(path: Path) -> list[int]:
    """Returns the steps of the checkpoints that have their names, the newest last."""
    return sorted(int(name) for name in names(path / "checkpoint") if name.isdecimal())


def names(folder: Path) -> list[str]:
    """Returns what a folder holds: nothing, where it is not there, or goes while a run at work comes to its end."""
    with suppress(FileNotFoundError):
        return os.listdir(folder)
    return []


def assert_loads(checkpoint: Path) -> None:
    """Asserts that a checkpoint is whole: every tensor can be read, and its state tells of the step of its name."""
    names = {file.name for file in checkpoint.iterdir()}
    tensors = [load_file(checkpoint / name) for name in names if name.endswith(".safetensors")]
    assert len(tensors) == 3, f"{checkpoint} has its name, and of its files only {names}"
    assert all(tensors)
    assert "state.json" in names, f"{checkpoint} has its name, and of its files only {names}"
    assert json.loads((checkpoint / "state.json").read_text())["step"] == int(checkpoint.name)


def assert_newest_loads(path: Path) -> int:
    """Asserts that the newest complete checkpoint of a model folder is whole; returns its step, 0 for none."""
    steps = checkpoints(path)
    if steps:
        assert_loads(path / "checkpoint" / str(steps[-1]))
    return steps[-1] if steps else 0


def logged(path: Path) -> list[dict[str, Any]]:
    """Returns the whole rows of a model folder's log, without the time that they took."""
    log = path / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
    rows = [json.loads(line) for line in lines if line.endswith(b"\n")]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def essence(path: Path) -> tuple[bytes, list[dict[str, Any]], list[str]]:
    """Returns what two runs of which one was ended have to have alike: weights, log, and the names of their files."""
    names = sorted(f"{file.relative_to(path)}" for file in path.rglob("*"))
    return (path / "model.safetensors").read_bytes(), logged(path), names


# -- disks ------------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Gives a disk of so many bytes, as in `1m`; skips the test where none may be mounted."""
    place.mkdir()
    mounted = run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk of its own: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        run(["umount", "--lazy", place], stdout=DEVNULL, check=True)


def remount(place: Path, option: str) -> bool:
    """Returns whether a disk could be made `ro`, or `rw` again; files that are written to forbid the former."""
    return run(["mount", "-o", f"remount,{option}", place], capture_output=True, check=False).returncode == 0


def size(place: Path) -> int:
    """Returns the bytes that the files of a folder take of a disk, in whole pages."""
    return sum(-(-file.stat().st_size // PAGESIZE) * PAGESIZE for file in place.rglob("*") if file.is_file())


def fill(place: Path, leaving: int = 0) -> Path:
    """Returns a file that takes what room a disk has, but for so many bytes."""
    filler = place / "filler"
    filler.unlink(missing_ok=True)
    room = os.statvfs(place)
    count = max(0, room.f_bavail * room.f_bsize - leaving)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, count) if count else None
    return filler


@contextmanager
def forbidden(place: Path) -> Iterator[None]:
    """Lets a folder be read only, for all who open what is in it from now on."""
    for options in (["--bind", place, place], ["-o", "remount,ro,bind", place]):
        mounted = run(["mount", *options], capture_output=True, check=False)
        if mounted.returncode:
            pytest.skip(f"no mount of its own: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        run(["umount", "--lazy", place], stdout=DEVNULL, check=True)

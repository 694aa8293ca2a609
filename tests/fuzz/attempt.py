"""One command in a process forked from one that has imported everything: how it ended, what it took, what it left."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import zstandard  # noqa: F401  # in the parent, before anything is measured

from bertcli import cli
from bertcli.lines import Source
from bertcli.records import Anything
from bertcli.stream import Reader
from bertcli.text.wordpiece import WordPiece

PATIENCE = 60  # seconds on a clock, since others may have the cores
CEILING = 4 << 30  # bytes of address space beyond what the process has: the machine is spared, and the attempt fails
LENGTH = 16  # tokens of a sequence that is learned from


class Outcome(NamedTuple):
    """The end of a command: its status (None: it was killed, or died), seconds of its own, bytes at its peak."""

    status: int | None
    out: bytes
    err: str
    seconds: float
    peak: int


def attempt(words: list[str], cwd: Path) -> Outcome:
    """Returns how `bertcli WORDS...` ends in a folder, or a stage of training where the first word is "learn"."""
    out, err = (os.memfd_create(name) for name in ("out", "err"))
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        _run(words, cwd, out, err, outlet)
    os.close(outlet)
    ended = select.select([inlet], [], [], PATIENCE)[0]
    if not ended:
        os.kill(child, signal.SIGKILL)
    with open(inlet, "rb") as file:
        report = json.loads(file.read() or b"{}")
    os.waitpid(child, 0)
    return Outcome(
        report.get("status"),
        _taken(out),
        _taken(err).decode("utf-8", "surrogateescape"),
        report.get("seconds", PATIENCE),
        report.get("peak", 0),
    )


def _taken(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def _run(words: list[str], cwd: Path, out: int, err: int, report: int) -> None:
    """Be the command; never returns."""
    status: int | None = None
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(cwd)
        sys.setrecursionlimit(1000)  # Python's own; the parent's is higher, see `run.prepare`
        Path("/proc/self/clear_refs").write_text("5")  # the peak is to be this process's own
        before = _memory("VmRSS")
        limit = _memory("VmSize") + CEILING
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        started = time.process_time()
        if words[0] == "learn":
            _, name, vocabulary, file = words
            cli.invoke = lambda _: learn(name, vocabulary, file)
            words = ["pretrain" if name == "pretraining" else "finetune"]
        status = cli.run(words)
        seconds, peak = time.process_time() - started, _memory("VmHWM") - before
        os.write(report, json.dumps({"status": status, "seconds": seconds, "peak": peak}).encode())
    except BaseException:
        traceback.print_exc()
    os._exit(0)


def _memory(name: str) -> int:
    """Returns a figure of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) << 10


def learn(name: str, vocabulary: str, file: str) -> None:
    """Make examples of all records of a file, as `pretrain` and `finetune` do before they train."""
    from bertcli.engine.spool import Learning
    from bertcli.tasks import new
    from bertcli.tasks.pretraining import Pretraining

    wordpiece, _ = WordPiece.open(Path(vocabulary))
    task: Any = Pretraining(wordpiece, LENGTH) if name == "pretraining" else new(name, wordpiece, LENGTH)
    stage = Learning(task)
    with open(file, "rb", buffering=0) as opened:
        for batch in Reader([Source(opened, file)], Anything).batches(stage.size):
            made = stage(batch) if batch else None
            if made and made.fault:
                raise made.fault
    task.close()

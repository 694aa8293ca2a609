"""A run that is killed in its middle and resumed, beside two that nobody disturbs: what it loses, and what it takes.

python tests/bench/resume.py -v VOCAB -t TEXT [--preset base] [--steps 300] [--save-every 50] [-- OPTION...]

First as it is, then with --deterministic. Of each pair of runs the largest and the mean difference of a step's loss,
and whether the weights are equal bit for bit; of each run its pace; of the resumed one the seconds from its start to
its first new step, beside those that a run takes to its first step at all. Ends with 1 where the deterministic runs are
not equal. The options behind -- go to all of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rates import pace
from supply import Supply

LENGTH, BATCH = 128, 256
WARM = 20  # steps before a run's pace is taken


@dataclass(frozen=True)
class Run:
    """A finished run: its losses, its weights, the seconds to the first step of each of its processes, its pace."""

    losses: list[float]
    weights: bytes
    starts: list[float]
    rate: float


def rows(out: Path) -> list[dict[str, Any]]:
    """Returns the rows of the log that are whole."""
    log = out / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True) if log.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def trained(line: list[str], out: Path, *, kill_at: int = 0) -> Run:
    """Returns what comes of a run that, where that is asked for, is killed after a step and resumed."""
    shutil.rmtree(out, ignore_errors=True)
    starts = []
    if kill_at:
        starts.append(process([*line, "-o", str(out)], out, 0, kill_at))
        newest = max(int(home.name) for home in (out / "checkpoint").glob("[0-9]*"))
        print(f"  killed after step {len(rows(out))}, of which {newest} are in a checkpoint", flush=True)
        starts.append(process([*line, "-o", str(out), "--resume"], out, newest))
    else:
        starts.append(process([*line, "-o", str(out)], out, 0))
    found = rows(out)
    rate = 0.0 if kill_at else pace(found, WARM).mean
    return Run([row["loss"] for row in found], (out / "model.safetensors").read_bytes(), starts, rate)


def process(line: list[str], out: Path, done: int, kill_at: int = 0) -> float:
    """Returns the seconds from the start of a process to the end of the step after `done`; kills it, or lets it end."""
    begun, first = time.time(), None
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen([sys.executable, "-m", "bertcli", "pretrain", *line], stdout=said, stderr=said)
        while running.poll() is None:
            log = out / "log.jsonl"
            if log.exists() and log.stat().st_mtime > begun and (known := rows(out)):
                first = first or (time.time() - begun if known[-1]["step"] > done else None)
                if kill_at and first and known[-1]["step"] >= kill_at:
                    running.send_signal(signal.SIGKILL)
            time.sleep(0.02)
        said.seek(0)
        if running.returncode != (-signal.SIGKILL if kill_at else 0):
            raise ChildProcessError(said.read())
    assert first
    return first


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-v", "--vocab", required=True)
    parser.add_argument("-t", "--text", action="append", required=True)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--work", type=Path)
    parser.add_argument("options", nargs="*")
    asked = parser.parse_args()
    work = asked.work or Path(tempfile.mkdtemp())
    needed = int(0.7 * asked.steps * BATCH)  # so that the run is killed in its first epoch and ends in the second
    files = Supply(asked.vocab, asked.text, work, asked.workers).records(LENGTH, needed)
    line = [*files, "-v", asked.vocab, "--preset", asked.preset, "--steps", str(asked.steps)]
    line += ["--batch-size", str(BATCH), "--save-every", str(asked.save_every), "--lr", "5e-4", *asked.options]
    print(f"$ bertcli pretrain {shlex.join(line)}")
    is_equal = True
    for how in ([], ["--deterministic"]):
        kinds = {"first": 0, "second": 0, "killed and resumed": asked.steps // 2}
        runs = {name: trained([*line, *how], work / "run", kill_at=kill) for name, kill in kinds.items()}
        print(shlex.join(how) or "as it is")
        for name, run in runs.items():
            starts = ", ".join(f"{start:.1f}" for start in run.starts)
            rate = f"; {run.rate / 1e3:.1f} k tokens/s" if run.rate else ""
            print(f"  {name}: first step of each process after {starts} s{rate}")
        for (name, run), (other, another) in itertools.combinations(runs.items(), 2):
            apart = [abs(a - b) for a, b in zip(run.losses, another.losses, strict=True)]
            is_same = run.weights == another.weights
            is_equal &= is_same or not how
            told = f"largest {max(apart):.2e}, mean {sum(apart) / len(apart):.2e}"
            print(f"  {name} / {other}: losses apart {told}; weights {'equal' if is_same else 'not equal'}", flush=True)
    sys.exit(not is_equal)


if __name__ == "__main__":
    main()

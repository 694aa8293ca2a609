"""Runs as processes of their own, ours and the given peer's, and their lines in the table."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rates import Pace, after, flops_per_token, pace, peak

from bertcli.model.config import shape

HERE = Path(__file__).parent
WATCHED = str(HERE / "watched.py")
SWITCHES = (
    "precision",
    "kernels",
    "compiled",
    "cuda_graphs",
    "max_tokens",
    "optimizer",
    "workers",
    "ranks",
)  # where notes tell of them
TOLD = 12  # lines of stderr that are shown


@dataclass(frozen=True)
class Size:
    """What both sides of a comparison train: a preset, the longest sequence, and the tokens of a padded step."""

    preset: str
    length: int
    tokens: int

    @property
    def batch(self) -> int:
        """Returns the sequences of a step."""
        return self.tokens // self.length

    def teraflops(self, rate: float) -> float:
        """Returns the useful operations a second, in 10¹², at so many real tokens a second."""
        layers, width, _ = shape(self.preset)
        return rate * flops_per_token(layers, width, self.length) / 1e12


@dataclass(frozen=True)
class Ran:
    """What a run of ours has left: its log, its pace, and what its process and its folder know."""

    rows: list[dict[str, Any]]
    pace: Pace
    first: float  # seconds from the start of the process to the end of its first step
    compiling: float  # seconds
    recompiled: list[dict[str, Any]]  # after the warm-up
    memory: int
    reserved: int  # by torch on a card, or 0
    card: str
    switches: dict[str, Any]

    def show(self, name: str, size: Size) -> None:
        """Print the line of the table."""
        mean, slowest, fastest = (rate / 1e3 for rate in self.pace)
        made = size.teraflops(self.pace.mean)
        share = f" ({100e12 * made / most:.1f}% of peak)" if (most := peak(self.card)) else ""
        held, compiling = f"{self.memory / 2**30:.1f} GiB", f"{self.compiling:.1f} s of compiling"
        held += f" ({self.reserved / 2**30:.1f} reserved)" if self.reserved else ""
        again = f"{len(self.recompiled)} recompilations after warm-up"
        switches = ", ".join(f"{key} {value}" for key, value in self.switches.items()) or "no switches told"
        print(f"{name}: {mean:.1f} k tokens/s ({slowest:.1f} to {fastest:.1f}), {made:.1f} TFLOP/s{share}, {held}")
        print(f"  first step after {self.first:.1f} s, {compiling}, {again}; {switches}", flush=True)
        for each in self.recompiled:
            print(f"  recompiled {each['name']}: {each['reason']}", flush=True)


def ours(arguments: str, out: Path, warm: int, launcher: str = "", env: dict[str, str] | None = None) -> Ran:
    """Returns what came of `bertcli pretrain ARGUMENTS -o OUT`; raises `ChildProcessError` where it fails.

    `launcher` comes between python and the program, as torchrun does.
    """
    shutil.rmtree(out, ignore_errors=True)
    seen, begun = out.with_suffix(".json"), time.time()
    line = f"{sys.executable} {launcher} {WATCHED} {seen} pretrain -o {out} {arguments}"
    printed = process(line, env)
    log = out / "log.jsonl"
    rows = [json.loads(row) for row in log.read_text().splitlines()]
    known = json.loads(seen.read_text())
    start = log.stat().st_mtime - rows[-1]["seconds"]  # the last row is written as soon as its step is done
    notes = flat(json.loads((out / "bertcli.json").read_text()) | last_object(printed))
    return Ran(
        rows,
        pace(rows, warm),
        start + rows[0]["seconds"] - begun,
        sum(each["seconds"] for each in known["compilations"]),
        after(known["compilations"], start + rows[warm - 1]["seconds"]),
        known["memory"],
        known["reserved"],
        known["card"],
        {key: notes[key] for key in SWITCHES if key in notes},
    )


def theirs(peer: str, size: Size, *, compiled: bool) -> float:
    """Returns the real tokens a second of the given peer, having printed what it says."""
    options = f"--size {size.preset} --seq {size.length} --tokens {size.tokens}" + " --compile" * compiled
    printed = process(f"{sys.executable} {shlex.quote(peer)} {options}")
    print(printed.strip(), flush=True)
    found = re.search(r"([\d.]+) k real tokens/s, ([\d.]+) TFLOP/s", printed)
    assert found
    rate, told = float(found[1]) * 1e3, float(found[2])
    assert abs(size.teraflops(rate) - told) < 0.02 * told + 0.1, "ours and the peer count operations alike"
    return rate


def process(line: str, env: dict[str, str] | None = None) -> str:
    """Returns what a command printed, having shown it and the end of its messages; raises `ChildProcessError`."""
    print(f"$ {line}", flush=True)
    begun = time.monotonic()
    done = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False, env=env)
    shown = done.stderr.splitlines()[-TOLD if not done.returncode else -60 :]
    print("".join(f"  | {each}\n" for each in shown) + f"  [{time.monotonic() - begun:.1f} s]", flush=True)
    if done.returncode:
        raise ChildProcessError(f"exit status {done.returncode}: {line}")
    return done.stdout


def flat(notes: dict[str, Any]) -> dict[str, Any]:
    """Returns notes with those in their groups, such as settings, beside them."""
    return notes | {name: value for group in notes.values() if isinstance(group, dict) for name, value in group.items()}


def last_object(printed: str) -> dict[str, Any]:
    """Returns the JSON object of the last line that is one; other ranks and libraries may print too."""
    for line in reversed(printed.splitlines()):
        if line.startswith("{"):
            return dict(json.loads(line))
    return {}

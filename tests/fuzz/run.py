"""Hostile inputs for every reader, and what became of them.

python tests/fuzz/run.py [READER ...] [--count 500] [--seed 0] [--keep DIR] [--json]: makes inputs out of the corpus,
gives each to a command in a process of its own, and prints for each reader how many ended with which status, the
slowest's seconds and the most memory beyond what a process has at its start. Right is: a status of the contract; no
traceback; on failure one line that begins with the command and names the file; no control character in what is said;
under SECONDS and MEMORY; no file touched; and success only where others than the program find no fault (`checks.py`).
What is not right is saved to DIR with its command, and the status is 1.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import pkgutil
import random
import re
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":
    sys.path[:1] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent.parent)]

from fuzz import checks
from fuzz.attempt import Outcome, attempt
from fuzz.mutate import BOMB, mutated
from fuzz.targets import OUTPUT, Target, targets

from bertcli import lines
from bertcli.errors import Status

SECONDS, PACE = 5.0, 1 << 22  # of a processor, and bytes a second once decompressed: damage may make very many
MEMORY = 300 << 20  # bytes beyond what a process has at its start
LIGHT = ("bertcli.commands", "bertcli.text", "bertcli.formats", "bertcli.metrics", "bertcli.parallel", "tokenizers")
LOADED = {False: LIGHT, True: ("bertcli.engine", "bertcli.tasks", "bertcli.weights")}  # a small process forks quickly
REGRESSION = "found-"  # begins the name of an input that is tried as it is only, for it is hostile already
SAID = re.compile(r"[^\n]*[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\udc80-\udcff]")


@dataclass
class Row:
    """What became of a reader's inputs."""

    name: str
    statuses: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    peak: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.statuses[str(outcome.status)] += 1
        self.seconds, self.peak = max(self.seconds, outcome.seconds), max(self.peak, outcome.peak)

    def __str__(self) -> str:
        ended = " ".join(f"{status}:{count}" for status, count in sorted(self.statuses.items()))
        total = self.statuses.total()
        return f"{self.name:<32}{total:>6}  {ended:<28}{self.seconds:>7.2f}{self.peak >> 20:>7}{len(self.wrong):>6}"


HEAD = f"{'reader':<32}{'inputs':>6}  {'status:inputs':<28}{'s':>7}{'MB':>7}{'wrong':>6}"


def inputs(target: Target, count: int, seed: int) -> Iterator[tuple[bytes, list[str]]]:
    """Yields inputs with a command line: the corpus as it is, by each line, then `count` made out of its seeds."""
    for path in target.seeds():
        for line in target.lines:
            yield path.read_bytes(), line
    seeds = [path.read_bytes() for path in target.seeds() if not path.name.startswith(REGRESSION)]
    for number in range(count):
        rng = random.Random(f"{seed} {target.name} {number}")
        yield mutated(rng, rng.choice(seeds), target.kinds), target.lines[number % len(target.lines)]


def fuzz(target: Target, given: Iterable[tuple[bytes, list[str]]], keep: Path | None) -> Row:
    """Returns what became of the inputs of a reader."""
    row = Row(target.name)
    for number, (data, line) in enumerate(given):
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home) / "work"
            folder.mkdir()
            target.prepare(folder)
            (folder / target.place).write_bytes(data)
            before = listing(Path(home))
            outcome = attempt(line, folder)
            shutil.rmtree(folder / OUTPUT, ignore_errors=True)
            problem = judged(target, line, data, outcome) or (
                "a file was touched" if listing(Path(home)) != before else ""
            )
        row.add(outcome)
        if problem:
            name = f"{target.name}-{number}"
            row.wrong.append(f"{name}: {problem}: {shlex.join(line)}: {outcome.status} {outcome.err[-300:]!r}")
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / name).write_bytes(data)
    return row


def listing(folder: Path) -> list[tuple[str, int, int]]:
    """Returns each file in a folder with its size and time."""
    files = sorted(path for path in folder.rglob("*") if not path.is_dir())
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def judged(target: Target, line: list[str], data: bytes, outcome: Outcome) -> str:
    """Returns what is wrong with an outcome, "" for nothing."""
    if outcome.status is None:
        return "hung, or died"
    if "Traceback" in outcome.err or "internal error" in outcome.err or "out of memory" in outcome.err:
        return "an internal error"
    if SAID.search(outcome.err):
        return "a control character in what is said"
    if outcome.seconds > SECONDS + checks.size(data) / PACE:
        return f"took {outcome.seconds:.1f} s"
    if outcome.peak > MEMORY:
        return f"took {outcome.peak >> 20} MB"
    if outcome.status == Status.DONE:
        return succeeded(target, data, outcome.out)
    return failed(target, line, outcome)


def succeeded(target: Target, data: bytes, out: bytes) -> str:
    """Returns what is wrong with a success."""
    try:
        return target.check(data, out)
    except checks.Damaged as error:
        return f"a wrong success ({error})"
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return f"a success that cannot be checked ({type(error).__name__}: {error})"


def failed(target: Target, line: list[str], outcome: Outcome) -> str:
    """Returns what is wrong with a failure."""
    if outcome.status not in (Status.BAD_DATA, Status.NO_INPUT) and "not a finite number" not in outcome.err:
        return "another status than 65 and 66"
    said = [each for each in outcome.err.splitlines() if each.startswith("bertcli")]
    command = line[0] if line[0] != "learn" else "pretrain" if line[1] == "pretraining" else "finetune"
    if len(said) != 1 or not said[0].startswith(f"bertcli {command}: ") or not outcome.err.endswith(f"{said[0]}\n"):
        return "not one line of the command's, and the last"
    place = target.place.split("/")[0]
    named = place in said[0] or (target.named and target.named in said[0])
    return "" if named or outcome.status == Status.FAILURE else "the file is not named"


def small_bounds() -> None:
    """Make the bound of a line one that inputs of a few MB reach."""
    lines.LONGEST_LINE = BOMB


def prepare(*packages: str) -> None:
    """Load what commands load, so that no attempt has to."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    sys.setrecursionlimit(20_000)  # that of the checks, which are to read what the program does
    small_bounds()
    for package in packages:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readers", nargs="*", metavar="READER")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzzed")
    parser.add_argument("--json", action="store_true", help="a line of JSON a reader, for the tests")
    given = parser.parse_args()
    known = targets()
    failures, prepared = 0, LIGHT[:0]
    if not given.json:
        print(HEAD)
    for name in sorted(given.readers or known, key=lambda name: known[name].needs_torch):
        if prepared != (packages := LOADED[known[name].needs_torch]):
            prepare(*(prepared := packages))
        row = fuzz(known[name], inputs(known[name], given.count, given.seed), given.keep)
        failures += len(row.wrong)
        print(json.dumps(vars(row)) if given.json else "\n    ".join([str(row), *row.wrong]), flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())

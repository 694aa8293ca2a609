"""A run that is killed in places that are chosen, again and again, and goes on each time."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import crashes
from program import environment

GLANCE = 5e-4  # seconds between two looks at what a run is about
ROW = 1000  # bytes that a row of the log has at most
LONGEST = 120  # seconds for a step that is waited for, and for an end
STATUS = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: -signal.SIGINT, signal.SIGKILL: -signal.SIGKILL}
INSIDE, BETWEEN, ENDING = "inside a save", "between saves", "at the end"


class Cold(subprocess.Popen[bytes]):
    """`python -m bertcli`, started as a user starts it."""

    def is_alive(self) -> bool:
        """Returns whether it has not ended."""
        return self.poll() is None


def cold(words: list[str], cwd: Path, files: list[IO[Any] | int], **variables: str) -> Cold:
    """Returns a command at work in a process of its own, as `warm.Program.start` does."""
    stdin, stdout, stderr = files
    command = [sys.executable, "-m", "bertcli", *words]
    return Cold(command, cwd=cwd, env=environment() | variables, stdin=stdin, stdout=stdout, stderr=stderr)


class Fell(NamedTuple):
    """A kill: how, where it fell, the newest checkpoint then, the last step known, and how long resuming had taken."""

    how: str
    place: str
    step: int
    newest: int
    seconds: float


@dataclass
class Trial:
    """A line to run in a folder, and how; `steps` are those of the run."""

    folder: Path
    start: Callable[..., Any]
    line: list[str]
    steps: int
    ranks: int = 1
    by_pipe: bool = False
    rng: random.Random = field(default_factory=random.Random)
    fell: list[Fell] = field(default_factory=list)
    saving: float = 0.01  # seconds that a save takes

    @property
    def is_over(self) -> bool:
        """Returns whether the run that is killed has come to its end nevertheless."""
        path = self.folder / "killed"
        return (path / "model.safetensors").exists() and not (path / "checkpoint").exists()

    # -- processes

    @contextmanager
    def running(self, out: str, *options: str) -> Iterator[list[Any]]:
        """Gives the ranks of a run at work."""
        with ExitStack() as stack:
            processes = []
            for variables in self._variables():
                rank = variables.get("RANK", "0")
                stdin: Any = stack.enter_context((self.folder / "input.jsonl").open("rb"))
                if self.by_pipe:
                    cat = subprocess.Popen(["cat"], stdin=stdin, stdout=subprocess.PIPE, cwd="/")
                    stdin = stack.enter_context(cat)  # type: ignore[arg-type]
                    stdin = cat.stdout
                err = stack.enter_context((self.folder / f"err{rank}").open("wb"))
                nothing = stack.enter_context(open(os.devnull, "wb"))
                words = [*self.line, *([] if self.by_pipe else ["input.jsonl"]), "-o", out, *options]
                processes.append(self.start(words, self.folder, [stdin, nothing, err], **variables))
                if self.by_pipe:
                    stdin.close()
            yield processes

    def _variables(self) -> list[dict[str, str]]:
        """Returns what tells each rank its place, as `torchrun` would."""
        if self.ranks == 1:
            return [{}]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {"WORLD_SIZE": f"{self.ranks}", "LOCAL_WORLD_SIZE": f"{self.ranks}"}
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
        return [shared | {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}"} for rank in range(self.ranks)]

    def err(self) -> str:
        """Returns what the ranks have said."""
        return "".join((self.folder / f"err{rank}").read_text() for rank in range(self.ranks))

    def whole(self, out: str, *options: str) -> None:
        """Run to the end, and see meanwhile how long saves take."""
        seen, saves = Seen(self.folder / out, time.time(), 0), Counter[int]()
        begun = time.monotonic()
        with self.running(out, *options) as processes:
            while any(each.is_alive() for each in processes):
                assert time.monotonic() - begun < 20 * LONGEST, "hangs"
                saves[seen.saving()] += 1
                time.sleep(GLANCE)
            ended = [each.wait() for each in processes]
        del saves[0]
        self.saving = GLANCE * statistics.median(saves.values()) if saves else self.saving
        assert set(ended) == {0}, f"{ended}: {self.err()}"
        crashes.assert_alone(self.folder)

    # -- kills

    def kill_at(self, step: int, wanted: str, how: signal.Signals = signal.SIGKILL) -> Fell:
        """Resume, go on past a step, and end the run where it is wanted; returns what became of it."""
        path, since = self.folder / "killed", time.time()
        before = crashes.assert_newest_loads(path)
        seen = Seen(path, since, before)
        begun = time.monotonic()
        with self.running("killed", *(["--resume"] if before or self.fell else [])) as processes:
            seen.wait(lambda: seen.step() > before, processes)
            seconds = time.monotonic() - begun
            seen.wait(lambda: seen.step() >= step, processes)
            self._aim(seen, wanted, processes)
            told = self._end(processes, how)
        crashes.assert_alone(self.folder)
        newest = crashes.assert_newest_loads(path)
        rows = [row["step"] for row in crashes.logged(path)]
        assert newest >= before or self.is_over, f"checkpoint {before} is lost: {newest} is the newest"
        assert rows == list(range(1, len(rows) + 1)), "the log has a gap"
        place = INSIDE if seen.saving() else BETWEEN
        if wanted == ENDING:
            place = ENDING
        self.fell.append(Fell(told, place, max(seen.step(), *rows, newest), newest, seconds))
        return self.fell[-1]

    def _aim(self, seen: Seen, wanted: str, processes: list[Any]) -> None:
        """Wait for a moment inside a save, between saves, or at the end."""
        if wanted == INSIDE:
            old = seen.saving()
            seen.wait(lambda: seen.saving() > old, processes, pause=GLANCE)
            time.sleep(self.rng.uniform(0, self.saving))
        elif wanted == BETWEEN:
            time.sleep(self.rng.uniform(0, 5 * self.saving))
            seen.wait(lambda: not seen.saving(), processes, pause=GLANCE)
        else:
            seen.wait(lambda: seen.step() == self.steps, processes, pause=GLANCE)
            time.sleep(self.rng.uniform(0, 8 * self.saving))

    def _end(self, processes: list[Any], how: signal.Signals) -> str:
        """End one or all of a run's processes; returns how."""
        is_alone = self.rng.random() < 0.5
        chosen = self.rng.choice(processes)
        if how != signal.SIGKILL:
            return self._signal(chosen, how, processes)
        crashes.kill([chosen.pid] if is_alone else crashes.at_work(self.folder))
        ended = {each is chosen: self._ended(each) for each in processes}
        if is_alone and False in ended:
            assert ended[False] == 1, f"{ended}: {self.err()}"
        told = "main" if self.ranks == 1 else f"rank {processes.index(chosen)}"
        return f"KILL {told}" if is_alone else "KILL all"

    def _signal(self, chosen: Any, how: signal.Signals, processes: list[Any]) -> str:
        """Send a signal once or twice, as a scheduler does; returns how."""
        pause = self.rng.choice([None, self.rng.uniform(0, 0.2), self.rng.uniform(1, 2)])
        os.kill(chosen.pid, how)
        if pause is not None:
            time.sleep(pause)
            with suppress(ProcessLookupError):
                os.kill(chosen.pid, how)
        ended = {self._ended(each) for each in processes}
        stopped = {STATUS[how]} if pause is None or pause < 1 else {STATUS[how], -how}
        assert ended <= stopped, f"{ended}: {self.err()}"
        return f"{how.name[3:]}{'' if pause is None else f' twice, {pause:.1f} s'}"

    def _ended(self, process: Any) -> int:
        assert crashes.wait_until(lambda: not process.is_alive(), LONGEST), f"hangs: {self.err()}"
        status: int = process.wait()
        return status


@dataclass
class Seen:
    """What can be seen of a run from outside, since it was started after a checkpoint."""

    path: Path
    since: float
    before: int

    def saving(self) -> int:
        """Returns the step of the checkpoint that is, or was when the run died, under way; 0 for none."""
        steps, home = [0], self.path / "checkpoint"
        for name in crashes.names(home):
            with suppress(OSError):
                if name[0] == "." and name[1:].isdecimal() and (home / name).stat().st_mtime > self.since:
                    steps.append(int(name[1:]))
        return max(steps)

    def step(self) -> int:
        """Returns the last step that is known."""
        log, steps = self.path / "log.jsonl", [0, self.saving(), *crashes.checkpoints(self.path)]
        with suppress(OSError):
            if log.stat().st_mtime > self.since:
                steps.append(last_step(log))
        return max(steps)

    def wait(self, condition: Callable[[], bool], processes: list[Any], pause: float = 5e-3) -> None:
        """Wait for something that the run does before it ends."""
        done = crashes.wait_until(lambda: condition() or not processes[0].is_alive(), LONGEST, pause)
        assert done, "hangs"
        assert condition() or processes[0].is_alive(), "has ended by itself"


def last_step(log: Path) -> int:
    """Returns the step of the last whole row of a log, 0 where there is none."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2 * ROW))
        *_, last = [b"", *re.findall(rb'^{"step":(\d+),.*\n', file.read(), re.MULTILINE)]
    return int(last or 0)

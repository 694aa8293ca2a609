"""What kills do to a run: nothing. It is killed again and again, resumed each time, and compared to one that was not.

python tests/bench/kills.py [--kills 100] [--endings 0] [--ranks 1] [--task pretrain] [--seed 0] [--input file]
                            [--signals] [--cold]

Three epochs with dropout and several passes a step, two readers (`--workers 2`) and a checkpoint every few steps; pairs
are masked afresh in each epoch. Where the kills fall is drawn: evenly over the run, in turn inside a save and between
saves; `.N` that lies in `checkpoint/` afterwards says that it was inside. Half of the kills are of all processes, half
of the main one alone, whose others have to end by themselves; of two ranks one at random, or both. The last ones may
be told to fall while the model is written. After each kill the newest checkpoint has to load. At the end weights and
log have to be the undisturbed run's to the bit, with no other files in the folder. With `--signals` every second kill
is a SIGTERM, SIGUSR1 or SIGINT, once or twice. `--input stdin`: the same stream comes again by a pipe, at each start
from its beginning.

Ends with 1, and says why, where anything differs, or where less than a third fell inside saves, or between them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

TESTS = Path(__file__).parent.parent
sys.path += [str(TESTS)]  # models.py and others

import crashes  # noqa: E402
import models  # noqa: E402
import toys  # noqa: E402
import warm  # noqa: E402
from program import environment  # noqa: E402

EPOCHS, BATCH, SAVE_EVERY = 3, 8, 5  # of these a save takes about as long as the steps to the next one
MARGIN = 2 * SAVE_EVERY  # steps at the end of the run in which no kill begins
GLANCE = 5e-4  # seconds between two looks at what a run is about
ROW = 1000  # bytes that a row of the log has at most
LONGEST = 120  # seconds for a step that is waited for, and for an end
STATUS = {signal.SIGTERM: 75, signal.SIGUSR1: 75, signal.SIGINT: -signal.SIGINT, signal.SIGKILL: -signal.SIGKILL}
INSIDE, BETWEEN, ENDING = "inside a save", "between saves", "at the end"


class Process(Protocol):
    """What is done with a process, however it was started."""

    pid: int

    def is_alive(self) -> bool: ...
    def wait(self) -> int: ...


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
    """A line to run in a folder, and how; `records` are those of an epoch."""

    folder: Path
    start: Callable[..., Any]
    line: list[str]
    records: int
    ranks: int = 1
    by_pipe: bool = False
    rng: random.Random = field(default_factory=random.Random)
    fell: list[Fell] = field(default_factory=list)
    saving: float = 0.01  # seconds that a save takes

    @property
    def steps(self) -> int:
        """Returns the steps of the run."""
        return -(-EPOCHS * self.records // BATCH)

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
            time.sleep(self.rng.uniform(0, 3 * self.saving))

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
        names = [0]
        for home in self.path.glob("checkpoint/.[0-9]*"):
            with suppress(OSError):
                names += [int(home.name[1:])] * (home.stat().st_mtime > self.since)
        return max(names)

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


# -- a trial --------------------------------------------------------------------------------------------------------


def prepared(folder: Path, task: str, records: int) -> list[str]:
    """Returns a line without input and output, having made what it works on in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    common = ["--batch-size", f"{BATCH}", "--lr", "1e-3", "--max-tokens", "60", "--workers", "2", "--device", "cpu"]
    common += ["--save-every", f"{SAVE_EVERY}", "--max-length", "64", "--dropout", "0.1"]
    if task == "pretrain":
        (folder / "input.jsonl").write_bytes(models.lines(models.pairs(records)))
        return [task, "--preset", "tiny", "--steps", f"{EPOCHS * records // BATCH}", *common]
    (folder / "input.jsonl").write_bytes(models.lines(toys.records(task, records)))
    models.save(models.theirs("BertForPreTraining", layers=2, width=128), folder / "start")
    return ["finetune", task, "-m", "start", "--epochs", f"{EPOCHS}", *common]


def tried(trial: Trial, kills: int, endings: int = 0, signals: bool = False) -> Iterator[Fell]:
    """Yields what becomes of each kill; afterwards the run is finished, and is as the one that nothing has ended."""
    trial.whole("whole")
    last = trial.steps - MARGIN
    numbers = itertools.cycle([signal.SIGTERM, signal.SIGUSR1, signal.SIGINT])
    for number in range(kills - endings):
        found = Counter(fell.place for fell in trial.fell)
        wanted = INSIDE if found[INSIDE] <= found[BETWEEN] else BETWEEN
        step = trial.rng.randint(number * last // kills + 1, (number + 1) * last // kills)
        yield trial.kill_at(step, wanted, next(numbers) if signals and number % 2 else signal.SIGKILL)
    while len(trial.fell) < kills and not trial.is_over:
        yield trial.kill_at(0, ENDING)
    trial.whole("killed", "--resume")
    ours, theirs = (crashes.essence(trial.folder / out) for out in ("killed", "whole"))
    assert ours[2] == theirs[2], f"left in the folder: {set(ours[2]) ^ set(theirs[2])}"
    assert ours[1] == theirs[1], "the logs differ"
    assert ours[0] == theirs[0], "the weights differ"


def main() -> None:
    """Kill a run as often as told, print a line for each time, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--ranks", type=int, choices=[1, 2], default=1)
    parser.add_argument("--task", choices=["pretrain", *toys.TASKS], default="pretrain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", choices=["file", "stdin"], default="file")
    parser.add_argument("--signals", action="store_true")
    parser.add_argument("--endings", type=int, default=0, help="of the kills: those when the model is being written")
    parser.add_argument("--cold", action="store_true")
    given = parser.parse_args()
    records = 40 * max(10, given.kills)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        line = prepared(folder, given.task, records)
        start = cold if given.cold else stack.enter_context(warm.program()).start
        rng, by_pipe = random.Random(given.seed), given.input == "stdin"
        trial = Trial(folder, start, line, records, given.ranks, by_pipe, rng)
        print(f"bertcli {' '.join(line)}: {trial.steps} steps")
        print(" kill  how               place            step  newest  resumed in")
        try:
            for number, fell in enumerate(tried(trial, given.kills, given.endings, given.signals), 1):
                how, place, step, newest, seconds = fell
                print(f"{number:5}  {how:16}  {place:15}  {step:4}  {newest:6}  {seconds:6.2f} s", flush=True)
        except AssertionError as error:
            sys.exit(f"after {len(trial.fell)} kills: {error}\n{trial.err()}")
        summed_up(trial)


def summed_up(trial: Trial) -> None:
    """Print where kills fell, and how long resuming took; ends with 1 where they were not spread as they should be."""
    places = Counter(fell.place for fell in trial.fell)
    slowest = max(fell.seconds for fell in trial.fell)
    print(f"{dict(places)}; a save takes {1e3 * trial.saving:.0f} ms; resumed within {slowest:.2f} s")
    print("weights, log and files are the undisturbed run's to the bit")
    drawn = len(trial.fell) - places[ENDING]
    if min(places[INSIDE], places[BETWEEN]) < drawn // 3 or min(fell.step for fell in trial.fell) < 1:
        sys.exit("the kills were not spread as they should be")


if __name__ == "__main__":
    main()

"""Training with a feed in other processes: the same steps, and the same ends."""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from mmap import mmap
from multiprocessing import Pipe
from pathlib import Path
from typing import Any
from unittest.mock import patch

import models
import numpy as np
import program
import pytest
import toys
import warm
from program import Result

from bertcli import tasks
from bertcli.engine import feed, signals
from bertcli.engine.feed import Feed
from bertcli.engine.packing import prepared
from bertcli.engine.spool import Chunk, Spool, chunk
from bertcli.errors import BadData, BertcliError
from bertcli.parallel import Coming, Pool, ahead_of_all
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Task

WORDPIECE = models.wordpiece()
SMALL = ["--num-layers", 1, "--hidden-size", 16, "--num-heads", 2, "--max-length", 32, "--device", "cpu"]
PRETRAIN = ["pretrain", "--plain", "--batch-size", 8, "--lr", 1e-3, "--max-tokens", 60, *SMALL]
COUNT = 600  # records: in the batches that grow, enough for every process to have some


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_bytes(models.lines(models.pairs(COUNT, with_id=False)))
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))


def essence(path: Path) -> tuple[list[dict[str, Any]], bytes]:
    """Returns a model folder's log without its times, and its weights."""
    rows = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    log = [{name: value for name, value in row.items() if name != "seconds"} for row in rows]
    return log, (path / "model.safetensors").read_bytes()


# -- the same -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_masked", [True, False])
def test_a_run_is_the_same_for_any_workers_and_resumed(
    bertcli: Callable[..., Result], tmp_path: Path, is_masked: bool
) -> None:
    if is_masked:
        (tmp_path / "pairs.jsonl").write_bytes(bertcli("mask", "pairs.jsonl", "--plain").out)
    line = [*PRETRAIN, "pairs.jsonl", "--steps", 2 * COUNT // 8 + 10]
    for out, workers in (("one", 1), ("three", 3)):
        result = bertcli(*line, "-o", out, "--workers", workers)
        assert result.status == 0, result.err
    for workers, end in ((3, ["--stop-at", 40]), (2, ["--resume", "--stop-at", 100]), (1, ["--resume"])):
        result = bertcli(*line, "-o", "resumed", "--workers", workers, *end)
        assert result.status == 0, result.err
    assert essence(tmp_path / "one") == essence(tmp_path / "three") == essence(tmp_path / "resumed")


@pytest.mark.parametrize("task", toys.TASKS)
def test_fine_tuning_is_the_same_for_any_workers(bertcli: Callable[..., Result], tmp_path: Path, task: str) -> None:
    start = toys.start(tmp_path / "start")
    (tmp_path / "train.jsonl").write_bytes(models.lines(toys.records(task, 60)))
    for workers in (1, 3):
        line = ["finetune", task, "train.jsonl", "-m", start, "-o", workers, "--device", "cpu", "--batch-size", 8]
        result = bertcli(*line, "--workers", workers)
        assert result.status == 0, result.err
    assert essence(tmp_path / "1") == essence(tmp_path / "3")


def ahead(items: Iterable[Any], most: int, told: list[Any]) -> Coming[Any]:
    return ahead_of_all(((pickle.dumps(item),) for item in items), most, told, [])


@pytest.mark.parametrize("name", [*toys.TASKS, "pretraining"])
def test_a_batch_arrives_as_it_was_made(name: str) -> None:
    if name == "pretraining":
        task: Task = Pretraining(WORDPIECE, 64)
        examples = [task.encode(task.masked(record))[0] for record in models.pairs(9)]  # type: ignore[attr-defined]
    else:
        task = tasks.new(name, WORDPIECE, 64)
        examples = models.learned(task, toys.records(name, 9))
    made = prepared(task, [(0, example) for example in examples], 40)
    (step,) = ahead([made], 1, [])
    assert len(step.parts) > 1
    assert (step.counts, step.tokens) == (made.counts, made.tokens)
    for ours, theirs in zip(step.parts, made.parts, strict=True):
        assert ours.counts == theirs.counts
        assert ours.targets.keys() == theirs.targets.keys()
        both = [(ours.targets[key], theirs.targets[key]) for key in ours.targets]
        both += [(getattr(ours.packed, key), getattr(theirs.packed, key)) for key in ("ids", "segments", "positions")]
        both.append((ours.packed.boundaries, theirs.packed.boundaries))
        assert all(one.dtype == other.dtype and bool((one == other).all()) for one, other in both)
        assert (ours.packed.lengths, ours.packed.longest) == (theirs.packed.lengths, theirs.packed.longest)


# -- ahead ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 1 << 20])  # that of a step is more than a pipe holds
def test_what_runs_ahead_fills_its_room_and_stays_within(tmp_path: Path, size: int) -> None:
    """Of the items that are begun, three wait beside those that are taken, and one more is in work."""
    most, count = 3, 20
    taken, begun = (mmap(-1, count) for _ in range(2))  # a byte for each item; shared

    def items() -> Any:
        for number in range(count):
            begun[number] = 1
            assert sum(begun[:]) <= sum(taken[:]) + most + 1
            yield bytes([number]) * size

    running = ahead(items(), most, [])
    for number in range(count):
        ends = time.monotonic() + warm.PATIENCE
        while sum(begun[:]) < min(number + most + 1, count):
            assert time.monotonic() < ends
            time.sleep(0.001)
        assert running.is_near(warm.PATIENCE)
        taken[number] = 1
        assert next(running) == bytes([number]) * size
    for _ in range(2):
        assert next(running, None) is None


def test_what_is_told_and_what_fails_comes_in_its_place() -> None:
    told = ["before"]

    def items() -> Any:
        for number in range(4):
            told.append(f"of {number}")
            yield number
        raise BadData("no")

    seen = []
    with pytest.raises(BadData, match="no"):  # noqa: PT012
        for number in ahead(items(), 9, told):
            seen.append(number)
            assert told == ["before", *(f"of {number}" for number in range(number + 1))]
    assert seen == [0, 1, 2, 3]


def test_after_an_error_there_is_nothing_to_wait_for() -> None:
    def items() -> Any:
        yield from ()
        raise BadData("no")

    running = ahead(items(), 1, [])
    with pytest.raises(BadData, match="no"):
        next(running)
    assert next(running, None) is None


def test_others_get_their_share_of_each_row() -> None:
    """On a pipe to a process that is not theirs, which ends them when it dies."""
    near, far = Pipe()
    rows = ([pickle.dumps((number, rank)) for rank in range(2)] for number in range(5))
    own, other = ahead_of_all(rows, 3, [], [far]), Coming[Any](near, [])
    assert other.is_near(warm.PATIENCE)
    assert list(zip(own, other, strict=True)) == [((number, 0), (number, 1)) for number in range(5)]
    near, far = Pipe()
    own, other = ahead_of_all(([pickle.dumps(0)] * 2 for _ in range(9)), 1, [], [far]), Coming[Any](near, [])
    assert next(other) == 0
    del own
    with pytest.raises(BertcliError, match="the process that reads has died"):
        list(other)


# -- faults ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 3])
def test_what_came_before_a_bad_record_is_trained_on(tmp_path: Path, workers: int) -> None:
    def chunks() -> Iterator[Chunk]:
        for number in range(90):
            yield chunk([{"ids": np.array([number], np.int32)}])
        raise BadData("no")

    steps = []
    with patch.object(feed, "SHUFFLE_BUFFER", 10), pytest.raises(BadData, match="no"):  # noqa: PT012
        for _, step in Feed(lambda *known: chunks(), Spool(tmp_path), 0, Pool(workers)).steps(len, 4):
            steps.append(step)
    assert steps == [4] * 20


def test_skipped_lines_are_told(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "more.jsonl").write_bytes(b'{"tokens": 1}\n' + (tmp_path / "pairs.jsonl").read_bytes() + b"{}\n")
    line = [*PRETRAIN, "more.jsonl", "-o", "model", "--steps", 3, "--on-error", "skip", "--workers", 3]
    result = bertcli(*line)
    assert result.status == 0, result.err
    assert "bad lines skipped: 2; the first: more.jsonl:1: field 'tokens': found 1" in result.err


def test_processes_may_be_older_than_the_first_example(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    """As where the first batches of lines are all bad."""
    (tmp_path / "late.jsonl").write_bytes(b'{"tokens": 1}\n' * 25_000 + (tmp_path / "pairs.jsonl").read_bytes())
    line = [*PRETRAIN, "late.jsonl", "--steps", 2 * COUNT // 8, "--on-error", "skip"]
    for workers in (1, 3):
        result = bertcli(*line, "-o", workers, "--workers", workers)
        assert result.status == 0, result.err
    assert essence(tmp_path / "1") == essence(tmp_path / "3")


def test_a_slow_producer_is_trained_on_as_it_comes(program: warm.Program, tmp_path: Path) -> None:
    """Not only when a batch of lines, or the work of a process, is full."""
    inlet, outlet = os.pipe()
    line = [*PRETRAIN, "-o", "model", "--steps", 2, "--batch-size", 4, "--workers", 3, "--max-tokens", 500]
    with open(os.devnull, "r+b") as nothing, open(inlet, "rb") as source, open(tmp_path / "err", "wb") as err:
        process = program.start([str(word) for word in line], tmp_path, [source, nothing, err])
    records = (tmp_path / "pairs.jsonl").read_bytes().splitlines(keepends=True)
    with open(outlet, "wb", buffering=0) as pipe:
        for record in records[:9]:
            pipe.write(record)
            time.sleep(0.1)
        assert process.is_alive(), (tmp_path / "err").read_text()
    assert process.wait() == 0, (tmp_path / "err").read_text()


# -- signals --------------------------------------------------------------------------------------------------------


def test_there_are_as_many_processes_as_asked_for(program: warm.Program, tmp_path: Path) -> None:
    """Beside the one that trains: one that reads ahead, and two that share its work."""
    process = started(program, tmp_path)
    (first, *others) = below(process.pid)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(others) == 2
    assert gone([first, *others])


def started(program: warm.Program, folder: Path, *options: object) -> warm.Process:
    """Returns a run on three workers, at work."""
    line = [*PRETRAIN, "pairs.jsonl", "-o", "model", "--steps", 100_000, "--workers", 3, *options]
    with open(os.devnull, "r+b") as nothing, open(folder / "err", "wb") as err:
        process = program.start([str(word) for word in line], folder, [nothing, nothing, err])
    log, ends = folder / "model" / "log.jsonl", time.monotonic() + warm.PATIENCE
    while not (log.exists() and log.read_bytes().count(b"\n") >= 20):
        assert time.monotonic() < ends
        assert process.is_alive(), (folder / "err").read_text()
        time.sleep(0.02)
    return process


def below(process: int) -> list[int]:
    """Returns the processes that one has started, and those that they have."""
    children = list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    return children + [each for child in children for each in below(child)]


def gone(processes: list[int]) -> bool:
    """Returns whether processes end within some seconds."""
    ends = time.monotonic() + 10
    while any(Path(f"/proc/{each}/cmdline").exists() for each in processes) and time.monotonic() < ends:
        time.sleep(0.05)
    return not [each for each in processes if Path(f"/proc/{each}/cmdline").exists()]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 75), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_to_all_processes_saves(program: warm.Program, tmp_path: Path, number: int, status: int) -> None:
    process = started(program, tmp_path)
    others = below(process.pid)
    assert len(others) == 3
    for each in [*others, process.pid]:
        os.kill(each, number)
    assert process.wait() == status, (tmp_path / "err").read_text()
    (home,) = (tmp_path / "model" / "checkpoint").iterdir()
    assert int(home.name) >= 20
    assert gone(others)


def test_a_second_signal_stops_at_once_unless_it_is_the_same() -> None:
    with patch.object(signals, "TWICE_SECONDS", 0.1), signals.Signals() as held:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        assert held.caught == signal.SIGINT
        time.sleep(0.2)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("which", ["the one that reads ahead", "one that makes batches"])
def test_a_killed_process_is_told(program: warm.Program, tmp_path: Path, which: str) -> None:
    process = started(program, tmp_path)
    first, *others = below(process.pid)
    os.kill(first if which == "the one that reads ahead" else others[-1], signal.SIGKILL)
    assert process.wait() == 1
    assert "a worker process died (exit status -9)" in (tmp_path / "err").read_text()
    assert gone([first, *others])


def test_nothing_outlives_a_killed_run(program: warm.Program, tmp_path: Path) -> None:
    process = started(program, tmp_path)
    others = below(process.pid)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert gone(others)


def test_a_signal_that_another_rank_has_told_of_and_then_comes_is_one() -> None:
    with signals.Signals() as held:
        assert held.share([0, signal.SIGTERM])
        os.kill(os.getpid(), signal.SIGTERM)
        assert held.caught == signal.SIGTERM  # and the process lives


def test_signals_that_come_again_and_again_stop_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "TWICE_SECONDS", 0.1)
    if not (child := os.fork()):
        with signals.Signals():
            for _ in range(6):
                os.kill(os.getpid(), signal.SIGUSR1)
                time.sleep(0.03)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGUSR1


def test_what_is_read_ahead_obeys_a_limit_of_files(tmp_path: Path) -> None:
    """A step lies in memory that counts as a file: one that is allowed fits, one that is not is told of in a line."""
    records = models.lines(models.pairs(400))
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    line = "pretrain -o model --steps 2 --batch-size 200 --num-layers 1 --hidden-size 16 --num-heads 2 --workers 2"
    for limit, status in ((100_000_000, 0), (8, 74)):  # in units of 1024 bytes
        command = f"ulimit -f {limit}; {sys.executable} -m bertcli {line} --force --device cpu"
        done = program.run(["bash", "-c", command], records, tmp_path)
        assert done.status == status, done.err
        assert "Traceback" not in done.err

"""Several ranks on CPUs: what they learn is what one process learns, and they begin, stop and fail together."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import models
import pytest
import torch
import toys
import warm
from hypothesis import given
from hypothesis import strategies as st
from program import environment
from safetensors.torch import load_file

from bertcli.engine import distributed
from bertcli.engine.packing import Step, dealt
from bertcli.engine.signals import Signals
from bertcli.errors import BadData, BertcliError, IOFailed

SMALL = ["--num-layers", 1, "--hidden-size", 32, "--num-heads", 2, "--max-length", 64, "--device", "cpu"]
PRETRAIN = ["pretrain", "--batch-size", 16, "--lr", 3e-3, "--max-tokens", 100, *SMALL]
PAIRS = models.lines(models.pairs(300, longest=25))


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_bytes(PAIRS)
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))


class Ranks:
    """Processes that train together, with what `torchrun` tells them, on one machine or as if each had its own."""

    def __init__(
        self,
        program: warm.Program,
        folder: Path,
        *line: object,
        apart: bool = False,
        inputs: tuple[str, ...] = ("pairs.jsonl", "pairs.jsonl"),
        folders: tuple[str, ...] = (".", "."),
    ) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.folder, self.processes = folder, []
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": f"{port}"}
        for rank, name in enumerate(inputs):
            local = {"LOCAL_RANK": "0" if apart else f"{rank}", "LOCAL_WORLD_SIZE": "1" if apart else "2"}
            files = [folder / name, folder / f"out{rank}", folder / f"err{rank}"]
            with files[0].open("rb") as stdin, files[1].open("wb") as out, files[2].open("wb") as err:
                words = [str(word) for word in line]
                variables = shared | local | {"RANK": f"{rank}"}
                self.processes.append(program.start(words, folder / folders[rank], [stdin, out, err], **variables))

    def wait(self) -> list[int]:
        """Returns how the ranks have ended."""
        return [process.wait() for process in self.processes]

    def err(self, rank: int = 0) -> str:
        return (self.folder / f"err{rank}").read_text()

    def wait_for_step(self, out: str, step: int) -> None:
        log, ends = self.folder / out / "log.jsonl", time.monotonic() + warm.PATIENCE
        while not (log.exists() and log.read_bytes().count(b"\n") >= step):
            assert time.monotonic() < ends
            assert self.processes[0].is_alive(), self.err()
            time.sleep(0.02)


def logged(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def assert_alike(one: Path, other: Path, steps: int) -> None:
    """Asserts that two runs took the same steps, with losses that differ by rounding alone."""
    ours, theirs = logged(one), logged(other)
    assert [row["step"] for row in ours] == [row["step"] for row in theirs] == list(range(1, steps + 1))
    for row, its in zip(ours, theirs, strict=True):
        assert row["tokens"] == its["tokens"]
        assert row == pytest.approx(its, abs=1e-4)


# -- the same -------------------------------------------------------------------------------------------------------


def test_two_ranks_have_the_loss_curve_of_one(tmp_path: Path) -> None:
    """By `torchrun`, on a pipe, over more than two epochs of pairs that are masked afresh in each."""
    line = [*PRETRAIN, "--steps", 50, "--dropout", 0]
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    for out, how in (("one", []), ("two", torchrun)):
        command = [sys.executable, "-m", *how, "bertcli", *map(str, line), "-o", out]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment() | {"OMP_NUM_THREADS": "1"}, input=PAIRS, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout)["step"] == 50
        assert done.stderr.count(b"parameters, 50 steps") == 1
    assert_alike(tmp_path / "one", tmp_path / "two", 50)
    losses = [row["mlm_loss"] for row in logged(tmp_path / "one")]
    assert losses[-1] < losses[0] - 0.1


def test_two_ranks_learn_from_left_to_right_what_one_does(program: warm.Program, tmp_path: Path) -> None:
    line = [*PRETRAIN, "--objective", "ltr", "--steps", 10, "--dropout", 0, "--dev", "pairs.jsonl", "-o"]
    one = program.run([*map(str, line), "one"], tmp_path, PAIRS)
    ranks = Ranks(program, tmp_path, *line, "two")
    assert ranks.wait() == [one.status, one.status] == [0, 0], ranks.err() + one.err
    assert_alike(tmp_path / "one", tmp_path / "two", 10)
    told = json.loads((tmp_path / "out0").read_text())
    assert told["dev"] == pytest.approx(one.records[0]["dev"], abs=1e-3)


@pytest.mark.parametrize("apart", [False, True])
def test_an_uneven_epoch_ends_cleanly_at_all_ranks(program: warm.Program, tmp_path: Path, apart: bool) -> None:
    """49 records: the last step of each epoch has one, of which one rank alone learns."""
    start = toys.start(tmp_path / "start")
    (tmp_path / "train.jsonl").write_bytes(models.lines(toys.records("classification", 49)))
    (tmp_path / "dev.jsonl").write_bytes(models.lines(toys.records("classification", 20, seed=1)))
    line = ["finetune", "classification", "-m", start, "--dev", "dev.jsonl", "--device", "cpu", "--dropout", 0]
    line += ["--batch-size", 16, "--epochs", 3, "--lr", 3e-3, "--early-stop", 2, "--max-tokens", 60]
    one = program.run([*map(str, line), "-o", "one"], tmp_path, (tmp_path / "train.jsonl").read_bytes())
    assert one.status == 0, one.err
    ranks = Ranks(program, tmp_path, *line, "-o", "two", apart=apart, inputs=("train.jsonl", "train.jsonl"))
    assert ranks.wait() == [0, 0], ranks.err()
    assert len(logged(tmp_path / "one")) == 10  # 147 examples in steps of 16
    assert_alike(tmp_path / "one", tmp_path / "two", 10)
    told = json.loads((tmp_path / "out0").read_text())
    assert told["dev"] == one.records[0]["dev"]
    assert ((tmp_path / "out1").read_text(), ranks.err(1)) == ("", "")


@given(st.lists(st.integers(1, 600), max_size=60), st.integers(1, 9))
def test_shares_are_alike_and_together_everything(sizes: list[int], shares: int) -> None:
    hands = dealt(sizes, shares)
    assert len(hands) == shares
    assert sorted(index for hand in hands for index in hand) == list(range(len(sizes)))
    sums = [sum(sizes[index] for index in hand) for hand in hands]
    assert max(sums) - min(sums) <= max(sizes, default=0)


# -- ends -----------------------------------------------------------------------------------------------------------


def test_a_signal_to_one_rank_stops_all_and_resume_is_the_whole_run(program: warm.Program, tmp_path: Path) -> None:
    """With dropout, which each rank draws for itself."""
    line = [*PRETRAIN, "pairs.jsonl", "--steps", 100_000]
    ranks = Ranks(program, tmp_path, *line, "-o", "two")
    ranks.wait_for_step("two", 20)
    ranks.processes[1].send_signal(signal.SIGTERM)
    assert ranks.wait() == [75, 75], ranks.err()
    (home,) = (tmp_path / "two" / "checkpoint").iterdir()
    step = int(home.name)
    assert len(logged(tmp_path / "two")) == step >= 20
    assert f"stopped by SIGTERM after step {step}" in ranks.err()
    assert Ranks(program, tmp_path, *line, "-o", "two", "--resume", "--stop-at", step + 9).wait() == [0, 0]
    assert Ranks(program, tmp_path, *line, "-o", "whole", "--stop-at", step + 9).wait() == [0, 0]
    assert logged(tmp_path / "two") == logged(tmp_path / "whole")
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("two", "whole")]
    assert weights[0] == weights[1]


def test_ranks_draw_their_own_dropout(program: warm.Program, tmp_path: Path) -> None:
    """Else what one of them leaves out the others would leave out too."""
    record = models.lines(models.pairs(1)) * 64
    (tmp_path / "same.jsonl").write_bytes(record)
    line = [*PRETRAIN, "--steps", 1, "--batch-size", 2, "--dropout", 0.5, "--lr", 1e-9]
    assert Ranks(program, tmp_path, *line, "-o", "two", inputs=("same.jsonl", "same.jsonl")).wait() == [0, 0]
    assert program.run([*map(str, line), "-o", "one", "--batch-size", "1"], tmp_path, record).status == 0
    one, two = (logged(tmp_path / out)[0]["mlm_loss"] for out in ("one", "two"))
    assert one != pytest.approx(two, abs=1e-5)


def test_a_second_run_goes_on_where_the_first_has_diverged(program: warm.Program, tmp_path: Path) -> None:
    """At all ranks, of which the first alone looks at the losses."""
    start = toys.start(tmp_path / "start")
    for name, count in (("train.jsonl", 48), ("dev.jsonl", 20)):
        (tmp_path / name).write_bytes(models.lines(toys.records("classification", count)))
    line = ["finetune", "classification", "-m", start, "--dev", "dev.jsonl", "--device", "cpu"]
    line += ["--batch-size", 16, "--epochs", 3, "--lr", "1e38,3e-3", "-o", "two"]
    ranks = Ranks(program, tmp_path, *line, inputs=("train.jsonl", "train.jsonl"))
    assert ranks.wait() == [0, 0], ranks.err()
    told = json.loads((tmp_path / "out0").read_text())
    assert [row["value"] is None for row in told["runs"]] == [True, False]
    assert ranks.err().count("run 1 has failed: the loss is nan") == 1
    assert ranks.err(1) == ""


# -- errors ---------------------------------------------------------------------------------------------------------


def assert_told_once(ranks: Ranks, status: int, problem: str) -> None:
    """Asserts that all ranks have ended by an error that the first of them has told in one line."""
    assert ranks.wait() == [status, status], ranks.err() + ranks.err(1)
    told = [line for line in ranks.err().splitlines() if line.startswith("bertcli pretrain: ")]
    assert len(told) == 1, ranks.err()
    assert problem in told[0]
    assert ranks.err(1) == ""


def test_machines_that_read_other_records_are_told(program: warm.Program, tmp_path: Path) -> None:
    (tmp_path / "less.jsonl").write_bytes(b"".join(PAIRS.splitlines(keepends=True)[:-1]))
    line = [*PRETRAIN, "--steps", 100, "-o", "two"]
    ranks = Ranks(program, tmp_path, *line, apart=True, inputs=("pairs.jsonl", "less.jsonl"))
    assert_told_once(ranks, 65, "the machines read different records; each has to be given the same files")


def test_machines_that_read_records_of_the_same_sizes_are_told_after_an_epoch(
    program: warm.Program, tmp_path: Path
) -> None:
    (tmp_path / "other.jsonl").write_bytes(PAIRS.replace(b'"is_next": true', b'"is_next": false', 1))
    line = [*PRETRAIN, "--steps", 100, "-o", "two"]
    ranks = Ranks(program, tmp_path, *line, apart=True, inputs=("pairs.jsonl", "other.jsonl"))
    assert_told_once(ranks, 65, "the machines read different records; each has to be given the same files")


@pytest.mark.parametrize(
    ("inputs", "apart"), [(("bad", "bad"), False), (("bad", "bad"), True), (("pairs", "bad"), True)]
)
def test_a_bad_line_ends_all_ranks(program: warm.Program, tmp_path: Path, inputs: tuple[str, ...], apart: bool) -> None:
    """Of what one machine alone has been given, too."""
    lines = PAIRS.splitlines(keepends=True)
    (tmp_path / "bad.jsonl").write_bytes(b"".join([*lines[:150], b"{}\n", *lines[150:]]))
    files = tuple(f"{name}.jsonl" for name in inputs)
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--steps", 9, "-o", "two", apart=apart, inputs=files)
    assert_told_once(ranks, 65, "<stdin>:151: field 'tokens'")
    assert not (tmp_path / "two").exists()


@pytest.mark.parametrize("inputs", [("empty", "empty"), ("pairs", "empty")])
def test_nothing_to_read_ends_all_ranks(program: warm.Program, tmp_path: Path, inputs: tuple[str, ...]) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"")
    files, is_one = tuple(f"{name}.jsonl" for name in inputs), inputs[0] == inputs[1]
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--steps", 9, "-o", "two", apart=not is_one, inputs=files)
    assert_told_once(ranks, 65, "there is no record to train on" if is_one else "the machines read different records")
    assert not (tmp_path / "two").exists()


def test_wrong_usage_is_told_once(program: warm.Program, tmp_path: Path) -> None:
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--nothing", "-o", "two")
    assert ranks.wait() == [2, 2]
    assert ranks.err().count("--nothing") == 1
    assert ranks.err(1) == ""


def test_what_the_system_refuses_one_rank_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BertcliError | None] = []
    monkeypatch.setattr(distributed.Ranks, "meet", lambda ranks, numbers=(), error=None: told.append(error))
    with pytest.raises(OSError, match="No space left"), distributed.Ranks(size=2).as_one():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "file")
    assert [(type(error), str(error)) for error in told] == [(IOFailed, "file: No space left on device")]


def test_what_fails_before_training_is_told_once(program: warm.Program, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "config.json").write_text("{}")
    assert_told_once(Ranks(program, tmp_path, *PRETRAIN, "-o", "two"), 73, "two: holds a model already")


def test_a_step_that_cannot_be_taken_ends_all_ranks(program: warm.Program, tmp_path: Path) -> None:
    """With a checkpoint that has what every rank draws from."""
    line = [*PRETRAIN, "--steps", 20, "--warmup", 4, "--save-every", 10, "-o", "two"]
    assert_told_once(
        Ranks(program, tmp_path, *line, "--lr", 1e30),
        1,
        "is nan at step 2; try a lower --lr; step 1 is saved in two/checkpoint/1",
    )
    states = load_file(tmp_path / "two" / "checkpoint" / "1" / "random.safetensors")
    assert sorted(states) == ["cpu", "cpu/1"]
    assert [row["step"] for row in logged(tmp_path / "two")] == [1]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_is_no_hang(program: warm.Program, tmp_path: Path, rank: int) -> None:
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--steps", 100_000, "-o", "two")
    ranks.wait_for_step("two", 5)
    os.kill(ranks.processes[rank].pid, signal.SIGKILL)
    other = 1 - rank
    assert ranks.wait()[other] == 1
    *_, told = ranks.err(other).splitlines()
    assert told.startswith("bertcli pretrain: another rank has ended, or does not answer (")


def test_a_killed_feed_is_no_hang(program: warm.Program, tmp_path: Path) -> None:
    """It is the reading process of the machine, from which all its ranks have their records."""
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--steps", 100_000, "-o", "two")
    ranks.wait_for_step("two", 5)
    reader = ranks.processes[0].pid
    (feed,) = map(int, Path(f"/proc/{reader}/task/{reader}/children").read_text().split())
    os.kill(feed, signal.SIGKILL)
    assert_told_once(ranks, 1, "died")


def test_ranks_do_not_go_on_from_different_checkpoints(program: warm.Program, tmp_path: Path) -> None:
    """As on machines each of which has a disk of its own."""
    line = [*PRETRAIN, "--steps", 50, "-o", "two"]
    assert Ranks(program, tmp_path, *line, "--stop-at", 3).wait() == [0, 0]
    (tmp_path / "elsewhere").mkdir()
    ranks = Ranks(program, tmp_path, *line, "-v", tmp_path / "vocab.txt", "--resume", folders=(".", "elsewhere"))
    assert_told_once(ranks, 2, "two: not all ranks begin with the same step and input: they need the same options")


def test_a_rank_that_does_not_come_for_records_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "LONGEST_START", 0.05)
    with pytest.raises(BertcliError, match=r"^another rank of this machine has not come for its records$"):
        distributed.Ranks(local_size=2).pipes()


# -- meetings -------------------------------------------------------------------------------------------------------

WAITS, HAS_ENDED = (0, 0, 0), (0, 1, 0)


class Met(distributed.Ranks):
    """The first of two ranks; what the other comes with is known."""

    others: ClassVar[list[tuple[float, ...]]]

    def meet(self, numbers: Sequence[float] = (), error: BertcliError | None = None) -> list[tuple[float, ...]]:
        rows = [[*row, *[0.0] * (distributed.NUMBERS - len(row))] for row in (numbers, self.others.pop(0))]
        return list(zip(*rows, strict=True))


class Here(Iterator[tuple[str, Step]]):
    """Steps that are there at once."""

    def __init__(self, count: int) -> None:
        self._steps = iter([("digest", Step((), {"loss": 2.5}, 7, check=9))] * count)

    def is_near(self, seconds: float) -> bool:
        return True

    def __next__(self) -> tuple[str, Step]:
        return next(self._steps)


@pytest.mark.parametrize(
    ("others", "steps"),
    [
        ([(0, 0, 1, 9, 5, 1.5), HAS_ENDED], 1),
        ([(0, 0, 1, 9, 5, 1.5), WAITS, WAITS, HAS_ENDED], 1),
        ([(signal.SIGTERM, 0, 1, 9, 5, 1.5)], 0),
    ],
)
def test_ranks_end_when_all_have_ended(others: list[tuple[float, ...]], steps: int) -> None:
    Met.others = others
    taken = list(Met(size=2).together(Here(1), Signals()))  # type: ignore[arg-type]
    assert [(step.counts, step.tokens) for _, step in taken] == [({"loss": 4.0}, 12)] * steps
    assert Met.others == []


@pytest.mark.parametrize(("own", "other"), [(0, (0, 0, 1, 9, 5, 1.5)), (1, HAS_ENDED), (1, (0, 0, 1, 8, 5, 1.5))])
def test_ranks_that_have_not_the_same_steps_are_told(own: int, other: tuple[float, ...]) -> None:
    Met.others = [other]
    with pytest.raises(BadData, match="different records"):
        list(Met(size=2).together(Here(own), Signals()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (
            RuntimeError("[/w/pair.cc:553] Connection closed by peer [127.0.0.1]:29. This is typically caused by …"),
            distributed.Lost,
            "another rank has ended, or does not answer (Connection closed by peer [127.0.0.1]:29)",
        ),
        (
            RuntimeError("[/w/unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation to complete"),
            distributed.Lost,
            "another rank has ended, or does not answer (Timed out waiting 8000ms for recv operation to complete)",
        ),
        (
            torch.distributed.DistNetworkError("The server socket has failed to listen; address already in use"),
            BertcliError,
            "The server socket has failed to listen; address already in use",
        ),
        (RuntimeError("CUDA out of memory"), RuntimeError, "CUDA out of memory"),
    ],
)
def test_what_goes_wrong_between_ranks_is_told_as_what_it_is(
    error: Exception, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind) as caught, distributed.telling():
        raise error
    assert (type(caught.value), str(caught.value)) == (kind, told)

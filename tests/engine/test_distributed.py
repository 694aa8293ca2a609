"""Several ranks on CPUs: what they learn is what one process learns, and they begin, stop and fail together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import models
import pytest
import toys
import warm
from hypothesis import given
from hypothesis import strategies as st
from program import environment

from bertcli.engine.packing import dealt

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
                self.processes.append(program.start(words, folder, [stdin, out, err], **variables))

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


def test_machines_that_read_other_records_are_told(program: warm.Program, tmp_path: Path) -> None:
    (tmp_path / "less.jsonl").write_bytes(b"".join(PAIRS.splitlines(keepends=True)[:-1]))
    line = [*PRETRAIN, "--steps", 100, "-o", "two"]
    ranks = Ranks(program, tmp_path, *line, apart=True, inputs=("pairs.jsonl", "less.jsonl"))
    assert ranks.wait() == [65, 65]
    assert "the machines read different records; each has to be given the same files" in ranks.err()


def test_a_bad_line_ends_all_ranks(program: warm.Program, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(PAIRS + b"{}\n")
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--steps", 9, "-o", "two", inputs=("bad.jsonl", "bad.jsonl"))
    assert ranks.wait() == [65, 65]
    assert "<stdin>:301: field 'tokens'" in ranks.err()
    assert not (tmp_path / "two").exists()


def test_a_killed_rank_is_no_hang(program: warm.Program, tmp_path: Path) -> None:
    ranks = Ranks(program, tmp_path, *PRETRAIN, "--steps", 100_000, "-o", "two")
    ranks.wait_for_step("two", 5)
    os.kill(ranks.processes[1].pid, signal.SIGKILL)
    assert ranks.wait() == [1, -signal.SIGKILL]
    assert "has ended" in ranks.err() or "died" in ranks.err()

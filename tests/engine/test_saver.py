"""Checkpoints written beside the training: of the moment when they were asked for, one at a time, no failure lost."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Event, Timer
from typing import Any

import models
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from bertcli import target
from bertcli.engine import checkpoint
from bertcli.engine.device import choose
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.run import Run
from bertcli.engine.saver import Saver
from bertcli.engine.settings import Output, Settings
from bertcli.engine.spool import chunk
from bertcli.engine.train import Trainer
from bertcli.errors import IOFailed, Stopped
from bertcli.records import Record
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build

WORDPIECE = models.wordpiece()
SETTINGS = Settings(
    lr=2e-3, warmup=0.2, schedule="linear", bias_correction=True, batch_size=8, dropout=0.2, seed=3, steps=12
)
DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]


class Held:
    """Holds up the writing of checkpoints until it is let go, or makes it fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.begun, self.error = Event(), Event(), None
        self.steps: list[int] = []
        self._write = checkpoint.write
        monkeypatch.setattr(checkpoint, "write", self.write)

    def write(self, path: Path, state: dict[str, Any], *rest: Any) -> None:
        self.begun.set()
        assert self.go.wait(30)
        if self.error:
            raise self.error
        self._write(path, state, *rest)
        self.steps.append(state["step"])


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(monkeypatch)


def learned(device: str = "cpu", kind: str = "adamw") -> tuple[nn.Module, Optimizer]:
    """Returns a network and its optimizer after a step."""
    network = build(Pretraining(WORDPIECE, 64), models.config()).to(device)
    optimizer = Optimizer(network, Schedule(1e-2, 10, 0, "constant"), kind=kind)
    step(network, optimizer, 1)
    return network, optimizer


def step(network: nn.Module, optimizer: Optimizer, number: int) -> None:
    for parameter in network.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step(number)


def tensors(network: nn.Module, optimizer: Optimizer) -> dict[str, torch.Tensor]:
    """Returns copies of all that a checkpoint keeps of both."""
    live = network.state_dict() | checkpoint.moments(network, optimizer)
    return {name: tensor.detach().cpu().clone() for name, tensor in live.items()}


def stored(path: Path, number: int) -> dict[str, torch.Tensor]:
    home = path / "checkpoint" / str(number)
    return load_file(home / checkpoint.WEIGHTS) | load_file(home / checkpoint.OPTIMIZER)


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
@pytest.mark.parametrize("device", DEVICES)
def test_what_is_saved_is_of_the_moment(held: Held, tmp_path: Path, device: str, kind: str) -> None:
    """Whatever the optimizer does to weights and moments in their places meanwhile."""
    network, optimizer = learned(device, kind)
    with Saver(tmp_path, network, optimizer) as saver:
        randoms = checkpoint.random_states(network)
        expected = {}
        for number in (2, 3):
            expected[number] = tensors(network, optimizer)
            saver.save({"step": number}, [randoms], keep=2)
            step(network, optimizer, number)
            assert not same(tensors(network, optimizer), expected[number])
            held.go.set()
    for number in (2, 3):
        assert same(stored(tmp_path, number), expected[number])
        kept = load_file(tmp_path / "checkpoint" / str(number) / checkpoint.RANDOM)
        assert same(kept, randoms)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_that_is_behind_copies_in_its_order(tmp_path: Path) -> None:
    """The host asks for steps, the copy, and more steps before the device has done the first of them."""
    network, optimizer = learned("cuda")
    with Saver(tmp_path, network, optimizer) as saver:
        saver.save({"step": 1}, [checkpoint.random_states(network)])  # takes its memory, which makes the host wait
        saver.wait()
        busy = torch.randn(8192, 8192, device="cuda")
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        begun = time.monotonic()
        for _ in range(30):
            busy = (busy @ busy).clamp(-1, 1)
        for parameter in network.parameters():
            parameter.data.fill_(2.0)
        saver.save({"step": 2}, [checkpoint.random_states(network)])
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # as the trainer's
            for parameter in network.parameters():
                parameter.data.fill_(3.0)
        asked = time.monotonic() - begun
        torch.cuda.synchronize()
        assert asked < (time.monotonic() - begun) / 2, "the host did not wait"
    kept = load_file(tmp_path / "checkpoint" / "2" / checkpoint.WEIGHTS)
    assert all(bool((tensor == 2).all()) for tensor in kept.values())


def test_memory_is_taken_once(tmp_path: Path) -> None:
    network, optimizer = learned()
    with Saver(tmp_path, network, optimizer) as saver:
        places = []
        for number in (1, 2, 3):
            saver.save({"step": number}, [])
            places.append([place.data_ptr() for place in saver._places])
    assert places[0] == places[1] == places[2]
    assert len(set(places[0])) == len(places[0])
    assert saver._places == []


def test_one_is_under_way_at_a_time_and_told_of_when_it_is_done(held: Held, tmp_path: Path) -> None:
    told: list[int] = []
    with Saver(tmp_path, *learned()) as saver:
        saver.save({"step": 1}, [], then=lambda: told.append(1))
        assert held.begun.wait(30)
        saver.poll()
        assert (held.steps, told, checkpoint.complete(tmp_path)) == ([], [], [])
        held.go.set()
        saver.save({"step": 2}, [], then=lambda: told.append(2))
        assert (held.steps[0], told) == (1, [1])
        saver.wait()
        assert (held.steps, told) == ([1, 2], [1, 2])
        saver.save({"step": 3}, [], then=lambda: told.append(3))
    assert told == [1, 2, 3]
    assert [home.name for home in checkpoint.complete(tmp_path)] == ["3"]


@pytest.mark.parametrize("when", ["poll", "save", "wait", "end"])
def test_no_failure_is_lost(held: Held, tmp_path: Path, when: str) -> None:
    def ended() -> Iterator[None]:
        with Saver(tmp_path, *learned()) as saver:
            saver.save({"step": 1}, [], then=lambda: pytest.fail("it is not saved"))
            saver._under_way[0].exception()  # it is over
            yield
            if when == "save":
                saver.save({"step": 2}, [])
            elif when != "end":
                getattr(saver, when)()
            assert when == "end"

    held.error = IOFailed("a full disk")
    held.go.set()
    run = ended()
    next(run)
    with pytest.raises(IOFailed, match="a full disk"):
        next(run)
    assert checkpoint.complete(tmp_path) == []


# -- runs -----------------------------------------------------------------------------------------------------------


class Watched:
    """A run, what it has said, and the rows of its log up to now."""

    def __init__(self, path: Path, records: Iterable[Record] = tuple(models.pairs(30)), **output: Any) -> None:
        self.path, self.said, self.rows = path, [], []
        path.mkdir(exist_ok=True)
        task = Pretraining(WORDPIECE, 64, seed=3)
        self.network = build(task, models.config().with_dropout(0.2), 3)
        self.run = Run(task, SETTINGS, Output(path, **output), choose("cpu"), {}, self.said.append)
        self.run.stream(lambda *known: (chunk(task.encode(record)) for record in records))

    def train(self, watch: Callable[[Record], None] = lambda row: None) -> None:
        for row in self.run.train(self.network):
            self.rows.append(row)
            watch(row)


def test_a_run_goes_on_while_its_checkpoint_is_written(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third step's is held up until the run comes to the sixth's, which waits for it."""
    one, waited = Watched(tmp_path / "model", save_every=3, stop_at=7), []
    original = Saver.wait

    def wait(saver: Saver) -> None:
        if saver._under_way and not held.go.is_set():
            waited.append((len(one.rows), *held.steps, [said for said in one.said if said.endswith("saved")]))
            held.go.set()
        original(saver)

    monkeypatch.setattr(Saver, "wait", wait)
    one.train()
    assert waited == [(6, [])]
    assert [said.split(":")[0] for said in one.said if said.endswith("saved")] == ["step 3 of 7", "step 6 of 7"]
    whole = Watched(tmp_path / "whole", stop_at=7)
    whole.train()
    for file in (checkpoint.WEIGHTS, checkpoint.OPTIMIZER, checkpoint.RANDOM, checkpoint.STATE):
        assert (one.path / "checkpoint/7" / file).read_bytes() == (whole.path / "checkpoint/7" / file).read_bytes()


def test_a_checkpoint_is_told_of_with_the_first_step_after_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, told, original = Watched(tmp_path / "model", save_every=3, stop_at=8), [], Saver.save

    def save(saver: Saver, *what: Any, **more: Any) -> None:
        original(saver, *what, **more)
        saver._under_way[0].exception()  # it is over

    monkeypatch.setattr(Saver, "save", save)
    one.run.say = lambda message: told.append((one.run.done, message.split(":")[0])) if "saved" in message else None
    one.train()
    assert told == [(4, "step 3 of 8"), (7, "step 6 of 8")]


class Broken(Exception):
    """An error of anything but the checkpoint."""


@pytest.mark.parametrize("how", ["signal", "error"])
def test_what_ends_a_run_waits_for_what_is_written(held: Held, tmp_path: Path, how: str) -> None:
    """The second step's is held up when the run ends in the fourth, or before the fourth's."""
    one = Watched(tmp_path / "model", save_every=2)

    def end(row: Record) -> None:
        if row["step"] == 4:
            Timer(0.3, held.go.set).start()
            if how == "error":
                raise Broken
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Stopped if how == "signal" else Broken):
        one.train(end)
    last = 4 if how == "signal" else 2
    assert held.steps == sorted({2, last})
    assert [path.name for path in (tmp_path / "model" / "checkpoint").iterdir()] == [str(last)]


def test_a_signal_at_the_last_step_leaves_a_finished_model(tmp_path: Path) -> None:
    """Nothing is left to resume, and so nothing that a resumed run would overwrite."""
    one = Watched(tmp_path / "model", save_every=5)

    def end(row: Record) -> None:
        if row["step"] == SETTINGS.steps:
            os.kill(os.getpid(), signal.SIGTERM)

    one.train(end)  # and nothing to stop
    assert target.is_finished(tmp_path / "model")


def test_a_second_signal_does_not_wait_for_what_is_written(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, original = Watched(tmp_path / "model", save_every=2), Trainer.step

    def step(trainer: Trainer, number: int, *rest: Any) -> Any:
        if number == 4:
            raise KeyboardInterrupt
        return original(trainer, number, *rest)

    monkeypatch.setattr(Trainer, "step", step)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        one.train()
    assert time.monotonic() - begun < 20  # what is held up would wait for 30 seconds
    assert held.steps == []
    held.go.set()


@pytest.mark.parametrize("broken", [3, 9])
def test_a_full_disk_ends_the_run_and_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    """Also where no other checkpoint comes after it."""
    path, original = tmp_path / "model", checkpoint.save_file
    one = Watched(path, save_every=3)

    def full(tensors: Any, file: Path) -> None:
        if file.parent.name == f".{broken}" and file.name == checkpoint.OPTIMIZER:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(tensors, file)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save_file", full)
        patch.setattr(Saver, "poll", lambda saver: None)  # which might see it earlier
        with pytest.raises(IOFailed, match=f"^{path / 'checkpoint'}: No space left on device$"):
            one.train()
    assert [home.name for home in checkpoint.complete(path)] == (["6"] if broken == 9 else [])
    assert not any(message.startswith(f"step {broken} of") for message in one.said)
    assert not (path / "config.json").exists()
    again = Watched(path, resume=True)
    again.train()
    assert again.rows[0]["step"] == (7 if broken == 9 else 1)

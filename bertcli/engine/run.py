"""One training run and its folder: the spool it reads from, the log, the checkpoints, and the model it leaves."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from bertcli import __version__, folder
from bertcli.engine import checkpoint
from bertcli.engine.device import Device
from bertcli.engine.feed import Feed, Spool
from bertcli.engine.log import Log
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.predict import predict
from bertcli.engine.signals import Signals
from bertcli.engine.train import Hooks, Plan, Trainer
from bertcli.errors import BadData
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task
from bertcli.weights.safetensors import save_folder


@dataclass(frozen=True)
class Settings:
    """What a run is told about learning; `--resume` goes on with the same settings only."""

    lr: float
    warmup: float
    schedule: str
    bias_correction: bool
    batch_size: int
    dropout: float
    seed: int
    steps: int = 0  # 0: as many as `epochs` take
    epochs: float = 0


@dataclass(frozen=True)
class Output:
    """Where a run leaves its model, and when it saves on the way; in steps, 0 for never."""

    path: Path
    resume: bool = False
    spool: Path | None = None
    stop_at: int = 0
    save_every: int = 0
    save_at: tuple[int, ...] = ()


@dataclass
class Run:
    """A stream of examples on its way through a task into a network and its folder."""

    task: Task
    settings: Settings
    output: Output
    device: Device
    notes: dict[str, Any]  # what `bertcli.json` tells besides: command line, objective …
    dev: list[tuple[Record, list[Example]]] = field(default_factory=list)
    say: Callable[[str], None] = lambda message: None

    def __post_init__(self) -> None:
        """Make the spool. Raises `CannotCreate`."""
        self.steps, self.last_row, self.dev_scores = self.settings.steps, {}, {}  # type: tuple[int, Record, dict[str, Any]]
        self._epoch_steps = 0
        self._spool = Spool(self.output.spool or self.output.path / "spool")
        self._feed = Feed(iter(()), self._spool, self.settings.seed)

    def stream(self, examples: Iterable[list[Example]]) -> None:
        """Take a stream that will be read while the first epoch trains."""
        self._feed = Feed(chain.from_iterable(examples), self._spool, self.settings.seed)

    def read(self, examples: Iterable[list[Example]]) -> int:
        """Read a stream to its end, by which the number of steps is known; returns the number of examples.

        Raises `BadData` where there is none.
        """
        self.stream(examples)
        count = self._feed.read_all()
        if count == 0:
            raise BadData("there is no record to train on")
        self.steps = self.steps or math.ceil(count * self.settings.epochs / self.settings.batch_size)
        self._epoch_steps = math.ceil(count / self.settings.batch_size)
        return count

    @property
    def last(self) -> int:
        """Returns the step with which the run ends, which is not always that to which its rate falls."""
        return min(self.output.stop_at or self.steps, self.steps)

    def train(self, network: Network) -> Iterator[Record]:
        """Train to the end, or to `stop_at`, and write the model folder; yields the rows of the log.

        The dev set is scored after each epoch where their length is known, else with each checkpoint, and at the
        end. The spool goes at success, and with the last step the checkpoints too; a run stopped before it keeps
        one, from which `resume` goes on.
        """
        told, path = self._told(network), self.output.path
        schedule = Schedule(self.settings.lr, self.steps, self.settings.warmup, self.settings.schedule)
        network.to(self.device.device)
        optimizer = Optimizer(network, schedule, bias_correction=self.settings.bias_correction)
        saved = checkpoint.complete(path) if self.output.resume else []
        done = checkpoint.restore(saved[-1], network, optimizer, told) if saved else 0
        if self.output.resume:
            self.say(f"resuming after step {done}" if saved else f"{path}: no complete checkpoint, starting anew")
        last = max(self.last, done)
        every = self._epoch_steps or self.output.save_every
        plan = Plan(last, self.settings.batch_size, self.output.save_every, self.output.save_at, every)
        hooks = Hooks(
            begin=lambda: None if done else folder.clear(path),
            checkpoint=lambda step: checkpoint.save(path, step, network, optimizer, told),
            publish=lambda step: self._publish(path / "steps" / str(step), network, step),
            evaluate=lambda step: self._evaluate(network, step),
        )
        log = Log(path / "log.jsonl", done)
        trainer = Trainer(network, self.task, optimizer, self.device)
        with Signals() as signals:
            for row in trainer.run(self._feed, plan, log, hooks, signals, done=done):
                self.last_row = row
                yield row
            if last < self.steps:
                hooks.checkpoint(last)
            self._publish(path, network, last)
            signals.stop_if_caught(last)
        self._spool.remove()
        if last == self.steps:
            shutil.rmtree(path / "checkpoint", ignore_errors=True)

    def _told(self, network: Network) -> dict[str, Any]:
        """Returns all that must be the same for a resumed run: settings, sizes, vocabulary and what the notes say."""
        sizes = {name: value for name, value in asdict(network.config).items() if "dropout" not in name}
        notes = {name: value for name, value in self.notes.items() if name != "command"}
        pieces = hashlib.blake2b("\n".join(self.task.wordpiece.pieces).encode(), digest_size=4).hexdigest()
        told = {**asdict(self.settings), **sizes, **notes, "steps": self.steps, "vocabulary": pieces}
        return json.loads(json.dumps(told))  # type: ignore[no-any-return]  # as it will be read again: tuples as lists

    def _evaluate(self, network: Network, step: int) -> None:
        if self.dev:
            self.dev_scores = score(network, self.task, self.dev, self.device)
            figures = ", ".join(
                f"{key} {value:.4g}" for key, value in self.dev_scores.items() if isinstance(value, float)
            )
            self.say(f"step {step}: dev {figures}")

    def _publish(self, path: Path, network: Network, step: int) -> None:
        notes = {
            "bertcli": __version__,
            "torch": torch.__version__,
            "task": self.task.name,
            **self.notes,
            "step": step,
            "settings": {**asdict(self.settings), "steps": self.steps},
            **({"dev": self.dev_scores} if self.dev else {}),
        }
        task = self.task
        save_folder(path, network, task.architecture, task.wordpiece, task.max_length, notes)

    def result(self) -> Record:
        """Returns the figures of the whole run: the last row of the log without its rate, and the dev scores."""
        figures = {name: value for name, value in self.last_row.items() if name not in ("lr", "tokens")}
        return {"model": str(self.output.path), **figures, **({"dev": self.dev_scores} if self.dev else {})}


def score(network: Network, task: Task, encoded: list[tuple[Record, list[Example]]], device: Device) -> dict[str, Any]:
    """Returns the task's metrics on records that hold the truth; the network is left in its state."""
    training = network.training
    try:
        return task.score(predict(network, task, encoded, device))
    finally:
        network.train(training)

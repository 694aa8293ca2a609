"""The one training loop: a run, from a stream of examples to a model folder with its log and its checkpoints."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
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
from bertcli.engine.train import Trainer
from bertcli.errors import BadData
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task
from bertcli.weights.safetensors import save_folder

NOTHING = "there is no record to train on"


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


class Run:
    """A stream of examples on its way through a task into a network and its folder."""

    def __init__(
        self,
        task: Task,
        settings: Settings,
        output: Output,
        device: Device,
        notes: dict[str, Any],
        say: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Make the spool; `notes` go into `bertcli.json` too, as the command line. Raises `CannotCreate`."""
        self.task, self.settings, self.output, self.device = task, settings, output, device
        self.notes, self.say = notes, say
        self.dev: list[tuple[Record, list[Example]]] = []
        self.dev_scores: dict[str, Any] = {}
        self.steps, self.done = settings.steps, 0  # in all; and taken so far
        self.last_row: Record = {}
        self._epoch_ends: set[int] = set()
        self._spool = Spool(output.spool or output.path)
        self._feed = Feed(iter(()), self._spool, settings.seed)

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
            raise BadData(NOTHING)
        epochs, batch = self.settings.epochs, self.settings.batch_size
        self.steps = self.steps or math.ceil(count * epochs / batch)
        self._epoch_ends = {math.ceil(count * epoch / batch) for epoch in range(1, math.ceil(epochs) + 1)}
        return count

    @property
    def last(self) -> int:
        """Returns the step with which the run ends, which is not always that to which its rate falls."""
        return max(self.done, min(self.output.stop_at or self.steps, self.steps))

    def train(self, network: Network) -> Iterator[Record]:
        """Train to the end, or to `stop_at`, and write the model folder; yields the rows of the log.

        The dev set is scored after each epoch where their length is known, else with each checkpoint, and at the
        end. The spool goes with the process, and with the last step the checkpoints; a run stopped before it keeps
        one, from which `resume` goes on. A signal ends the step at hand, saves and stops: raises
        `KeyboardInterrupt` or `Stopped`. Raises `BadData` where there is nothing to train on, `BertcliError` where
        the loss is no finite number.
        """
        network.to(self.device.device).train()
        schedule = Schedule(self.settings.lr, self.steps, self.settings.warmup, self.settings.schedule)
        optimizer = Optimizer(network, schedule, bias_correction=self.settings.bias_correction)
        if self.output.resume:
            self._resume(network, optimizer)
        count = sum(parameter.numel() for parameter in network.parameters())
        self.say(f"{count:,} parameters, {self.last - self.done:,} steps of {self.settings.batch_size} examples")
        trainer = Trainer(network, self.task, optimizer, self.device)
        log = Log(self.output.path / "log.jsonl", self.done)
        with Signals() as signals:
            for row in self._steps(trainer, log, signals):
                self.last_row = row
                yield row
            if signals.caught and 0 < self.done < self.last:
                self._checkpoint(network, optimizer)
            if self.done < self.last:
                signals.stop(self.done)
                raise BadData(NOTHING)
            if self.last < self.steps:
                self._checkpoint(network, optimizer)
            self._publish(self.output.path, network)
            signals.stop(self.done)
        if self.last == self.steps:
            shutil.rmtree(self.output.path / "checkpoint", ignore_errors=True)

    def _steps(self, trainer: Trainer, log: Log, signals: Signals) -> Iterator[Record]:
        """Take steps until the last, or until a signal or the want of records ends them; yields rows of the log."""
        if self.done == self.last:
            return
        steps = self._feed.steps(self.settings.batch_size, skip=self.done, epochs=self.settings.epochs)
        for examples in signals.stopping(steps):
            if self.done == 0:  # the first examples are there: now an old model may go
                folder.clear(self.output.path)
            self.done += 1
            log.add(self.done, *trainer.step(self.done, examples))
            is_last = self.done == self.last
            is_saved = is_last or (self.output.save_every and self.done % self.output.save_every == 0)
            yield from log.drain(now=bool(is_saved))
            if self.done in self._epoch_ends or (is_saved and not self._epoch_ends) or is_last:
                self._evaluate(trainer.network)
            if self.done in self.output.save_at:
                self._publish(self.output.path / "steps" / str(self.done), trainer.network)
            if is_last:
                return
            if is_saved:
                self._checkpoint(trainer.network, trainer.optimizer)
                self.say(f"step {self.done} of {self.last}: loss {self.last_row['loss']:.4f}, saved")
        yield from log.drain(now=True)

    def _resume(self, network: Network, optimizer: Optimizer) -> None:
        saved = checkpoint.complete(self.output.path)
        if not saved:
            self.say(f"{self.output.path}: no complete checkpoint, starting anew")
            return
        self.done = checkpoint.restore(saved[-1], network, optimizer, self._fingerprint(network))
        self.say(f"resuming after step {self.done}")

    def _checkpoint(self, network: Network, optimizer: Optimizer) -> None:
        checkpoint.save(self.output.path, self.done, network, optimizer, self._fingerprint(network))

    def _fingerprint(self, network: Network) -> dict[str, Any]:
        """Returns all that must be the same for a resumed run: settings, sizes, vocabulary and what the notes say."""
        sizes = {name: value for name, value in asdict(network.config).items() if "dropout" not in name}
        notes = {name: value for name, value in self.notes.items() if name != "command"}
        pieces = hashlib.blake2b("\n".join(self.task.wordpiece.pieces).encode(), digest_size=4).hexdigest()
        told = {**asdict(self.settings), **sizes, **notes, "steps": self.steps, "vocabulary": pieces}
        return json.loads(json.dumps(told))  # type: ignore[no-any-return]  # as it will be read again: tuples as lists

    def _evaluate(self, network: Network) -> None:
        if self.dev:
            self.dev_scores = score(network, self.task, self.dev, self.device)
            figures = ", ".join(
                f"{key} {value:.4g}" for key, value in self.dev_scores.items() if isinstance(value, float)
            )
            self.say(f"step {self.done}: dev {figures}")

    def _publish(self, path: Path, network: Network) -> None:
        notes = {
            "bertcli": __version__,
            "torch": torch.__version__,
            "task": self.task.name,
            **self.notes,
            "step": self.done,
            "settings": {**asdict(self.settings), "steps": self.steps},
            **({"dev": self.dev_scores} if self.dev else {}),
        }
        task = self.task
        save_folder(path, network, task.architecture, task.wordpiece, task.max_length, notes)

    def result(self) -> Record:
        """Returns where the run ended: the last row of the log without rate and tokens, and the dev scores."""
        figures = {name: value for name, value in self.last_row.items() if name not in ("lr", "tokens")}
        return {"model": str(self.output.path), **figures, **({"dev": self.dev_scores} if self.dev else {})}


def score(network: Network, task: Task, encoded: list[tuple[Record, list[Example]]], device: Device) -> dict[str, Any]:
    """Returns the task's metrics on records that hold the truth; the network is left in its state."""
    training = network.training
    try:
        return task.score(predict(network, task, encoded, device))
    finally:
        network.train(training)

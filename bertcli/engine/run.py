"""The one training loop: a run, from a stream of examples to a model folder with its log and its checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bertcli import __version__, target
from bertcli.engine import checkpoint
from bertcli.engine.device import Device
from bertcli.engine.distributed import Lost
from bertcli.engine.feed import Feed
from bertcli.engine.intake import Read, Reading, whole
from bertcli.engine.kept import Kept
from bertcli.engine.log import Log, Rows, row_of
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.packing import Step
from bertcli.engine.restore import restored
from bertcli.engine.saver import Saver
from bertcli.engine.scores import Scored, evaluated
from bertcli.engine.settings import Input, Output, Settings, fingerprint, making
from bertcli.engine.signals import Signals
from bertcli.engine.spool import Spool
from bertcli.engine.train import Trainer
from bertcli.errors import BadData, Diverged, IOFailed, many
from bertcli.model.config import class_for
from bertcli.model.heads import Network
from bertcli.parallel import Pool
from bertcli.records import Record
from bertcli.tasks.task import Example, Task
from bertcli.weights.folder import save_folder


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
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Take what there is to do; `notes` go into `bertcli.json` too, as the command line."""
        self.task, self.settings, self.output, self.device, self.ranks = task, settings, output, device, device.ranks
        self.notes, self.say, self.warn = notes, say, warn
        self.dev: list[tuple[Record, list[Example]]] = []
        self.dev_scores: dict[str, Any] = {}  # the last ones
        self._now = self.best = Scored()  # of this run, the last one and the best
        self.to_beat = Scored()  # by earlier ones
        self.steps, self.done = settings.steps, 0  # in all; and taken so far
        self.last_row: Record = {}
        self._has_ended = False  # before its last step
        self._fault: Exception | None = None  # of the input, by which it ended
        self._input = Input()
        self._epoch_ends: list[int] = []
        self._randoms = checkpoint.Randoms()

    def stream(
        self, read: Read, pool: Pool | None = None, told: list[Any] | None = None, files: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Take what reads a stream while the first epoch trains, and adds to the list `told`. Raises `CannotCreate`."""
        place, made = self.output.kept_spool(self.ranks.rank), making(self.task, self.notes)
        is_reader, is_resumed = self.ranks.is_reader, self.output.resume
        self._spool = Kept(place, made, resume=is_resumed) if is_reader else Spool(self.output.room)
        self._feed = Feed(read, self._spool, self.settings.seed, pool, told, self.ranks, files)

    def take(self, spool: Spool) -> None:
        """Take examples that were read to their end, by which the number of steps is known."""
        self._spool = spool
        self._feed = Feed(whole, spool, self.settings.seed, Pool(self.device.workers), ranks=self.ranks)
        epochs, batch = self.settings.epochs, self.settings.batch_size
        self.steps = self.steps or math.ceil(len(spool) * epochs / batch)
        self._epoch_ends = [math.ceil(len(spool) * epoch / batch) for epoch in range(1, math.ceil(epochs) + 1)]

    @property
    def last(self) -> int:
        """Returns the step with which the run ends, which is not always that to which its rate falls."""
        return self.done if self._has_ended else max(self.done, min(self.output.stop_at or self.steps, self.steps))

    @property
    def _is_long(self) -> bool:
        """Returns whether the run takes steps by the thousand, as pre-training does."""
        return not self.settings.epochs

    @property
    def is_complete(self) -> bool:
        """Returns whether there is nothing left to do."""
        return self._has_ended or self.done == self.steps

    def train(self, network: Network) -> Iterator[Record]:
        """Train to the end, or to `stop_at`, and write the model folder; yields the rows of the log.

        The dev set is scored where `output` says, and at the end. Spool and checkpoints go with the last step; a run
        that ends before it keeps both, and `resume` goes on from there. A signal, or a fault of the input, ends it
        behind a step: saves, and raises `KeyboardInterrupt`, `Stopped` or the fault. Raises `BadData` where there is
        nothing to train on, `UsageError` where ranks would go apart, `Diverged` where a loss or a gradient is no finite
        number: where there are checkpoints, the last step before is one then.
        """
        with self.ranks.leaving(), self._leaving():
            yield from self._train(network)

    @contextmanager
    def _leaving(self) -> Iterator[None]:
        try:
            yield
        finally:  # what fails before it begins leaves nothing
            self._spool.release(is_wanted=bool(self.done or checkpoint.complete(self.output.path)))

    def _train(self, network: Network) -> Iterator[Record]:
        self.device = self.device.fitted(network, self.settings.batch_size * self.task.max_length // self.ranks.size)
        self.device.place(network, learns=True, is_long=self._is_long).train()
        schedule = Schedule(self.settings.lr, self.steps, self.settings.warmup, self.settings.schedule)
        kind, bias_correction = self.settings.optimizer, self.settings.bias_correction
        optimizer = Optimizer(network, schedule, kind=kind, bias_correction=bias_correction)
        if self.ranks.rank:  # dropout is each rank's own
            torch.manual_seed(self.settings.seed + self.ranks.rank)
        if self.output.resume:
            self._resume(network, optimizer)
        self.ranks.begin_alike(self.output.path, self._state(network))
        count = sum(parameter.numel() for parameter in network.parameters())
        self.say(f"{count:,} parameters, {self.last - self.done:,} steps of {self.settings.batch_size} examples")
        trainer = Trainer(network, self.task, optimizer, self.device)
        home = self.output.path if self.ranks.is_first else None
        log = Log(home and home / self.output.log, self.done)
        self._scores = Rows(home and home / "scores.jsonl", self.done)
        saver = Saver(self.output.path, network, optimizer, self.done)
        with closing(log), closing(self._scores), Signals() as signals, saver as self._saver:
            try:
                with self.ranks.as_one():
                    for row in self._steps(trainer, log, signals):
                        self.last_row = row
                        yield row
            except Diverged as error:
                raise self._saved(error, network) from None
            self._end(network, signals)

    def _end(self, network: Network, signals: Signals) -> None:
        """Save what was trained, by what ended it."""
        self.ranks.share(signals)
        is_whole = self.done == self.last
        try:
            if not self.is_complete and (is_whole or ((signals.caught or self._fault) and self.done)):
                self._checkpoint(network)
            self._saver.wait()
        except IOFailed as error:  # costs steps, and a fault of the input comes again; but both may be one disk's
            raise (self._fault if isinstance(self._fault, IOFailed) else error) from None
        if self._fault:
            if self.done:
                self.say(f"step {self.done} is saved; --resume goes on from there")
            raise self._fault
        if is_whole and not self.settings.early_stop:
            self._offer(network)
        self.ranks.share(signals)  # `torchrun` kills the first one, perhaps in a save, soon after another has ended
        if self.is_complete and self.ranks.is_first:
            checkpoint.discard(self.output.path, is_finished=self.output.is_only)
        if self.is_complete:
            self._spool.discard()
        signals.stop(self.done, self.output.run, is_over=self.is_complete and self.output.is_only)
        if not is_whole:
            raise BadData("there is no record to train on")

    def _steps(self, trainer: Trainer, log: Log, signals: Signals) -> Iterator[Record]:
        """Take steps until the last, or until a signal or the want of records ends them; yields rows of the log."""
        if self.done == self.last:
            return
        is_compiling = self.device.is_compiled(is_long=self._is_long)
        for step in self._batches(trainer, signals):
            if self.done == 0 and self.output.is_first:
                if self.ranks.is_first:
                    target.clear(self.output.path)  # the first examples are there: now an old model may go
                    checkpoint.begin(self.output.path)
                self.ranks.meet()  # none waits in the step for one that has failed here
            self._randoms.add(self.done, trainer.network, good=self.last_row.get("step", 0))
            self.done += 1
            begun = time.monotonic()
            log.add(self.done, *trainer.step(self.done, step), trainer.optimizer.norm)
            if is_compiling:
                self.say(f"step {self.done}: compiled, and taken, in {time.monotonic() - begun:.1f} s")
            is_compiling = False
            self._saver.poll()
            is_last = self.done == self.last
            is_saved = is_last or (self.output.save_every and self.done % self.output.save_every == 0)
            is_kept, is_scored = self.done in self.output.save_at, is_last or self._is_scored(bool(is_saved))
            yield from log.drain(now=bool(is_saved or is_kept or is_scored))
            if is_scored:
                self._evaluate(trainer.network)
                self._stop_early(trainer.network)
            if is_kept:
                self._publish(self.output.path / "steps" / str(self.done), trainer.network)
            if is_last or self._has_ended:
                return
            if is_saved:
                told = f"step {self.done} of {self.last}: loss {self.last_row['loss']:.4f}, saved"
                self._checkpoint(trainer.network, then=partial(self.say, told))
        yield from log.drain(now=True)

    def _batches(self, trainer: Trainer, signals: Signals) -> Iterator[Step]:
        """Yields the steps: of the checkpoint's input from its place on, of another from its first record."""
        asked = trainer.prepare, self.settings.batch_size, self.settings.epochs, self._input, self.done
        if self.ranks.size == 1:
            steps = signals.stopping(self._feed.steps(*asked))
        else:
            steps = self.ranks.together(self._feed.shared(*asked), signals)
        is_known = False
        try:
            with self.ranks.as_one():
                for reading, step in steps:
                    if not is_known:
                        self._know(reading)
                    self._input, is_known = reading.input, True
                    yield step
        except Lost:
            raise
        except Exception as error:  # of the input, or of who reads it: the network is as after the last step
            self._fault = error

    def _know(self, reading: Reading) -> None:
        """Tell which input is at hand, before its first step."""
        if self.done:
            (self.warn if reading.input.begun == self.done else self.say)(f"the input is {reading.told}")
        self._epoch_ends = [end + reading.input.begun for end in self._epoch_ends]

    def _is_scored(self, is_saved: bool) -> bool:
        """Returns whether the dev set is to be scored after the step at hand."""
        if self.output.eval_every:
            return self.done % self.output.eval_every == 0
        return self.done in self._epoch_ends or (is_saved and not self._epoch_ends)

    def _resume(self, network: Network, optimizer: Optimizer) -> None:
        path, told = self.output.path, self._settings(network)
        state = restored(path, network, optimizer, told, self.ranks.rank, self.warn)
        if state is None:
            self.say(f"{path}: no complete checkpoint, starting anew")
            return
        self.done, self._input = state["step"], Input.of(state["input"])
        self.best = Scored(**(state["best"] or {}))
        self.notes = {**self.notes, "history": state.get("commands", [])}
        self.say(f"resuming after step {self.done}")

    def _checkpoint(self, network: Network, then: Callable[[], None] = lambda: None) -> None:
        """Begin to save what `resume` goes on from; all ranks must do so together."""
        randoms = self.ranks.gather(checkpoint.random_states(network))
        if self.ranks.is_first:
            self._saver.save(self._state(network), randoms, keep=self.output.keep, then=then)

    def _settings(self, network: Network) -> dict[str, Any]:
        return fingerprint(replace(self.settings, steps=self.steps), network.config, making(self.task, self.notes))

    def _state(self, network: Network) -> dict[str, Any]:
        best = asdict(self.best) if self.best.scores else None
        commands = [*self.notes.get("history", []), *filter(None, [self.notes.get("command")])]
        told = {"settings": self._settings(network), "input": asdict(self._input), "best": best}
        return {"step": self.done, "commands": commands, **told}

    def _saved(self, error: Diverged, network: Network) -> Diverged:
        """Make a checkpoint of the step before the one that could not be taken; returns the error that names both.

        The checkpoint before stays too, for what leads to such a step may have begun earlier. There is none of a run
        without checkpoints, nor of one of several, which ends with it, nor where the weights themselves are no finite
        numbers. Who resumes from it comes to the same step: the random states are those of before it.
        """
        is_whole = all(bool(parameter.isfinite().all()) for parameter in network.parameters())
        if not (error.step and error.step > 1 and self.output.save_every and self.output.is_only and is_whole):
            return error
        self.done = error.step - 1  # the optimizer went no further, although the host did
        with self.ranks.as_one():
            randoms = self.ranks.gather(self._randoms.of(self.done))
            if self.ranks.is_first:
                self._saver.save(self._state(network), randoms, keep=max(2, self.output.keep))
                self._saver.wait()
        error.args = (f"{error}; step {self.done} is saved in {self.output.path / 'checkpoint' / str(self.done)}",)
        return error

    def _evaluate(self, network: Network) -> None:
        if not self.dev:
            return
        found = None
        if self.ranks.is_first:
            found = evaluated(network, self.task, self.dev, self.device, self.done, self.settings.metric)
        self.dev_scores, self._now = self.ranks.of_first(found)  # type: ignore[misc]  # who is the first has found them
        if self.output.is_only:  # of several runs the table has them
            self._scores.write([{"step": self.done, **self.dev_scores}])
        figures = ", ".join(f"{key} {value:.4g}" for key, value in self.dev_scores.items() if isinstance(value, float))
        self.say(f"step {self.done}: dev {figures}")

    def _stop_early(self, network: Network) -> None:
        """Keep the epoch that has the best dev score yet, and end where too many have gone by without a better one."""
        patience = self.settings.early_stop
        if not patience:
            return
        if self._now > self.best:
            self._offer(network)
        ends = [end for end in self._epoch_ends if self.best.step < end <= self.done]
        is_over = len(ends) >= patience
        if ends and (is_over or self.done == self.steps):
            told = f"no better dev score for {many(len(ends), 'epoch')}"
            self.say(f"step {self.done}: {told}: the one of step {self.best.step} stays")
        self._has_ended = is_over and self.done < self.last

    def _offer(self, network: Network) -> None:
        """Write the model folder, unless an earlier run has a better dev score."""
        self.best = self._now
        if self.best > self.to_beat or not self.best.scores:
            self._publish(self.output.path, network)

    def _publish(self, path: Path, network: Network) -> None:
        if not self.ranks.is_first:
            return
        notes = {
            "bertcli": __version__,
            "torch": torch.__version__,
            "task": self.task.name,
            **self.notes,
            **self.task.notes(),
            "step": self.done,
            "settings": {**asdict(self.settings), "steps": self.steps},
            "engine": self.device.switches(network, is_long=self._is_long),
            **({"dev": self.dev_scores} if self.dev else {}),
            **({"failed": True} if self._now.scores and not self._now.is_sound else {}),
        }
        task, kind = self.task, class_for(network.config, self.task.architecture)
        save_folder(path, network, kind, task.wordpiece, task.max_length, notes)

    @property
    def kept_row(self) -> Record:
        """Returns the log's row of the step that was kept, with the seconds of all."""
        if self.best.step in (0, self.last_row.get("step")) or not self.ranks.is_first:
            return self.last_row
        row = row_of(self.output.path / self.output.log, self.best.step)
        return row | {"seconds": self.last_row.get("seconds", row["seconds"])}

    def result(self) -> Record:
        """Returns the step that was kept, with its losses and dev scores."""
        figures = {"step": self.done}
        figures |= {name: value for name, value in self.kept_row.items() if name not in ("lr", "tokens")}
        dev = {"dev": self.best.scores or self.dev_scores} if self.dev else {}
        failed = {"failed": True} if self.best.scores and not self.best.is_sound else {}
        return {"model": str(self.output.path), **figures, **dev, **failed}

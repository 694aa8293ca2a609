"""The one training loop: any task, from a feed of examples to a trained network."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, TypeVar

from torch import Tensor

from bertcli.engine.device import Device
from bertcli.engine.feed import Feed
from bertcli.engine.log import Log
from bertcli.engine.optim import Optimizer
from bertcli.engine.packing import batches
from bertcli.errors import BadData, Stopped
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """How far to train and when to save, in optimizer steps; the rate follows `Schedule`, which may go on further."""

    last: int
    batch_size: int
    save_every: int = 0
    save_at: tuple[int, ...] = ()
    evaluate_every: int = 0


@dataclass(frozen=True)
class Hooks:
    """What is done after a step: save what resuming needs, save a whole model folder, look at the dev set."""

    checkpoint: Callable[[int], None] = lambda step: None
    publish: Callable[[int], None] = lambda step: None
    evaluate: Callable[[int], None] = lambda step: None


class Trainer:
    """A network, a task and an optimizer on one device."""

    def __init__(self, network: Network, task: Task, optimizer: Optimizer, device: Device) -> None:
        """Take a network that is on its device already."""
        self.network, self.task, self.optimizer, self.device = network, task, optimizer, device

    def run(self, feed: Feed, plan: Plan, log: Log, hooks: Hooks = Hooks(), *, done: int = 0) -> Iterator[Record]:
        """Train from step `done` to the plan's last; yields the log's rows as they become known.

        A signal ends the step at hand, saves and stops: raises `KeyboardInterrupt` or `Stopped`. Raises `BadData`
        where there is nothing to train on, `BertcliError` where the loss is no finite number.
        """
        if done >= plan.last:
            return
        self.network.train()
        step = done
        with Signals() as signals:
            for step, examples in enumerate(signals.stopping(feed.steps(plan.batch_size, skip=done)), done + 1):
                losses, rate, tokens = self.step(step, examples)
                log.add(step, losses, rate, tokens)
                is_last = step >= plan.last
                yield from log.drain(now=is_last)
                if is_last or _is_due(step, plan.evaluate_every):
                    hooks.evaluate(step)
                if step in plan.save_at:
                    hooks.publish(step)
                if signals.caught or (_is_due(step, plan.save_every) and not is_last):
                    yield from log.drain(now=True)
                    hooks.checkpoint(step)
                signals.stop_if_caught(step)
                if is_last:
                    break
            if signals.caught:
                yield from log.drain(now=True)
                hooks.checkpoint(step)
                signals.stop_if_caught(step)
        if step == done:
            raise BadData("there is no record to train on")

    def step(self, number: int, examples: list[tuple[int, Example]]) -> tuple[dict[str, Tensor], float, int]:
        """Take one optimizer step; returns the losses, the learning rate and the number of tokens.

        However the examples are divided into forward passes, each loss is a sum over all of them, divided once by
        its own count.
        """
        seen = [self.task.at_epoch(example, epoch) for epoch, example in examples]
        groups = batches([len(example["ids"]) for example in seen], self.device.max_tokens)
        parts = [self.task.collate([seen[index] for index in group]) for group in groups]
        counts = {name: max(1, sum(part.counts[name] for part in parts)) for name in parts[0].counts}
        means: dict[str, Tensor] = {}
        for part in parts:
            with self.device.autocast():
                sums = self.task.losses(self.network, part.to(self.device.device))
            losses = {name: sums[name] / counts[name] for name in counts}
            sum(losses.values(), start=next(iter(losses.values())).new_zeros(())).backward()  # type: ignore[no-untyped-call]
            means = {name: loss.detach() + means.get(name, 0) for name, loss in losses.items()}
        return means, self.optimizer.step(number), sum(sum(part.packed.lengths) for part in parts)


def _is_due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


class _Woken(Exception):
    """A signal came while nothing was done but wait for input."""


class Signals:
    """Holds back SIGINT, SIGTERM and SIGUSR1 until a step is whole; a second one stops at once."""

    def __init__(self) -> None:
        """Change nothing yet."""
        self.caught: int | None = None
        self._waits = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        """Begin to hold signals back."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            self._old[number] = signal.signal(number, self._catch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals their old meaning."""
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        signal.signal(number, self._old[number])
        if self._waits:
            raise _Woken

    def stopping(self, items: Iterator[T]) -> Iterator[T]:
        """Yields items until a signal comes, even where the next one is long in coming, as from a slow producer."""
        try:
            while True:
                self._waits = True
                item = None if self.caught else next(items, None)
                self._waits = False
                if item is None:
                    return
                yield item
        except _Woken:
            self._waits = False

    def stop_if_caught(self, step: int) -> None:
        """Raise what the signal that came means."""
        if self.caught == signal.SIGINT:
            raise KeyboardInterrupt
        if self.caught is not None:
            name = signal.Signals(self.caught).name
            raise Stopped(f"stopped by {name} after step {step}; --resume goes on from there")

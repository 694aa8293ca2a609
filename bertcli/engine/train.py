"""The one training loop: any task, from a feed of examples to a trained network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch import Tensor

from bertcli.engine.device import Device
from bertcli.engine.feed import Feed
from bertcli.engine.log import Log
from bertcli.engine.optim import Optimizer
from bertcli.engine.packing import batches
from bertcli.engine.signals import Signals
from bertcli.errors import BadData
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task


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
    """What is done once the first examples are there, and after a step: each is handed the step's number.

    `checkpoint` saves what resuming needs, `publish` a whole model folder, `evaluate` looks at the dev set.
    """

    begin: Callable[[], None] = lambda: None
    checkpoint: Callable[[int], None] = lambda step: None
    publish: Callable[[int], None] = lambda step: None
    evaluate: Callable[[int], None] = lambda step: None


class Trainer:
    """A network, a task and an optimizer on one device."""

    def __init__(self, network: Network, task: Task, optimizer: Optimizer, device: Device) -> None:
        """Take a network that is on its device already."""
        self.network, self.task, self.optimizer, self.device = network, task, optimizer, device

    def run(
        self, feed: Feed, plan: Plan, log: Log, hooks: Hooks, signals: Signals, *, done: int = 0
    ) -> Iterator[Record]:
        """Train from step `done` to the plan's last; yields the log's rows as they become known.

        A signal ends the step at hand, saves and stops: raises `KeyboardInterrupt` or `Stopped`. Raises `BadData`
        where there is nothing to train on, `BertcliError` where the loss is no finite number.
        """
        if done >= plan.last:
            return
        self.network.train()
        step = done
        for step, examples in enumerate(signals.stopping(feed.steps(plan.batch_size, skip=done)), done + 1):
            if step == done + 1:
                hooks.begin()
            losses, rate, tokens = self.step(step, examples)
            log.add(step, losses, rate, tokens)
            is_last = step >= plan.last
            yield from log.drain(now=is_last)
            if is_last or _is_due(step, plan.evaluate_every):
                hooks.evaluate(step)
            if step in plan.save_at:
                hooks.publish(step)
            if is_last:
                break
            if _is_due(step, plan.save_every):
                hooks.checkpoint(step)
        yield from log.drain(now=True)
        if signals.caught and step > done:
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

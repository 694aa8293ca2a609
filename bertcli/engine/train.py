"""One optimizer step of any task: many forward passes, one update."""

from __future__ import annotations

import torch
from torch import Tensor

from bertcli.engine.device import Device
from bertcli.engine.optim import Optimizer
from bertcli.engine.packing import batches
from bertcli.model.heads import Network
from bertcli.tasks.task import Example, Task


class Trainer:
    """A network, a task and an optimizer on one device."""

    def __init__(self, network: Network, task: Task, optimizer: Optimizer, device: Device) -> None:
        """Take a network that is on its device already."""
        self.network, self.task, self.optimizer, self.device = network, task, optimizer, device

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
            torch.stack(list(losses.values())).sum().backward()  # type: ignore[no-untyped-call]
            means = {name: loss.detach() + means.get(name, 0) for name, loss in losses.items()}
        return means, self.optimizer.step(number), sum(sum(part.packed.lengths) for part in parts)

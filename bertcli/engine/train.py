"""One optimizer step of any task: many forward passes, one update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import torch
from torch import Tensor

from bertcli.engine.device import Device
from bertcli.engine.distributed import Gradients
from bertcli.engine.graphs import Graphs, filled
from bertcli.engine.optim import Optimizer
from bertcli.engine.packing import Step, prepared
from bertcli.model.heads import Network
from bertcli.tasks.task import Batch, Example, Task


class Trainer:
    """A network, a task and an optimizer on one device."""

    def __init__(self, network: Network, task: Task, optimizer: Optimizer, device: Device) -> None:
        """Take a network that is on its device already."""
        self.network, self.task, self.optimizer, self.device = network, task, optimizer, device
        is_recorded = device.is_recorded(network)
        # Recordings are made on a stream of their own, on which all gradients must be computed then.
        self._stream = torch.cuda.Stream(device.device) if is_recorded else None  # type: ignore[no-untyped-call]
        self._graphs = Graphs() if is_recorded else None
        self._gradients = None if device.ranks.size == 1 else Gradients(network)
        optimizer.keeps_gradients = bool(self._graphs or self._gradients)

    @property
    def prepare(self) -> Callable[[list[tuple[int, Example]]], Step]:
        """Returns what makes a step of examples with their epochs, here or in another process."""
        task, max_tokens = self.task, self.device.max_tokens
        collate = partial(filled, task) if self._graphs else None
        return lambda examples: prepared(task, examples, max_tokens, collate)

    def step(self, number: int, step: Step) -> tuple[dict[str, Tensor], float, int]:
        """Take one optimizer step; returns the losses, the learning rate and the number of tokens.

        However the examples are divided into forward passes and among ranks, each loss is a sum over all of them,
        divided once by its own count.
        """
        with nullcontext() if self._stream is None else _on(self._stream):
            scale = 1 / torch.tensor([count or 1.0 for count in step.counts.values()])
            none = torch.zeros(len(scale), device=self.device.device)
            losses = torch.stack([none, *(self._run(part, scale) for part in step.parts)]).sum(0)
            if self._gradients:
                losses = self._gradients.add_up(losses)
            rate = self.optimizer.step(number, losses)
        return dict(zip(step.counts, losses, strict=True)), rate, step.tokens

    def _run(self, batch: Batch, scale: Tensor) -> Tensor:
        """Pass a batch that is on the host; returns its part of each loss."""
        if self.device.device.type == "cuda":
            batch, scale = batch.pinned(), scale.pin_memory()
        if self._graphs:
            return self._graphs.run(self._pass, batch, scale)
        return self._pass(batch.to(self.device.device), scale.to(self.device.device, non_blocking=True))

    def _pass(self, batch: Batch, scale: Tensor) -> Tensor:
        """Add a batch's part to the gradients; returns its part of each loss."""
        with self.device.autocast():
            sums = self.task.losses(self.network, batch)
        losses = torch.stack([sums[name] for name in batch.counts]) * scale
        losses.sum().backward()  # type: ignore[no-untyped-call]
        return losses.detach()


@contextmanager
def _on(stream: torch.cuda.Stream) -> Iterator[None]:
    """Runs what is inside on another stream, after what came before it and before what comes after."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream().wait_stream(stream)

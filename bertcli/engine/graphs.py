"""Forward and backward passes on a GPU, recorded once a shape and replayed.

A step is hundreds of kernels, those of a small model or of a small batch microseconds each, and issuing them takes
several times as long as running them. A CUDA graph issues all at once; it wants the same shapes each time, so a batch
is filled up to one of few sizes, with sequences of [PAD] from which nothing is learned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import torch
from torch import Tensor

from bertcli.tasks.task import Batch, Example, Task, grain

SMALLEST = 64  # tokens by which sizes differ at least
FEWEST = 16  # sequences, of which sizes are an eighth apart: those of fewer would be further
SEQUENCES = 8  # of which there is a multiple: the shares of several ranks differ by some
MOST = 64  # graphs; shapes beyond them are issued one kernel at a time

Pass = Callable[[Batch, Tensor], Tensor]


def filled(task: Task, examples: Sequence[Example]) -> Batch:
    """Returns a batch filled up to a size that recurs.

    Sizes are half as far apart as those of batches of so many sequences usually are, but no less than `SMALLEST`: of 32
    some 4 to 9% of their tokens, of 512 1 to 2%. So there are few, and little is padding.
    """
    tokens = sum(len(example["ids"]) for example in examples)
    unit = max(SMALLEST, grain(tokens, max(FEWEST, len(examples))))
    # Always as many for a size, as their number is part of the shape; each has a token or more, and no more positions
    # than others may have.
    count = math.ceil((unit - 1) / (task.max_length - 1))
    count += -(len(examples) + count) % SEQUENCES
    rest = count + -(tokens + count) % unit
    padding = [task.padding((rest + place) // count) for place in range(count)]
    batch = task.evened(task.collate([*examples, *padding]))
    return replace(batch, packed=replace(batch.packed, longest=task.max_length))


class Graphs:
    """Recordings of a pass over a batch; what the pass fills, such as gradients, must stay in its place."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self._seen: Counter[tuple[object, ...]] = Counter()
        self._graphs: dict[tuple[object, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, own: Pass, batch: Batch, scale: Tensor) -> Tensor:
        """Returns what a pass makes of a batch on the host, from its recording once its shape has come twice."""
        tensors = [*_tensors(batch), scale]
        shape = (batch.packed.longest, *(tensor.shape for tensor in tensors))
        self._seen[shape] += 1
        if shape not in self._graphs:
            device = torch.device("cuda", torch.cuda.current_device())
            moved = batch.to(device), scale.to(device, non_blocking=True)
            if self._seen[shape] == 1 or not self._has_room():
                return own(*moved)
            self._record(shape, own, *moved)
        graph, inputs, output = self._graphs[shape]
        for place, tensor in zip(inputs, tensors, strict=True):
            place.copy_(tensor, non_blocking=True)
        graph.replay()
        return output.clone()  # its memory is the next graph's too

    def _has_room(self) -> bool:
        """Returns whether there is memory for another recording: at most what has been in use at once so far."""
        if len(self._graphs) == MOST:
            return False
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        return torch.cuda.mem_get_info()[0] + unused >= torch.cuda.max_memory_allocated()

    def _record(self, shape: tuple[object, ...], own: Pass, batch: Batch, scale: Tensor) -> None:
        graph = torch.cuda.CUDAGraph()
        stream, mode = torch.cuda.current_stream(), "thread_local"  # NCCL's own thread asks the device at any time
        with torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode=mode):
            output = own(batch, scale)
        self._graphs[shape] = graph, [*_tensors(batch), scale], output


def _tensors(batch: Batch) -> list[Tensor]:
    """Returns all that a pass reads of a batch."""
    values = [getattr(batch.packed, field.name) for field in fields(batch.packed)]
    return [*(value for value in values if isinstance(value, Tensor)), *batch.targets.values()]

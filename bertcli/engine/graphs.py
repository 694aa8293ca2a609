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
MOST = 64  # graphs; shapes beyond them are issued one kernel at a time

Pass = Callable[[Batch, Tensor], Tensor]


def filled(task: Task, examples: Sequence[Example]) -> Batch:
    """Returns a batch filled up to a size that recurs.

    Sizes are as far apart as those of batches of so many sequences usually are: of 32 some 5 to 10% of their tokens, of
    512 some 2%. So there are few, and little is padding.
    """
    tokens = sum(len(example["ids"]) for example in examples)
    unit = max(SMALLEST, grain(tokens, len(examples)))
    # Always as many sequences, of a token or more, and none that has more positions than others may have.
    count = math.ceil((unit - 1) / (task.max_length - 1))
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
        self._is_full = False

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
        """Returns whether another recording finds the memory that it may need, at most what all has taken so far."""
        free, _ = torch.cuda.mem_get_info()
        self._is_full |= len(self._graphs) == MOST or free < torch.cuda.max_memory_allocated()
        return not self._is_full

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

"""Several processes that train one model, a rank each, started by `torchrun` on one machine or on several.

Gradients are summed by one plain all-reduce a step, over one buffer of which every parameter's gradient is a view. Not
by DistributedDataParallel: it expects of each rank the same number of backward passes, where a step's shares may be
uneven or even empty, and its hooks do not run in passes that are recorded.

Of each machine's ranks the first one reads and makes the steps of all of them. Every machine reads the same input,
follows the same order, and takes its own ranks' shares.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn

from bertcli.engine.packing import Step
from bertcli.engine.signals import Signals
from bertcli.errors import BadData, BertcliError
from bertcli.parallel import Coming

LONGEST_WAIT = timedelta(hours=12)  # of one rank for another, which may score or save meanwhile
LONGEST_STEP = timedelta(minutes=30)  # of one GPU for another, whose rank may compile meanwhile
LOSSES = 8  # of a task, at most
POLL = 0.5  # seconds after which ranks that wait for records look whether one was told to stop

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """A process's place among those that train one model, and how it talks to the others; alone, there are none."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of one machine
    local_size: int = 1
    group: Any = None  # by which hosts talk, whatever the device

    @property
    def is_first(self) -> bool:
        """Returns whether this is the one process that writes."""
        return self.rank == 0

    @property
    def is_reader(self) -> bool:
        """Returns whether this process reads the input for its machine."""
        return self.local_rank == 0

    @property
    def of_machine(self) -> range:
        """Returns the ranks of this machine."""
        first = self.rank - self.local_rank
        return range(first, first + self.local_size)

    def gather(self, value: T) -> list[T]:
        """Returns every rank's value, at every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with _told():
            distributed.all_gather_object(values, value, group=self.group)
        return values

    def of_reader(self, value: T) -> T:
        """Returns the value of the rank that reads for this machine."""
        return self.gather(value if self.is_reader else None)[self.of_machine[0]]  # type: ignore[return-value]

    def of_first(self, value: T) -> T:
        """Returns the value of the first of all ranks."""
        return self.gather(value if self.is_first else None)[0]  # type: ignore[return-value]

    def pipes(self) -> list[Connection]:
        """Returns a pipe to each other rank of this machine; to the one that reads, where this is another."""
        if not self.is_reader:
            pipe = Client(self.of_reader(""), "AF_UNIX")
            pipe.send(self.local_rank)
            return [pipe]
        if self.local_size == 1:
            self.of_reader("")
            return []
        with TemporaryDirectory() as folder, Listener(f"{folder}/feed", "AF_UNIX", self.local_size) as listener:
            self.of_reader(str(listener.address))
            pipes = [listener.accept() for _ in range(self.local_size - 1)]
        return sorted(pipes, key=lambda pipe: int(pipe.recv()))

    def together(self, steps: Coming[tuple[str, Step]], signals: Signals) -> Iterator[tuple[str, Step]]:
        """Yields this rank's part of each step, with the counts and tokens of all, when every rank has its own.

        It ends where a signal told any of the ranks to stop: then all have caught it. Raises `BadData` where machines
        do not read the same.
        """
        coming: tuple[str, Step] | None = None
        has_ended = False
        while True:
            if coming is None and not has_ended and steps.is_near(POLL):
                coming = next(steps, None)
                has_ended = coming is None
            own = None if coming is None else replace(coming[1], parts=())
            shares = self.gather((signals.caught, has_ended, own))
            if signals.share(number for number, _, _ in shares):
                return
            known = [share for _, _, share in shares if share is not None]
            if len({share.check for share in known}) + any(has_ended for _, has_ended, _ in shares) > 1:
                raise BadData("the machines read different records; each has to be given the same files, in one order")
            if has_ended:
                return
            if coming is not None and len(known) == self.size:
                digest, step = coming
                counts = {name: sum(share.counts[name] for share in known) for name in step.counts}
                yield digest, replace(step, counts=counts, tokens=sum(share.tokens for share in known))
                coming = None


ALONE = Ranks()


class Gradients:
    """The gradients of a network in one buffer, behind which there is room for losses, to be summed over all ranks."""

    def __init__(self, network: nn.Module) -> None:
        """Give all parameters gradients that are views of the buffer; all ranks get the weights of the first one."""
        parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        sizes = [parameter.numel() for parameter in parameters]
        self._size = sum(sizes)
        self._buffer = parameters[0].new_zeros(self._size + LOSSES)
        for parameter, place in zip(parameters, torch.split(self._buffer[: self._size], sizes), strict=True):
            parameter.grad = place.view_as(parameter)
        with _told():
            for tensor in network.state_dict().values():
                distributed.broadcast(tensor, 0)

    def add_up(self, losses: Tensor) -> Tensor:
        """Make the gradients the sums of all ranks' gradients; returns the sums of their losses."""
        own = self._buffer[self._size : self._size + len(losses)]
        own.copy_(losses)
        with _told():
            distributed.all_reduce(self._buffer)
        return own.clone()


def join(device: torch.device) -> Ranks:
    """Returns this process's place among those that `torchrun` has started, when all have come; else `ALONE`."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "MASTER_ADDR" not in os.environ:
        return ALONE
    is_gpu = device.type == "cuda"
    with _told():
        distributed.init_process_group(
            "nccl" if is_gpu else "gloo",
            timeout=LONGEST_STEP if is_gpu else LONGEST_WAIT,
            device_id=device if is_gpu else None,
        )
        group = distributed.new_group(backend="gloo", timeout=LONGEST_WAIT)
    rank, size, local_rank, local_size = (
        int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    )
    return Ranks(rank, size, local_rank, local_size, group)


@contextmanager
def _told() -> Iterator[None]:
    """Tells of the end of another process as what it is."""
    try:
        yield
    except RuntimeError as error:
        raise BertcliError(f"another rank has ended ({str(error).splitlines()[0]})") from error

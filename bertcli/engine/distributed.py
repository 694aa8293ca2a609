"""Several processes that train one model, a rank each, started by `torchrun` on one machine or on several.

Gradients are summed by one plain all-reduce a step, over one buffer of which every parameter's gradient is a view. Not
by DistributedDataParallel: it expects of each rank the same number of backward passes, where a step's shares may be
uneven or even empty, and its hooks do not run in passes that are recorded.

Of each machine's ranks the first one reads and makes the steps of all of them. Every machine reads the same input,
follows the same order, and takes its own ranks' shares.

Whatever the hosts have to say to each other they say when they meet: each comes with a row of numbers, the first of
which is whether it has failed. So one that fails, wherever that is, has only to come too, and all end by its error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import compress
from multiprocessing.connection import Connection
from pathlib import Path
from socket import AF_UNIX, socket
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from bertcli import torchrun
from bertcli.engine.packing import Step
from bertcli.engine.signals import Signals
from bertcli.errors import BadData, BertcliError, IOFailed, UsageError, of_system
from bertcli.parallel import Coming

LONGEST_WAIT = timedelta(hours=12)  # of one rank for another, which may score or save meanwhile
LONGEST_STEP = timedelta(minutes=30)  # of one GPU for another, whose rank may compile meanwhile
LONGEST_START = 60.0  # seconds of one rank for another of its machine, which has only to open a pipe
LOSSES = 8  # of a task, at most
NUMBERS = 5 + LOSSES  # with which a rank may come when all meet
POLL = 0.5  # seconds after which ranks that wait for records look whether one was told to stop
GONE = re.compile("connect|by peer|broken pipe|timed out|ncclRemoteError", re.IGNORECASE)  # gloo's, nccl's, the store's

T = TypeVar("T")


class Lost(BertcliError):
    """Another rank that has ended without a word, as one that was killed, or that does not answer."""


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

    # -- meetings

    def meet(self, numbers: Sequence[float] = (), error: BertcliError | None = None) -> list[tuple[float, ...]]:
        """Returns for each number that of every rank, at every rank when all have come; zeros follow, up to `NUMBERS`.

        Raises, at all of them, the first error that one has come with; `Lost` where one does not come any more.
        """
        if self.size == 1:
            return [(number,) for number in numbers]
        own = torch.zeros(1 + NUMBERS, dtype=torch.float64)  # which holds a checksum of 32 bits as it is
        own[: 1 + len(numbers)] = torch.tensor([error is not None, *numbers], dtype=torch.float64)
        rows = list(own.new_empty(self.size, 1 + NUMBERS))
        with telling():
            distributed.all_gather(rows, own, group=self.group)
        has_failed, *told = zip(*(row.tolist() for row in rows), strict=True)
        if any(has_failed):
            first = next(filter(None, self._exchanged(error)))
            first.is_shared = True
            raise first
        return told

    @contextmanager
    def as_one(self) -> Iterator[None]:
        """Lets what fails at one rank fail at all, by the same error; none goes on before all have come through."""
        try:
            yield
        except Lost:
            raise
        except (BertcliError, OSError) as error:
            if not getattr(error, "is_shared", False):
                with suppress(Lost):  # then it is this one's alone
                    self.meet(error=error if isinstance(error, BertcliError) else IOFailed(of_system(error)))
            raise
        self.meet()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Lets none leave by an error of all before the first one has put in order what it has to."""
        try:
            yield
        except BertcliError as error:
            if error.is_shared:
                with suppress(Lost):
                    self.meet()
            raise

    def gather(self, value: T) -> list[T]:
        """Returns every rank's value, at every rank."""
        self.meet()
        return [value] if self.size == 1 else self._exchanged(value)

    def _exchanged(self, value: T) -> list[T]:
        values: list[Any] = [None] * self.size
        with telling():
            distributed.all_gather_object(values, value, group=self.group)
        return values

    def of_reader(self, value: T) -> T:
        """Returns the value of the rank that reads for this machine."""
        return self.gather(value if self.is_reader else None)[self.of_machine[0]]  # type: ignore[return-value]

    def of_first(self, value: T) -> T:
        """Returns the value of the first of all ranks."""
        return self.gather(value if self.is_first else None)[0]  # type: ignore[return-value]

    def begin_alike(self, path: Path, state: dict[str, Any]) -> None:
        """Raise `UsageError` where ranks would go apart, as on machines each of which has a disk of its own."""
        found = self.gather(state)
        own = [name for name in state if name != "commands"]  # which may spell each machine's paths
        if other := [name for name in own if len({str(one[name]) for one in found}) > 1]:
            raise UsageError(
                f"{path}: not all ranks begin with the same {' and '.join(other)}: they need the same options and, for "
                "--resume, a folder that all machines share"
            )

    def share(self, signals: Signals) -> None:
        """Let the signal that one rank has caught count for caught by all."""
        caught, *_ = self.meet((signals.caught or 0,))
        signals.share(map(int, caught))

    # -- records

    def pipes(self) -> list[Connection]:
        """Returns a pipe to each other rank of this machine; to the one that reads, where this is another."""
        with TemporaryDirectory() as folder, socket(AF_UNIX) as door:
            if self.is_reader:
                door.bind(f"{folder}/feed")
                door.listen(self.local_size)
            address = self.of_reader(f"{folder}/feed")
            if self.is_reader:
                return self._let_in(door)
            door.connect(address)
            pipe = Connection(door.detach())
            pipe.send(self.local_rank)
            return [pipe]

    def _let_in(self, door: socket) -> list[Connection]:
        """Returns the pipes of those who come to the door, in the order of their ranks."""
        door.settimeout(LONGEST_START)
        try:
            pipes = [Connection(door.accept()[0].detach()) for _ in range(self.local_size - 1)]
            return sorted(pipes, key=lambda pipe: int(pipe.recv()))
        except (TimeoutError, EOFError):
            raise Lost("another rank of this machine has not come for its records") from None

    def together(self, steps: Coming[tuple[T, Step]], signals: Signals) -> Iterator[tuple[T, Step]]:
        """Yields this rank's part of each step, with the counts and tokens of all, when every rank has its own.

        It ends where it has ended at all ranks, or a signal told any of them to stop: then all have caught it. Raises
        `BadData` where machines do not read the same.
        """
        coming: tuple[T, Step] | None = None
        has_ended = False
        while True:
            if coming is None and not has_ended and steps.is_near(POLL):
                coming = next(steps, None)
                has_ended = coming is None
            own = (coming[1].check, coming[1].tokens, *coming[1].counts.values()) if coming else ()
            met = self.meet((signals.caught or 0, has_ended, coming is not None, *own))
            caught, ended, have, checks, tokens, *counts = met
            if signals.share(map(int, caught)):
                return
            if (any(have) and any(ended)) or len(set(compress(checks, have))) > 1:
                raise BadData("the machines read different records; each has to be given the same files, in one order")
            if all(ended):
                return
            if coming is not None and all(have):
                reading, step = coming
                sums = dict(zip(step.counts, map(math.fsum, counts), strict=False))  # then come zeros
                yield reading, replace(step, counts=sums, tokens=int(sum(tokens)))
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
        with telling():
            for tensor in network.state_dict().values():
                distributed.broadcast(tensor, 0)

    def add_up(self, losses: Tensor) -> Tensor:
        """Make the gradients the sums of all ranks' gradients; returns the sums of their losses."""
        own = self._buffer[self._size : self._size + len(losses)]
        own.copy_(losses)
        with telling():
            distributed.all_reduce(self._buffer)
        return own.clone()


def join(device: torch.device) -> Ranks:
    """Returns this process's place among those that `torchrun` has started, when all have come; else `ALONE`."""
    place = torchrun.place()
    if place.size == 1:
        return ALONE
    is_gpu = device.type == "cuda"
    with telling():
        met, *_ = next(rendezvous("env://", timeout=LONGEST_WAIT))
        distributed.init_process_group(
            "nccl" if is_gpu else "gloo",
            # Where processes meet that were started anew, torchrun has the addresses of the dead ones still.
            store=PrefixStore(f"start {torchrun.restarts()}", met),
            rank=place.rank,
            world_size=place.size,
            timeout=LONGEST_STEP if is_gpu else LONGEST_WAIT,
            device_id=device if is_gpu else None,
        )
        group = distributed.new_group(backend="gloo", timeout=LONGEST_WAIT)
    return Ranks(*place, group)


@contextmanager
def telling() -> Iterator[None]:
    """Tells of the end of another process as what it is, and of what else goes wrong between ranks in one line."""
    try:
        yield
    except RuntimeError as error:
        what = re.sub(r"^\[\S+\] |\. This is typically .*|\nException raised .*", "", str(error), flags=re.DOTALL)
        if GONE.search(what):
            raise Lost(f"another rank has ended, or does not answer ({what})") from error
        if isinstance(error, distributed.DistError):
            raise BertcliError(what) from error
        raise

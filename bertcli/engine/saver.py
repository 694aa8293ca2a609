"""Checkpoints that do not hold up the training: it waits for a copy in the host's memory, which a thread writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from bertcli.engine import checkpoint
from bertcli.engine.optim import Optimizer

BLOCK = 1 << 27  # bytes of the host's memory taken at once; pinned memory comes in powers of two
ALIGNED = 64  # bytes of which the place of a copy begins at a multiple


class Saver:
    """A run's checkpoints, of which one at a time is on its way to the disk.

    What is saved is the state when `save` is called, whatever the training does next. The copy takes as much of the
    host's memory as weights and moments together (three times the weights, and up to twice that where single matrices
    are large), from the first save to the end; a GPU's is pinned, once, for to pin memory takes longer than to fill it.
    Where the thread fails, the next call of any method, or the end, raises its `IOFailed`.
    """

    def __init__(self, path: Path, network: nn.Module, optimizer: Optimizer, saved: int | None = None) -> None:
        """Take the model folder, what is to be saved, which is on its device already, and the step that is saved."""
        self._path, self._network, self._optimizer = path, network, optimizer
        self._thread = ThreadPoolExecutor(1)
        self._places: list[Tensor] = []
        self._under_way: tuple[Future[None], Callable[[], None]] | None = None
        self._step = saved

    def __enter__(self) -> Saver:
        """Save nothing yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for what is under way, whatever ends the run but a second signal, and give the memory back to torch."""
        try:
            if kind is not KeyboardInterrupt:  # what is half written has no name yet
                self.wait()
        finally:
            self._thread.shutdown(wait=False)
            self._places = []

    def save(
        self,
        state: dict[str, Any],
        randoms: Sequence[dict[str, Tensor]],
        *,
        keep: int = 1,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Copy weights and moments, once the save before is done, and begin to write them with what else is given.

        `state`, `randoms` and `keep` are those of `checkpoint.write`. `then` is called when the checkpoint is on disk,
        by the method of this object that is called next. A step is not saved twice, in the place of itself.
        """
        self.wait()
        if state["step"] == self._step:
            return
        self._step = state["step"]
        live = self._network.state_dict(), checkpoint.moments(self._network, self._optimizer)
        weights, moments = self._copied(*live)
        # A GPU has only been asked for the copies: it makes them after the last step, before it begins the next one.
        sent = _sent() if any(tensor.is_cuda for tensor in live[0].values()) else None
        future = self._thread.submit(_write, sent, self._path, state, weights, moments, randoms, keep)
        self._under_way = future, then

    def poll(self) -> None:
        """Look whether what is under way is done."""
        if self._under_way and self._under_way[0].done():
            self.wait()

    def wait(self) -> None:
        """Wait until nothing is under way."""
        if self._under_way:
            (future, then), self._under_way = self._under_way, None
            future.result()
            then()

    def _copied(self, *live: dict[str, Tensor]) -> list[dict[str, Tensor]]:
        tensors = [tensor for group in live for tensor in group.values()]
        if list(map(_form, self._places)) != list(map(_form, tensors)):
            self._places = list(_room(tensors))
        for place, tensor in zip(self._places, tensors, strict=True):
            place.copy_(tensor, non_blocking=True)
        places = iter(self._places)
        return [{name: next(places) for name in group} for group in live]


def _form(tensor: Tensor) -> tuple[torch.Size, torch.dtype]:
    return tensor.shape, tensor.dtype


def _room(tensors: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yields a place on the host for a copy of each tensor, in few blocks of memory."""
    block, begin = torch.empty(0, dtype=torch.uint8), 0
    is_pinned = any(tensor.is_cuda for tensor in tensors)
    for tensor in tensors:
        if begin + tensor.nbytes > len(block):
            size = max(BLOCK, 1 << (tensor.nbytes - 1).bit_length())
            block, begin = torch.empty(size, dtype=torch.uint8, pin_memory=is_pinned), 0
        yield block[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        begin += -(-tensor.nbytes // ALIGNED) * ALIGNED


def _sent() -> torch.cuda.Event:
    """Returns what happens when the device has done all that it was asked for up to now."""
    event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # its waiter takes no core from the host
    event.record()
    return event


def _write(sent: torch.cuda.Event | None, *what: Any) -> None:
    if sent:
        sent.synchronize()
    checkpoint.write(*what)

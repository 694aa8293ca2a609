"""Forward passes beside each other: while a GPU computes one, the host makes the next ready for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")

LANES = 2  # passes under way on a GPU: one computes while the other's numbers go there or come back

SWITCH = 1e-4  # seconds after which this thread makes way for one that has a kernel to start: there are hundreds a pass

Start = Callable[..., "Future[Any]"]  # calls the function that is its first argument with the others


@contextmanager
def lanes(device: torch.device) -> Iterator[Start]:
    """Gives what starts a call on a device: on a GPU in one of a few threads, each with a stream of its own.

    On a CPU, whose cores a pass has all to itself, the call is over when it has been started.
    """
    if device.type != "cuda":
        yield _at_once
        return
    torch.cuda.synchronize(device)  # weights are on their way in the stream of this thread
    executor = ThreadPoolExecutor(LANES, initializer=_own_stream, initargs=(device,))
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield executor.submit
    finally:
        executor.shutdown(cancel_futures=True)
        sys.setswitchinterval(usual)


def _at_once(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    future: Future[R] = Future()
    future.set_result(function(*args, **kwargs))
    return future


def _own_stream(device: torch.device) -> None:
    torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]  # torch tells no types here

"""Forward passes beside each other: on a CPU each on its own cores; on a GPU one is made ready while another runs."""

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
CPU_LANES = 8  # on a CPU, at most: of more cores several share a pass

SWITCH = 1e-4  # seconds after which this thread makes way for one that has a kernel to start: there are hundreds a pass

Start = Callable[..., "Future[Any]"]  # calls the function that is its first argument with the others


def shares(device: torch.device) -> int:
    """Returns among how many passes the cores of a CPU, and the tokens that it has room for, are shared; else 1."""
    return min(torch.get_num_threads(), CPU_LANES) if device.type == "cpu" else 1


@contextmanager
def lanes(device: torch.device) -> Iterator[Start]:
    """Gives what starts a call on a device, in one of a few threads: each has a stream of its own, or cores.

    On a single core the call is over when it has been started.
    """
    cores, count = torch.get_num_threads(), shares(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # weights are on their way in the stream of this thread
        executor = ThreadPoolExecutor(LANES, initializer=_own_stream, initargs=(device,))
    elif count > 1:
        executor = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(cores // count,))
    else:
        yield _at_once
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield executor.submit
    finally:
        executor.shutdown(wait=False, cancel_futures=True)  # who ends early asks for none of the passes under way
        sys.setswitchinterval(usual)
        torch.set_num_threads(cores)


def _at_once(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    future: Future[R] = Future()
    future.set_result(function(*args, **kwargs))
    return future


def _own_stream(device: torch.device) -> None:
    torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]  # torch tells no types here

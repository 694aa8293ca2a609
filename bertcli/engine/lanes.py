"""Forward passes beside each other: on a CPU each on its own cores; on a GPU one is made ready while another runs."""

from __future__ import annotations

import math
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

SWITCH = 1e-4  # seconds after which this thread makes way for one that has an operator to start: a pass has hundreds

Start = Callable[..., "Future[Any]"]  # calls the function that is its first argument with the others


def shares(device: torch.device, most: int) -> int:
    """Returns among how many passes, at most so many, the cores of a CPU are shared; of another device 1."""
    if device.type != "cpu":
        return 1
    cores = torch.get_num_threads()
    return max(1, min(cores // math.ceil(cores / CPU_LANES), most))


@contextmanager
def lanes(device: torch.device, count: int) -> Iterator[Start]:
    """Gives what starts a call in one of a few threads, each with a stream of a GPU or its share of a CPU's cores.

    A CPU has `count` of them; where that is one the call is over when it has been started.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)  # weights are on their way in the stream of this thread
        executor = ThreadPoolExecutor(LANES, initializer=_own_stream, initargs=(device,))
    elif count > 1:
        cores = torch.get_num_threads() // count
        executor = ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(cores,))
    else:
        yield at_once
        return
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        yield executor.submit
    finally:
        executor.shutdown(wait=False, cancel_futures=True)  # who ends early asks for none of the passes under way
        sys.setswitchinterval(usual)


def at_once(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Returns what a call has come to, which this thread has waited for."""
    future: Future[R] = Future()
    future.set_result(function(*args, **kwargs))
    return future


def _own_stream(device: torch.device) -> None:
    torch.cuda.set_stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]  # torch tells no types here

"""Work on the parts of a stream in several processes, with the results in order."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from operator import attrgetter
from queue import Queue
from threading import Thread
from typing import Any, ClassVar, Generic, TypeVar

from bertcli.errors import BertcliError

T = TypeVar("T")
R = TypeVar("R")

ALONE = 4  # items that are done here: a short stream needs no process more, and those of a long one inherit a memory
AHEAD = 3  # items that a process holds at most: one to go on with, one in work, one whose result is on its way
OPEN = 8  # results for each process that may wait for an earlier one
SWITCH = 1e-4  # seconds after which the work makes way for bytes that come or go: somebody waits for them
END = object()  # of what goes through a queue


def ordered(function: Callable[[T], R], items: Iterable[T | None], workers: int = 1) -> Generator[R, None, None]:
    """Yields what the function makes of each item, in their order, in `workers` processes but for the first few.

    This process is one of them, and does an item when the others have enough. None among the items says that the next
    has to be waited for: all results are yielded first. The function is inherited, so it may be anything; items and
    results travel as pickles. Raises what the function raises in its item's place, and `BertcliError` where a process
    was killed.
    """
    with closing(paced(function, items, workers)) as results:
        yield from (result for result in results if result is not None)


def paced(function: Callable[[T], R], items: Iterable[T | None], workers: int = 1) -> Generator[R | None, None, None]:
    """Yields the same as `ordered`, and a None where one is among the items, so that who comes next knows it too."""
    if workers > 1:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads of `tokenizers` would not live through a fork
    remaining, alone = iter(items), 0
    for item in remaining:
        yield None if item is None else function(item)
        alone += item is not None
        if alone == ALONE and workers > 1:
            yield from _shared(function, remaining, workers)


def _shared(function: Callable[[T], R], items: Iterator[T | None], workers: int) -> Iterator[R | None]:
    started: list[_Worker[T, R]] = []
    waiting: deque[_Worker[T, R] | _Done[R]] = deque()
    try:
        for item in items:
            if item is None:
                yield from _results(waiting)
                yield None
                continue
            if len(started) < workers - 1:
                started.append(_Worker(function))
            while (idlest := min(started, key=attrgetter("held"))).held == AHEAD and waiting[0].is_ready:
                yield waiting.popleft().result()
            if idlest.held < AHEAD:
                idlest.send(item)
                waiting.append(idlest)
            else:
                waiting.append(_Done(function, item))
            if waiting[0].is_ready or len(waiting) > OPEN * workers:
                yield waiting.popleft().result()
        yield from _results(waiting)
    finally:
        for worker in started:
            worker.end()


def _results(waiting: deque[_Worker[T, R] | _Done[R]]) -> Iterator[R]:
    while waiting:
        yield waiting.popleft().result()


class _Done(Generic[R]):
    """The result of an item that was done here, kept until its turn comes."""

    is_ready = True

    def __init__(self, function: Callable[[T], R], item: T) -> None:
        """Do it."""
        self._made = _attempt(function, item)

    def result(self) -> R:
        """Returns the result."""
        return _opened(self._made)


class _Worker(Generic[T, R]):
    """A process that makes results of items, first in, first out."""

    _pipes: ClassVar[set[Connection]] = set()  # to all workers: each must end where this process does

    def __init__(self, function: Callable[[T], R]) -> None:
        """Start a copy of this process, which lets go of what it inherits from the others."""
        self._pipe, far = multiprocessing.Pipe()
        self._pipes.add(self._pipe)
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_serve, args=(function, far, list(self._pipes)), daemon=True)
        self._process.start()
        far.close()
        self.held = 0  # items whose results have not been asked for

    def send(self, item: T) -> None:
        """Hand over an item."""
        self.held += 1
        with suppress(OSError):  # a dead process: its missing result tells
            self._pipe.send(item)

    @property
    def is_ready(self) -> bool:
        """Returns whether the next result need not be waited for."""
        return self._pipe.poll()

    def result(self) -> R:
        """Returns the result of the first item that was sent and not answered."""
        self.held -= 1
        try:
            made: tuple[R | None, Exception | None] = self._pipe.recv()
        except (EOFError, OSError):  # at the end of a message, or within one
            self._process.join()
            raise BertcliError(f"a worker process died (exit status {self._process.exitcode})") from None
        return _opened(made)

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self._process.kill()  # it has nothing to put in order, and may be stopped
        self._process.join()
        self._pipes.discard(self._pipe)
        self._pipe.close()


def _attempt(function: Callable[[T], R], item: T) -> tuple[R | None, Exception | None]:
    try:
        return function(item), None
    except Exception as error:
        return None, error


def _opened(made: tuple[R | None, Exception | None]) -> R:
    result, error = made
    if error is not None:
        raise error
    return result  # type: ignore[return-value]


def _serve(function: Callable[[Any], Any], pipe: Connection, inherited: list[Connection]) -> None:
    """Answer items until the other end of the pipe is closed, by whatever end its process comes to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt goes to all processes; the first one decides
    sys.setswitchinterval(SWITCH)
    for other in inherited:
        other.close()
    # Items are taken in and results handed out while one is worked on, so that nobody waits for room in a pipe.
    items: Queue[Any] = Queue()
    results: Queue[bytes] = Queue()
    Thread(target=_take_in, args=(pipe, items), daemon=True).start()
    Thread(target=_hand_out, args=(pipe, results), daemon=True).start()
    for item in iter(items.get, END):
        results.put(pickle.dumps(_attempt(function, item)))


def _take_in(pipe: Connection, items: Queue[Any]) -> None:
    with suppress(EOFError, OSError):
        while True:
            items.put(pipe.recv())
    items.put(END)


def _hand_out(pipe: Connection, results: Queue[bytes]) -> None:
    with suppress(OSError):
        while True:
            pipe.send_bytes(results.get())

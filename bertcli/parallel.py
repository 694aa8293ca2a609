"""Work on the parts of a stream in several processes, with the results in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from itertools import count, islice
from multiprocessing.connection import Connection
from queue import Queue
from threading import Thread
from typing import Any, Generic, TypeVar

from bertcli.errors import BertcliError

T = TypeVar("T")
R = TypeVar("R")

ALONE = 8  # items that are done here: a short stream needs no process more, and those of a long one inherit a memory
END = object()  # of the items that a process is given
AHEAD = 2  # items that a process holds at most: one in work, one to go on with


def ordered(function: Callable[[T], R], items: Iterable[T | None], workers: int = 1) -> Generator[R, None, None]:
    """Yields what the function makes of each item, in their order, with `workers` processes from the ninth item on.

    None among the items says that the next has to be waited for: all results are yielded first. The function is
    inherited, so it may be anything; items and results travel as pickles. Raises what the function raises in its
    item's place, and `BertcliError` where a process was killed.
    """
    if workers > 1:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads of `tokenizers` would not live through a fork
    remaining = iter(items)
    alone = remaining if workers == 1 else islice(remaining, ALONE)
    yield from (function(item) for item in alone if item is not None)
    if workers > 1:
        yield from _shared(function, remaining, workers)


def _shared(function: Callable[[T], R], items: Iterator[T | None], workers: int) -> Iterator[R]:
    started: list[_Worker[T, R]] = []
    busy: deque[_Worker[T, R]] = deque()
    turn = count()
    try:
        for item in _with_fault(items):
            while busy and (item is None or isinstance(item, BertcliError) or len(busy) == AHEAD * workers):
                yield busy.popleft().result()
            if isinstance(item, BertcliError):
                raise item
            if item is not None:
                if len(started) < workers:
                    started.append(_Worker(function, started))
                worker = started[next(turn) % workers]
                worker.send(item)
                busy.append(worker)
        while busy:
            yield busy.popleft().result()
    finally:
        for worker in started:
            worker.end()


def _with_fault(items: Iterator[T]) -> Iterator[T | BertcliError]:
    """Yields the items, and last the fault that ended them: what came before it is not lost."""
    try:
        yield from items
    except BertcliError as fault:
        yield fault


class _Worker(Generic[T, R]):
    """A process that makes results of items, first in, first out."""

    def __init__(self, function: Callable[[T], R], others: list[_Worker[T, R]]) -> None:
        """Start a copy of this process, which lets go of what it inherits from the others."""
        self._pipe, far = multiprocessing.Pipe()
        inherited = [self._pipe, *(other._pipe for other in others)]
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_serve, args=(function, far, inherited), daemon=True)
        self._process.start()
        far.close()

    def send(self, item: T) -> None:
        """Hand over an item."""
        with suppress(OSError):  # a dead process: its missing result tells
            self._pipe.send(item)

    def result(self) -> R:
        """Returns the result of the first item that was sent and not answered."""
        try:
            value, error = self._pipe.recv()
        except (EOFError, OSError):  # at the end of a message, or within one
            self._process.join()
            raise BertcliError(f"a worker process died (exit status {self._process.exitcode})") from None
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def end(self) -> None:
        """Stop the process, whatever it does."""
        self._pipe.close()  # ends it where SIGTERM is ignored
        self._process.terminate()
        self._process.join()


def _serve(function: Callable[[Any], Any], pipe: Connection, inherited: list[Connection]) -> None:
    """Answer items until the other end of the pipe is closed, by whatever end its process comes to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt goes to all processes; the first one decides
    for other in inherited:
        other.close()
    # The next item is taken in while this one is worked on, so that nobody waits for room in a pipe.
    items: Queue[Any] = Queue()
    Thread(target=_take_in, args=(pipe, items), daemon=True).start()
    with suppress(BrokenPipeError, ConnectionResetError):
        for item in iter(items.get, END):
            try:
                pipe.send((function(item), None))
            except Exception as error:
                pipe.send((None, error))


def _take_in(pipe: Connection, items: Queue[Any]) -> None:
    with suppress(EOFError, OSError):
        while True:
            items.put(pipe.recv())
    items.put(END)

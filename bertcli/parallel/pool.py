"""Work on the parts of a stream, or of several, shared among processes, with the results in order."""

from __future__ import annotations

import os
import pickle
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from operator import attrgetter
from queue import Queue
from threading import Thread
from typing import Any, Self, TypeVar

from bertcli.errors import BertcliError
from bertcli.parallel.processes import Attempt, Fork, attempt

T = TypeVar("T")
R = TypeVar("R")

ALONE = 4  # items that are done here: a short stream needs no process more, and those of a long one inherit a memory
AHEAD = 3  # items that a process holds at most: one to go on with, one in work, one whose result is on its way
OPEN = 8  # results for each process that may wait for an earlier one
SWITCH = 1e-4  # seconds after which the work makes way for bytes that come or go: somebody waits for them
END = object()  # of what goes through a queue


class Pool:
    """Processes that share the work, this one among them, until the context ends.

    They may do several things, each with the items of a stream, also where one stream is made from the results of
    another. Whatever they do they inherit, so it may be anything; items and results travel as pickles.
    """

    def __init__(self, workers: int = 1) -> None:
        """Start none yet: the first few items are done here."""
        if workers > 1:
            os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads of `tokenizers` would not live through a fork
        self.workers = workers
        self._functions: list[Callable[[Any], Any]] = []
        self._started: list[_Worker] = []

    def ordered(self, function: Callable[[T], R], items: Iterable[T | None]) -> Iterator[R]:
        """Returns what the function makes of each item, in their order.

        This process does an item when the others have enough. None among the items says that the next has to be waited
        for: all results are yielded first. Raises what the function raises in its item's place, and `BertcliError`
        where a process was killed. All functions have to be known before the first result is asked for.
        """
        return (result for result in self.paced(function, items) if result is not None)

    def paced(self, function: Callable[[T], R], items: Iterable[T | None]) -> Iterator[R | None]:
        """Returns the same, and a None where one is among the items, so that who comes next knows it too."""
        assert not self._started, "those that have started do not know it"
        self._functions.append(function)
        return self._paced(len(self._functions) - 1, iter(items))

    def start(self) -> None:
        """Start all of them, for a process that will soon be harder to copy."""
        while len(self._started) < self.workers - 1:
            self._started.append(_Worker(self._functions))

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them, whatever they do."""
        while self._started:
            self._started.pop().end()

    def _paced(self, number: int, items: Iterator[T | None]) -> Iterator[Any]:
        alone = 0
        for item in items:
            yield None if item is None else self._functions[number](item)
            alone += item is not None
            if self.workers > 1 and (alone == ALONE or self._started):
                yield from self._shared(number, items)

    def _shared(self, number: int, items: Iterator[T | None]) -> Iterator[Any]:
        waiting: deque[_Result] = deque()
        for item in items:
            if item is None:
                yield from _opened(waiting)
                yield None
                continue
            waiting.append(self._begun(number, item))
            if waiting[0].is_ready:  # one comes, one goes: who asks slowly finds that others are done as well
                yield waiting.popleft().opened()
            while waiting and len(waiting) > self.workers * (AHEAD if waiting[0].is_ready else OPEN):
                yield waiting.popleft().opened()
        yield from _opened(waiting)

    def _begun(self, number: int, item: Any) -> _Result:
        """Returns the result of an item, which somebody else works on, or which was done here."""
        if len(self._started) < self.workers - 1:
            self._started.append(_Worker(self._functions))
        for worker in self._started:
            worker.take_in()
        idlest = min(self._started, key=attrgetter("held"))
        if idlest.held < AHEAD:
            return idlest.begun(number, item)
        return _Result(made=attempt(self._functions[number], item))


class _Result:
    """What was made of an item, or will be by a worker."""

    def __init__(self, worker: _Worker | None = None, made: Attempt[Any] | None = None) -> None:
        """Take the one or the other."""
        self._worker, self.made = worker, made

    @property
    def is_ready(self) -> bool:
        """Returns whether it need not be waited for."""
        if self._worker:
            self._worker.take_in()
        return self.made is not None

    def opened(self) -> Any:
        """Returns what was made, when it has come; raises the error for which it was not."""
        while self._worker and self.made is None:
            self._worker.receive()
        assert self.made is not None
        result, error = self.made
        if error is not None:
            raise error
        return result


def _opened(results: deque[_Result]) -> Iterator[Any]:
    while results:
        yield results.popleft().opened()


class _Worker:
    """A process that makes results of items, first in, first out."""

    def __init__(self, functions: list[Callable[[Any], Any]]) -> None:
        """Start it."""
        self._process = Fork(_serve, functions)
        self.end = self._process.end
        self._due: deque[_Result] = deque()
        self._death: BertcliError | None = None

    @property
    def held(self) -> int:
        """Returns the number of items whose results have not come."""
        return len(self._due)

    def begun(self, number: int, item: Any) -> _Result:
        """Returns what will be the result of an item, which is handed over for the function of that number."""
        self._due.append(_Result(self))
        self._process.send((number, item))
        return self._due[-1]

    def take_in(self) -> None:
        """Receive the results that need not be waited for."""
        while self._due and (self._death or self._process.has_sent):
            self.receive()

    def receive(self) -> None:
        """Receive the next result; where the process has died, that is what became of the item."""
        try:
            made = (None, self._death) if self._death else self._process.receive()
        except BertcliError as error:
            made = None, error
            self._death = error
        self._due.popleft().made = made


def _serve(pipe: Connection, functions: list[Callable[[Any], Any]]) -> None:
    """Answer items until the other end of the pipe is closed, by whatever end its process comes to."""
    sys.setswitchinterval(SWITCH)
    # Items are taken in and results handed out while one is worked on, so that nobody waits for room in a pipe.
    items: Queue[Any] = Queue()
    results: Queue[bytes] = Queue()
    Thread(target=_take_in, args=(pipe, items), daemon=True).start()
    Thread(target=_hand_out, args=(pipe, results), daemon=True).start()
    while (task := items.get()) is not END:
        number, item = task
        results.put(pickle.dumps(attempt(functions[number], item)))


def _take_in(pipe: Connection, items: Queue[Any]) -> None:
    with suppress(EOFError, OSError):
        while True:
            items.put(pipe.recv())
    items.put(END)


def _hand_out(pipe: Connection, results: Queue[bytes]) -> None:
    with suppress(OSError):
        while True:
            pipe.send_bytes(results.get())

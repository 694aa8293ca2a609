"""Work on the parts of a stream in several processes, with the results in order."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import Connection
from operator import attrgetter
from queue import Queue
from threading import Event, Semaphore, Thread
from typing import Any, Generic, TypeVar

from bertcli.errors import BertcliError

T = TypeVar("T")
R = TypeVar("R")

ALONE = 4  # items that are done here: a short stream needs no process more, and those of a long one inherit a memory
AHEAD = 3  # items that a process holds at most: one to go on with, one in work, one whose result is on its way
OPEN = 8  # results for each process that may wait for an earlier one
SWITCH = 1e-4  # seconds after which the work makes way for bytes that come or go: somebody waits for them
END = object()  # of what goes through a queue

# This process's ends of pipes. Whoever starts later lets go of them: a pipe that somebody else holds open never ends.
_own: set[Connection] = set()
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # they may go to all processes; the first one decides
ROOM = None  # what says that there is room for one item more


# -- many at once ---------------------------------------------------------------------------------------------------


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

    def __init__(self, function: Callable[[T], R]) -> None:
        """Start it."""
        self._process = _Fork(_serve, function)
        self.end = self._process.end
        self.held = 0  # items whose results have not been asked for

    def send(self, item: T) -> None:
        """Hand over an item."""
        self.held += 1
        self._process.send(item)

    @property
    def is_ready(self) -> bool:
        """Returns whether the next result need not be waited for."""
        return self._process.has_sent

    def result(self) -> R:
        """Returns the result of the first item that was sent and not answered."""
        self.held -= 1
        made: tuple[R | None, Exception | None] = self._process.receive()
        return _opened(made)


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


def _serve(pipe: Connection, function: Callable[[Any], Any]) -> None:
    """Answer items until the other end of the pipe is closed, by whatever end its process comes to."""
    sys.setswitchinterval(SWITCH)
    # Items are taken in and results handed out while one is worked on, so that nobody waits for room in a pipe.
    items: Queue[Any] = Queue()
    results: Queue[bytes] = Queue()
    Thread(target=_take_in, args=(pipe, items), daemon=True).start()
    Thread(target=_hand_out, args=(pipe, results), daemon=True).start()
    while (item := items.get()) is not END:
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


# -- ahead ----------------------------------------------------------------------------------------------------------


class Coming(Iterator[T]):
    """Items that another process makes before they are asked for."""

    def __init__(self, pipe: Connection, told: list[Any], process: _Fork | None = None) -> None:
        """Take the pipe on which they come, and the process, if it is one of this one's own, to be ended with them."""
        self._pipe, self._told, self._process, self._has_ended = pipe, told, process, False
        weakref.finalize(self, process.end if process else pipe.close)

    def is_near(self, seconds: float) -> bool:
        """Returns whether the next item, or the end, comes within so many seconds."""
        return self._pipe.poll(seconds)

    def __next__(self) -> T:
        """Returns the next item; raises what the items raise, and `BertcliError` where their process was killed."""
        if self._has_ended:
            raise StopIteration
        try:
            item, more, error = self._pipe.recv()
            self._pipe.send(ROOM)
        except (EOFError, OSError):
            raise self._process.died() if self._process else BertcliError("the process that reads has died") from None
        self._told += more
        if error is not None:
            raise error
        self._has_ended = not item
        if not item:
            raise StopIteration
        return pickle.loads(item[0])  # type: ignore[no-any-return]


def ahead_of_all(
    items: Iterable[Sequence[bytes]], most: int, told: list[Any], others: Sequence[Connection]
) -> Coming[Any]:
    """Returns the first ones of items that another process makes, as pickles, by the row.

    The next ones of each row go to others, which wait for them at the far ends of these pipes, and are closed here.
    """
    process = _Fork(_run_ahead, items, most, told, others)
    for pipe in others:
        pipe.close()
    return Coming(process.pipe, told, process)


def _run_ahead(
    pipe: Connection, items: Iterable[Sequence[bytes]], most: int, told: list[Any], others: Sequence[Connection]
) -> None:
    """Hand over items, each in a list, and at the end an empty one; the next item is always in work."""
    _own.update(others)
    pipes = [(each, Semaphore(most)) for each in (pipe, *others)]
    for each, room in pipes:
        Thread(target=_make_room, args=(each, room), daemon=True).start()
    remaining, known = iter(items), len(told)
    row: Sequence[bytes] | None = ()
    while row is not None:
        row, error = _attempt(lambda rest: next(rest, None), remaining)
        for number, (each, room) in enumerate(pipes):
            room.acquire()
            each.send(([row[number]] if row else [], told[known:], error))
        known = len(told)
    Event().wait()


def _make_room(pipe: Connection, room: Semaphore) -> None:
    with suppress(EOFError, OSError):
        while True:
            pipe.recv()
            room.release()
    os._exit(0)  # even where the next item is still waited for


# -- processes ------------------------------------------------------------------------------------------------------


class _Fork:
    """A copy of this process at work, with a pipe to it.

    Not one of `multiprocessing`, which would close its stdin and forbid it to start others.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        """Start it."""
        self.pipe, far = multiprocessing.Pipe()
        _own.add(self.pipe)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads are not copied: the copy needs none of them
            self._id = os.fork()
        if not self._id:
            _become(work, far, arguments, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        far.close()

    def send(self, item: Any) -> None:
        """Hand over an item."""
        with suppress(OSError):  # a dead process: what it does not send tells
            self.pipe.send(item)

    @property
    def has_sent(self) -> bool:
        """Returns whether the next thing that it sends need not be waited for."""
        return self.pipe.poll()

    def receive(self) -> Any:
        """Returns what it sends next; raises `BertcliError` where it has died."""
        try:
            return self.pipe.recv()
        except (EOFError, OSError):  # at the end of a message, or within one
            raise self.died() from None

    def died(self) -> BertcliError:
        """Returns the error that tells how it died."""
        return BertcliError(f"a worker process died (exit status {self._wait()})")

    def _wait(self) -> int | None:
        process, self._id = self._id, 0
        with suppress(ChildProcessError):  # where nobody is to be told of children's ends
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        return None

    def end(self) -> None:
        """Stop it, whatever it does."""
        if self._id:
            os.kill(self._id, signal.SIGKILL)  # it has nothing to put in order, and may be stopped
            self._wait()
        _own.discard(self.pipe)
        self.pipe.close()


def _become(work: Callable[..., None], pipe: Connection, arguments: tuple[Any, ...], mask: set[Any]) -> None:
    """Do the work of a process that was just started, and end it."""
    status = 1
    gc.freeze()  # what the other process left to its collector may be on a GPU, which is not for this one to free
    try:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        while _own:
            _own.pop().close()
        _own.add(pipe)
        work(pipe, *arguments)
        status = 0
    except BaseException:  # which nobody else would tell of
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)

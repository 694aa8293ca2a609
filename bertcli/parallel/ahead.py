"""Items that another process makes before they are asked for.

They lie in memory that both processes have, and the pipe only says where: an item that is larger than the pipe would be
on its way as long as nobody reads it, and a thread that reads it would take turns with the work that it is for.
"""

from __future__ import annotations

import os
import pickle
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle
from mmap import mmap
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from threading import Event, Semaphore, Thread
from typing import Any, TypeVar

from bertcli.errors import BertcliError, IOFailed
from bertcli.parallel import processes
from bertcli.parallel.processes import attempt

T = TypeVar("T")

ROOM = None  # what says that there is room for one item more


class Coming(Iterator[T]):
    """Items that another process makes before they are asked for."""

    def __init__(self, pipe: Connection, told: list[Any], process: processes.Fork | None = None) -> None:
        """Take the pipe on which they come, and the process, if it is one of this one's own, to be ended with them."""
        self._pipe, self._told, self._process, self._has_ended = pipe, told, process, False
        self._places: list[int] = []  # as file descriptors, each of which comes with the first item that lies there
        weakref.finalize(self, process.end if process else pipe.close)

    def is_near(self, seconds: float) -> bool:
        """Returns whether the next item, or the end, comes within so many seconds."""
        return self._pipe.poll(seconds)

    def __next__(self) -> T:
        """Returns the next item; raises what the items raise, and `BertcliError` where their process was killed."""
        if self._has_ended:
            raise StopIteration
        place, more, error = self._received()
        self._told += more
        self._has_ended = place is None
        if place is None:
            raise error or StopIteration
        with self._opened(*place) as memory:
            item: T = pickle.loads(memory)
        with suppress(OSError):  # where no more are made, what comes next tells
            self._pipe.send(ROOM)
        return item

    def _received(self) -> tuple[tuple[int, int] | None, list[Any], Exception | None]:
        """Returns the place and the size of the next item, or none, with what is told and why there is none."""
        try:
            return self._pipe.recv()  # type: ignore[no-any-return]
        except (EOFError, OSError):
            raise self._died() from None

    def _opened(self, place: int, size: int) -> mmap:
        if place == len(self._places):
            try:
                self._places.append(recv_handle(self._pipe))
            except (EOFError, OSError):
                raise self._died() from None
            weakref.finalize(self, os.close, self._places[place])
        return mmap(self._places[place], size)

    def _died(self) -> BertcliError:
        return self._process.died() if self._process else BertcliError("the process that reads has died")


def ahead_of_all(
    items: Iterable[Sequence[bytes]], most: int, told: list[Any], others: Sequence[Connection]
) -> Coming[Any]:
    """Returns the first ones of items that another process makes, as pickles, by the row; `most` rows are ahead.

    The next ones of each row go to others, which wait for them at the far ends of these pipes, and are closed here.
    """
    process = processes.Fork(_run_ahead, items, most, told, others)
    for pipe in others:
        pipe.close()
    return Coming(process.pipe, told, process)


def _run_ahead(
    pipe: Connection, items: Iterable[Sequence[bytes]], most: int, told: list[Any], others: Sequence[Connection]
) -> None:
    """Hand over items, and say at the end that there are no more; the next item is always in work."""
    processes.own.update(others)
    outlets = [_Outlet(each, most) for each in (pipe, *others)]
    remaining, known = iter(items), len(told)
    row: Sequence[bytes] | None = ()
    while row is not None:
        row, error = attempt(lambda rest: next(rest, None), remaining)
        for number, outlet in enumerate(outlets):
            outlet.put(row[number] if row else None, told[known:], error)
        known = len(told)
    Event().wait()


class _Outlet:
    """Where items wait for one who takes them: in turn at as many places as may wait."""

    def __init__(self, pipe: Connection, most: int) -> None:
        """Take the pipe to whoever takes them."""
        self._pipe, self._room = pipe, Semaphore(most)
        self._memories = [os.memfd_create("ahead") for _ in range(most)]
        self._next, self._known = cycle(range(most)), 0  # the number of places that are known at the other end
        Thread(target=self._make_room, daemon=True).start()

    def put(self, item: bytes | None, told: list[Any], error: Exception | None) -> None:
        """Hand over an item with what is told with it, or say why there is none, as soon as there is room."""
        self._room.acquire()
        place = None
        if item is not None:
            place, error = attempt(self._placed, item)
        self._pipe.send((place, told, error))
        if place and place[0] == self._known:
            send_handle(self._pipe, self._memories[self._known], 0)
            self._known += 1

    def _placed(self, item: bytes) -> tuple[int, int]:
        place, size = next(self._next), len(item)
        try:
            os.ftruncate(self._memories[place], size)
        except OSError as error:  # as under a limit of files' sizes
            raise IOFailed(f"memory for what is read ahead: {error.strerror}") from error
        with mmap(self._memories[place], size) as memory:
            memory[:] = item
        return place, size

    def _make_room(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._pipe.recv()
                self._room.release()
        os._exit(0)  # even where the next item is still waited for

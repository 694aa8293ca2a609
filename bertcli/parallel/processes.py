"""Copies of this process at work, each on a pipe."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from bertcli.errors import BertcliError

T = TypeVar("T")
R = TypeVar("R")

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)  # they may go to all processes; the first one decides

Attempt = tuple[R | None, Exception | None]  # what a function made, or why it did not

# This process's ends of pipes. Whoever starts later lets go of them: a pipe that somebody else holds open never ends.
own: set[Connection] = set()


class Fork:
    """A copy of this process at work, with a pipe to it.

    Not one of `multiprocessing`, which would close its stdin and forbid it to start others.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        """Start it: it calls the function with its end of the pipe and the arguments. Raises `BertcliError`."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
        try:
            self.pipe, far = multiprocessing.Pipe()
            own.add(self.pipe)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads are not copied: none of them is needed
                self._id = os.fork()
        except OSError as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            raise BertcliError(f"no process can be started: {error.strerror}") from error
        if not self._id:
            _become(work, far, arguments, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        far.close()

    def send(self, item: Any) -> None:
        """Hand over an item."""
        with suppress(OSError):  # a dead process: what it does not send tells
            self.pipe.send_bytes(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))  # `send` copies arrays once more

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
        own.discard(self.pipe)
        self.pipe.close()


def _become(work: Callable[..., None], pipe: Connection, arguments: tuple[Any, ...], mask: set[Any]) -> None:
    """Do the work of a process that was just started, and end it."""
    status = 1
    gc.freeze()  # what the other process left to its collector may be on a GPU, which is not for this one to free
    try:
        for number in STOPPING:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        while own:
            own.pop().close()
        own.add(pipe)
        work(pipe, *arguments)
        status = 0
    except BaseException:  # which nobody else would tell of
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(status)


def attempt(function: Callable[[T], R], item: T) -> Attempt[R]:
    """Returns what the function makes of an item, or the error that it raises, so that it can travel."""
    try:
        return function(item), None
    except Exception as error:
        return None, error

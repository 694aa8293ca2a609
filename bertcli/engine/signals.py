"""SIGINT, SIGTERM and SIGUSR1: while training everything is saved first, else there is nothing to save."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, TypeVar

from bertcli.errors import Stopped

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
TWICE_SECONDS = 1  # within which a scheduler and `torchrun` may both pass on one and the same signal

RESUMING = "; --resume goes on from there"

T = TypeVar("T")


class _Woken(Exception):
    """A signal came while nothing was done but wait for input."""


class _Told(BaseException):
    """A signal came where nothing is to be saved; no `Exception`, which somebody might take for a failure of theirs."""


def stopped(number: int, moment: str) -> BaseException:
    """Returns what a signal that came at a moment means; of SIGINT the process dies."""
    told = f"stopped by {signal.Signals(number).name} {moment}"
    return KeyboardInterrupt(told) if number == signal.SIGINT else Stopped(told)


class AtOnce:
    """Lets SIGINT, SIGTERM and SIGUSR1 end what is inside, where there is nothing to save, by what they mean.

    Once a run inside has trained to its end, what is left to do is soon done: they wait for it.
    """

    def __init__(self, moment: str, afterwards: str = "") -> None:
        """Take what is told of a signal, as in `before the first step`, and of one that has waited: "" for nothing."""
        self._moment, self._afterwards = moment, afterwards
        self.caught, self.waits = 0, False
        self._is_inside = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> AtOnce:
        """Begin to listen."""
        self._old = _handled(self._catch)
        self._is_inside = True
        if self.caught:  # on the way here
            self.__exit__(None, None, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals their old meaning, and raise what the one that came means, if one did."""
        self._is_inside = False
        _restore(self._old, is_over=self.waits and not self._afterwards)
        moment = self._afterwards if self.waits else self._moment
        if self.caught and moment:  # whatever has become of what was raised: not all that is inside lets it through
            raise stopped(self.caught, moment) from None

    def _catch(self, number: int, frame: FrameType | None) -> None:
        self.caught = number
        if self._is_inside and not self.waits:
            raise _Told


def _handled(handler: Callable[[int, FrameType | None], None]) -> dict[int, Any]:
    """Handle what is not ignored, as it is for a job in the background of a script; returns who handled it before."""
    own = [number for number in STOPPING if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in own}


def _restore(handlers: dict[int, Any], *, is_over: bool) -> None:
    """Give the signals back to those who handled them before; these wait from now on if all is over."""
    for number, handler in handlers.items():
        if is_over and isinstance(outer := getattr(handler, "__self__", None), AtOnce):
            outer.waits = True
        signal.signal(number, handler)


@contextmanager
def later() -> Iterator[None]:
    """Lets signals wait for the end of what is inside, which is short and not to be left half done."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


class Signals:
    """Holds back SIGINT, SIGTERM and SIGUSR1 until a step is whole; a second one, some time later, stops at once."""

    def __init__(self) -> None:
        """Change nothing yet."""
        self.caught: int | None = None
        self._since = 0.0
        self._waits = False
        self._old: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        """Begin to hold signals back."""
        self._old = _handled(self._catch)
        for handler in self._old.values():
            outer = getattr(handler, "__self__", None)
            if isinstance(outer, AtOnce) and outer.caught:  # but somebody has not let it through
                self.caught, self._since, outer.caught = outer.caught, time.monotonic(), 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals their old meaning."""
        _restore(self._old, is_over=kind is None)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.caught:
            if time.monotonic() - self._since > TWICE_SECONDS:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        self.caught, self._since = number, time.monotonic()
        if self._waits:
            raise _Woken

    def share(self, numbers: Iterable[int]) -> bool:
        """Take what several processes have caught, 0 for nothing, for caught here too; returns whether one has."""
        found = max(filter(None, numbers), default=None)
        if found is not None:
            self._since = self._since if self.caught else time.monotonic()  # the same one may be on its way here
            self.caught = found
        return found is not None

    def stopping(self, items: Iterator[T]) -> Iterator[T]:
        """Yields items until a signal comes, even where the next one is long in coming, as from a slow producer."""
        try:
            while True:
                self._waits = True
                item = None if self.caught else next(items, None)
                self._waits = False
                if item is None:
                    return
                yield item
        except _Woken:
            self._waits = False

    def stop(self, step: int, run: str = "", *, is_over: bool = False) -> None:
        """Raise what the signal that came after a step means, if one did; `run` says which of several runs it ends.

        Where it `is_over` there was nothing left to stop, but for who waits in a shell that SIGINT is to end.
        """
        if self.caught is None or (is_over and self.caught != signal.SIGINT):
            return
        moment = f"after step {step}" if step else "before the first step"
        goes_on = RESUMING if (step or run) and not is_over else ""
        raise stopped(self.caught, moment + (f" of {run}" if run else "") + goes_on)

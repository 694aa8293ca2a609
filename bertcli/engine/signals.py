"""SIGINT, SIGTERM and SIGUSR1 while training: first everything is saved, then the process ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, TypeVar

from bertcli.errors import Stopped

TWICE_SECONDS = 1  # within which a scheduler and `torchrun` may both pass on one and the same signal

T = TypeVar("T")


class _Woken(Exception):
    """A signal came while nothing was done but wait for input."""


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
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as of a job in the background of a script
                self._old[number] = signal.signal(number, self._catch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the signals their old meaning."""
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self.caught:
            if time.monotonic() - self._since > TWICE_SECONDS:
                signal.signal(number, self._old[number])
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

    def stop(self, step: int, say: Callable[[str], None]) -> None:
        """Raise what the signal that came means, if one did; `say` tells of SIGINT, by which the process just dies."""
        if self.caught is None:
            return
        name = signal.Signals(self.caught).name
        saved = f"after step {step}; --resume goes on from there" if step else "before the first step"
        told = f"stopped by {name} {saved}"
        if self.caught == signal.SIGINT:
            say(told)
            raise KeyboardInterrupt
        raise Stopped(told)

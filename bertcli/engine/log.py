"""`log.jsonl`: a line a step, written without making the device wait."""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from bertcli.errors import Diverged, IOFailed
from bertcli.records import Record
from bertcli.stream import dumps, loads

DRAIN_SECONDS = 0.5  # between writes


class Rows:
    """A file of rows in the order of their steps, as JSON Lines."""

    def __init__(self, path: Path | None, done: int = 0) -> None:
        """Take the file's name; it is opened with the first row, so that a run that takes no step leaves none.

        Of an old one the rows up to step `done` stay, those that a lost run went further do not. None writes nowhere.
        """
        self._path, self._done = path, done
        self._file: BinaryIO | None = None

    def write(self, rows: list[Record]) -> None:
        """Add rows, which are on disk then. Raises `IOFailed`."""
        if self._path is None:
            return
        try:
            self._file = self._file or _opened(self._path, self._done)
            self._file.write(b"".join(dumps(row) + b"\n" for row in rows))
            self._file.flush()
        except OSError as error:
            raise IOFailed(f"{self._path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Close the file."""
        if self._file:
            with suppress(OSError):  # of what could not be written before, and was told
                self._file.close()


class _Arriving:
    """Numbers on their way from a device to the host, which goes on meanwhile."""

    def __init__(self, numbers: Tensor) -> None:
        """Send them."""
        self._numbers = numbers.to("cpu", non_blocking=True)
        self._sent = torch.cuda.Event(enable_timing=True) if numbers.is_cuda else None  # type: ignore[no-untyped-call]
        if self._sent:
            self._sent.record()

    @property
    def is_here(self) -> bool:
        """Returns whether they need not be waited for."""
        return self._sent is None or bool(self._sent.query())  # type: ignore[no-untyped-call]

    def read(self) -> list[float]:
        """Returns the numbers; waits for them."""
        if self._sent:
            self._sent.synchronize()
        numbers: list[float] = self._numbers.tolist()
        return numbers

    def after(self, first: _Arriving) -> float:
        """Returns the seconds by which the device sent these, which are here, later than the first ones."""
        return first._sent.elapsed_time(self._sent) / 1000 if first._sent and self._sent else 0.0


class Log:
    """Rows `step loss … lr tokens seconds`: losses as means, `tokens` of the step, `seconds` of all steps so far.

    Those of a run that goes on count from where the last step that it goes on from was done.
    """

    def __init__(self, path: Path | None, done: int = 0) -> None:
        """Take what `Rows` takes."""
        self._file = Rows(path, done)
        self._rows: deque[tuple[Record, list[str], _Arriving]] = deque()
        self._drained = time.monotonic()
        self._begun = self._drained - _spent(path, done)
        self._first: tuple[float, _Arriving] | None = None

    def add(self, step: int, losses: dict[str, Tensor], lr: float, tokens: int, norm: Tensor) -> None:
        """Keep one step's figures, its losses and the gradient's norm still on the device."""
        total = torch.stack(list(losses.values())).sum()
        numbers = _Arriving(torch.stack([total, *losses.values(), norm]))
        row = {"step": step, "lr": lr, "tokens": tokens, "seconds": time.monotonic() - self._begun}
        if self._first is None:
            numbers.read()  # so that its time is the device's too
            self._first = time.monotonic() - self._begun, numbers
        self._rows.append((row, ["loss", *losses], numbers))

    def drain(self, *, now: bool = False) -> Iterator[Record]:
        """Yields the rows not yet written, having written them; only those that are here, unless it must be `now`.

        Raises `Diverged` after the last row before the first loss, or norm, that is not a finite number.
        """
        if not now and time.monotonic() - self._drained < DRAIN_SECONDS:
            return
        self._drained = time.monotonic()
        rows: list[Record] = []
        bad = None
        while self._rows and not bad and (now or self._rows[0][2].is_here):
            row, names, arriving = self._rows.popleft()
            figures = arriving.read()
            if all(map(math.isfinite, figures)):
                rows.append(_ordered(row | {"seconds": self._seconds(row, arriving)}, names, figures))
            else:
                bad = row["step"], figures
        if rows:
            self._file.write(rows)
        yield from rows
        if bad:
            step, (loss, *_, norm) = bad
            what = f"the gradient's norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
            advice = "try a lower --lr" if step > 1 else "are the weights that it begins with whole?"
            raise Diverged(f"{what} at step {step}; {advice}", step)

    def _seconds(self, row: Record, arriving: _Arriving) -> float:
        """Returns when a step was done: by the device's clock, of which the host is ahead, where it has one."""
        assert self._first
        begun, first = self._first
        return round(begun + after if (after := arriving.after(first)) else float(row["seconds"]), 3)

    def close(self) -> None:
        """Close the file; rows that were not drained are lost."""
        self._file.close()


def _opened(path: Path, done: int) -> BinaryIO:
    path.parent.mkdir(exist_ok=True)
    file = path.open("r+b" if done and path.exists() else "w+b")
    file.truncate(_end_of_step(file, done) if done else 0)
    file.seek(0, os.SEEK_END)
    return file


def _end_of_step(file: BinaryIO, done: int) -> int:
    """Returns where the rows of the steps after `done` begin, or what a crash, or the power, has left of one."""
    end = 0
    with suppress(ValueError, TypeError, KeyError):
        for line in file:
            if not line.endswith(b"\n") or loads(line)["step"] > done:
                break
            end += len(line)
    return end


def _spent(path: Path | None, done: int) -> float:
    """Returns the seconds that a log tells of step `done`, 0 where it is lost."""
    if path and done:
        with suppress(OSError, StopIteration, ValueError, TypeError, KeyError):
            return float(row_of(path, done)["seconds"])
    return 0.0


def row_of(path: Path, step: int) -> Record:
    """Returns the row of a step in a log, which an earlier process may have written."""
    return next(row for row in map(loads, path.read_bytes().splitlines()) if row["step"] == step)


def _ordered(row: Record, names: list[str], numbers: list[float]) -> Record:
    """Returns a row as it is written: without the norm, which is the last of the numbers."""
    figures: dict[str, Any] = {"step": row["step"], **dict(zip(names, numbers, strict=False))}
    return {**figures, **{name: row[name] for name in ("lr", "tokens", "seconds")}}

"""`log.jsonl`: a line a step, written without making the device wait."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from bertcli.errors import Diverged, IOFailed
from bertcli.records import Record
from bertcli.stream import dumps, loads

DRAIN_SECONDS = 0.5  # reading a loss waits for the device: seldom enough to cost nothing


class Rows:
    """A file of rows in the order of their steps, as JSON Lines."""

    def __init__(self, path: Path, done: int = 0) -> None:
        """Take the file's name; it is opened with the first row, so that a run that takes no step leaves none.

        Of an old one the rows up to step `done` stay, those that a lost run went further do not.
        """
        self._path, self._done = path, done
        self._file: BinaryIO | None = None

    def write(self, rows: list[Record]) -> None:
        """Add rows, which are on disk then. Raises `IOFailed`."""
        try:
            self._file = self._file or _opened(self._path, self._done)
            self._file.write(b"".join(dumps(row) + b"\n" for row in rows))
            self._file.flush()
        except OSError as error:
            raise IOFailed(f"{self._path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


class Log:
    """Rows `step loss … lr tokens seconds`: losses as means, `tokens` of the step, `seconds` since the start."""

    def __init__(self, path: Path, done: int = 0) -> None:
        """Take what `Rows` takes."""
        self._file = Rows(path, done)
        self._rows: list[tuple[Record, list[str], Tensor]] = []
        self._begun = self._drained = time.monotonic()

    def add(self, step: int, losses: dict[str, Tensor], lr: float, tokens: int, norm: Tensor) -> None:
        """Keep one step's figures, its losses and the gradient's norm still on the device."""
        total = torch.stack(list(losses.values())).sum()
        row = {"step": step, "lr": lr, "tokens": tokens, "seconds": self._seconds()}
        self._rows.append((row, ["loss", *losses], torch.stack([total, *losses.values(), norm])))

    def drain(self, *, now: bool = False) -> Iterator[Record]:
        """Yields the rows not yet written, having written them; none where it is too soon.

        Raises `Diverged` after the last row before the first loss, or norm, that is not a finite number.
        """
        if not self._rows or not (now or time.monotonic() - self._drained > DRAIN_SECONDS):
            return
        rows, self._rows, self._drained = self._rows, [], time.monotonic()
        figures = torch.stack([numbers for _, _, numbers in rows]).tolist()
        rows[-1][0]["seconds"] = self._seconds()  # the host is ahead of the device until then
        count = next((at for at, numbers in enumerate(figures) if not all(map(math.isfinite, numbers))), len(rows))
        good = [_ordered(row, names, figures[at]) for at, (row, names, _) in enumerate(rows[:count])]
        self._file.write(good)
        yield from good
        if count < len(rows):
            step, (loss, *_, norm) = rows[count][0]["step"], figures[count]
            what = f"the gradient's norm is {norm}" if math.isfinite(loss) else f"the loss is {loss}"
            raise Diverged(f"{what} at step {step}; try a lower --lr", step)

    def _seconds(self) -> float:
        return round(time.monotonic() - self._begun, 3)

    def close(self) -> None:
        """Close the file; rows that were not drained are lost."""
        self._file.close()


def _opened(path: Path, done: int) -> BinaryIO:
    path.parent.mkdir(exist_ok=True)
    file = path.open("r+b" if done and path.exists() else "wb")
    file.truncate(_end_of_step(file, done) if done else 0)
    file.seek(0, os.SEEK_END)
    return file


def _end_of_step(file: BinaryIO, done: int) -> int:
    """Returns where the rows of the steps after `done` begin, or a row that was cut short."""
    end = 0
    for line in file if file.readable() else ():
        if not line.endswith(b"\n") or loads(line)["step"] > done:
            break
        end += len(line)
    return end


def _ordered(row: Record, names: list[str], numbers: list[float]) -> Record:
    """Returns a row as it is written: without the norm, which is the last of the numbers."""
    figures: dict[str, Any] = {"step": row["step"], **dict(zip(names, numbers, strict=False))}
    return {**figures, **{name: row[name] for name in ("lr", "tokens", "seconds")}}

"""`log.jsonl`: a line a step, written without making the device wait."""

from __future__ import annotations

import math
import os
import time
from itertools import takewhile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from bertcli.errors import Diverged, IOFailed
from bertcli.records import Record
from bertcli.stream import dumps, loads

DRAIN_SECONDS = 0.5  # reading a loss waits for the device: seldom enough to cost nothing


class Log:
    """Rows `step loss … lr tokens seconds`: losses as means, `tokens` of the step, `seconds` since the start."""

    def __init__(self, path: Path, done: int = 0) -> None:
        """Take the file's name; it is opened with the first row, so that a run that takes no step leaves none.

        Of an old one the rows up to step `done` stay, those that a lost run went further do not.
        """
        self._path, self._done = path, done
        self._file: BinaryIO | None = None
        self._rows: list[tuple[Record, list[str], Tensor]] = []
        self._begun = self._drained = time.monotonic()

    def add(self, step: int, losses: dict[str, Tensor], lr: float, tokens: int) -> None:
        """Keep one step's figures, its losses still on the device."""
        total = torch.stack(list(losses.values())).sum()
        named = {"loss": total, **losses}
        row = {"step": step, "lr": lr, "tokens": tokens, "seconds": round(time.monotonic() - self._begun, 3)}
        self._rows.append((row, list(named), torch.stack(list(named.values()))))

    def drain(self, *, now: bool = False) -> list[Record]:
        """Returns the rows not yet written, having written them; an empty list where it is too soon.

        Raises `Diverged` at the first loss that is not a finite number.
        """
        if not self._rows or not (now or time.monotonic() - self._drained > DRAIN_SECONDS):
            return []
        figures = torch.stack([losses for _, _, losses in self._rows]).tolist()
        rows = [_ordered(row, names, losses) for (row, names, _), losses in zip(self._rows, figures, strict=True)]
        self._rows, self._drained = [], time.monotonic()
        good = list(takewhile(lambda row: math.isfinite(row["loss"]), rows))
        try:
            self._file = self._file or _opened(self._path, self._done)
            self._file.write(b"".join(dumps(row) + b"\n" for row in good))
            self._file.flush()
        except OSError as error:
            raise IOFailed(f"{self._path}: {error.strerror}") from error
        if len(good) < len(rows):
            bad = rows[len(good)]
            raise Diverged(f"the loss is {bad['loss']} at step {bad['step']}; try a lower --lr")
        return good

    def close(self) -> None:
        """Close the file; rows that were not drained are lost."""
        if self._file:
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


def _ordered(row: Record, names: list[str], losses: list[float]) -> Record:
    figures: dict[str, Any] = {"step": row["step"], **dict(zip(names, losses, strict=True))}
    return {**figures, **{name: row[name] for name in ("lr", "tokens", "seconds")}}

"""How a training run is watched."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bertcli.commands.streams import Streams
    from bertcli.engine.run import Run
    from bertcli.records import Record

EVERY = 600  # seconds of training from one line to the next, where there is no bar


def watch(streams: Streams, run: Run, rows: Iterable[Record]) -> None:
    """Go through a run's rows, under a bar with loss, rate, tokens/s and time left where there is a terminal.

    Elsewhere stderr, of which a batch system makes a file, has them in a line now and then. The last line sums the run
    up.
    """
    from tqdm import tqdm

    hidden = streams.quiet or streams.is_silent or sys.stderr is None or not sys.stderr.isatty()
    pace = Pace()
    with tqdm(total=run.last, unit=" steps", file=sys.stderr, disable=hidden) as bar:
        for row in rows:
            if pace.first is None:
                bar.initial = bar.n = row["step"] - 1  # more than 0 on --resume
            pace.add(row)
            state = f"loss {row['loss']:.3f}, lr {row['lr']:.2e}, {pace}"
            bar.set_postfix_str(state, refresh=False)
            bar.update()
            if hidden and pace.is_due(row):
                left = tqdm.format_interval(pace.left(row, run.last))
                streams.note(f"step {row['step']} of {run.last}: {state}, {left} left")
    figures = "".join(f"{name} {value:.4f}, " for name, value in run.last_row.items() if "loss" in name)
    end = "is complete" if run.is_complete else f"is stopped at step {run.last} of {run.steps}"
    name = run.output.path if run.output.is_only else "the run"
    streams.note(f"step {run.last}: {figures}{pace}; {name} {end}")


class Pace:
    """Tokens a second after the first step, which waits for input, kernels and memory; of one step alone, with it."""

    def __init__(self) -> None:
        """Count nothing yet."""
        self.first: Record | None = None
        self._tokens, self._seconds, self._told = 0, 0.0, 0.0

    def add(self, row: Record) -> None:
        """Count a row of the log."""
        if self.first is None:
            self.first, self._told = row, row["seconds"]
        self._tokens, self._seconds = self._tokens + row["tokens"], row["seconds"]

    def is_due(self, row: Record) -> bool:
        """Returns whether it is time for a line, if so until the next one."""
        if row["seconds"] - self._told < EVERY:
            return False
        self._told = row["seconds"]
        return True

    def left(self, row: Record, last: int) -> float:
        """Returns the seconds from a row, which is not the first, to the last step."""
        begun = self.first or row
        a_step = (row["seconds"] - begun["seconds"]) / (row["step"] - begun["step"])
        return float((last - row["step"]) * a_step)

    def __str__(self) -> str:
        """Returns `12.3 k tokens/s`."""
        begun = self.first or {"tokens": 0, "seconds": 0.0}
        if begun["seconds"] == self._seconds:
            begun = {"tokens": 0, "seconds": 0.0}
        rate = (self._tokens - begun["tokens"]) / max(1e-3, self._seconds - begun["seconds"])
        return f"{rate / 1000:.1f} k tokens/s"

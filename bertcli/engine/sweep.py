"""Several runs on the same examples: the cells of a grid, each begun anew from other seeds; the best on dev is kept.

What is known of finished runs waits in `checkpoint/runs.jsonl`, so that `--resume` goes on with the others.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from bertcli import folder, publish
from bertcli.engine import checkpoint
from bertcli.engine.device import Device
from bertcli.engine.run import Run
from bertcli.engine.scores import Scored, settled
from bertcli.engine.settings import Output, Settings
from bertcli.engine.signals import RESUMING, AtOnce
from bertcli.engine.spool import Spool
from bertcli.errors import BadData, Diverged, UsageError, many
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.stream import dumps, loads
from bertcli.tasks.task import Example, Task

CELL = ("lr", "batch_size", "epochs")  # the settings by which the cells of a grid differ

Watch = Callable[[Run, Iterator[Record]], None]  # goes through the rows of a run's log


def planned(cells: Sequence[Settings], restarts: int) -> list[Settings]:
    """Returns the settings of every run: each cell begun so often, from seeds that follow each other."""
    return [replace(cell, seed=cell.seed + number) for cell in cells for number in range(restarts)]


class Sweep:
    """Runs that follow each other, and what came of those that are finished."""

    def __init__(
        self,
        task: Task,
        settings: list[Settings],
        output: Output,
        device: Device,
        notes: dict[str, Any],
        say: Callable[[str], None] = lambda message: None,
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        """Take the settings of each run, and what `Run` takes; `warn` is told of runs that have failed."""
        self.task, self.settings, self.output, self.device = task, settings, output, device
        self.notes, self.say, self.warn = notes, say, warn
        self.rows: list[Record] = []
        self._restored = 0  # of them: those of an earlier process
        self._path = output.path / "checkpoint" / "runs.jsonl"

    def train(
        self,
        spool: Spool,
        dev: list[tuple[Record, list[Example]]],
        network_of: Callable[[Settings], Network],
        watch: Watch,
    ) -> Record:
        """Train every run that is not finished, on examples read to their end; returns what became of the best.

        Raises what `Run.train` does, but for `Diverged` where there are other runs; `UsageError` where the runs that
        are finished were others, and for a metric that the dev records do not have.
        """
        if dev:
            metric = settled(self.task, dev, self.settings[0].metric)
            self.settings = [replace(settings, metric=metric) for settings in self.settings]
        if len(self.settings) == 1:
            if self.output.resume and self._path.exists():
                raise UsageError(f"{self._path}: --resume goes on with the same runs only: there were several")
            run = self._run(self.settings[0], self.output, spool, dev)
            watch(run, run.train(network_of(run.settings)))
            self._judge(run, "the run")
            return run.result()
        plan = {
            "runs": [asdict(settings) for settings in self.settings],
            "task": {"name": self.task.name, **self.task.options()},
            "examples": len(spool),
        }
        self._restore(plan)
        for number in range(len(self.rows), len(self.settings)):
            name, is_last = self._name(number), number == len(self.settings) - 1
            with AtOnce(f"before the first step of {name}{RESUMING}", "" if is_last else f"after {name}{RESUMING}"):
                run = self._run(self.settings[number], self._output(number), spool, dev)
                self.say(name)
                self._train(run, number, network_of, watch)
                if self.device.ranks.is_first:
                    with publish.replacing(self._path) as temporary:
                        temporary.write_bytes(b"".join(dumps(each) + b"\n" for each in [plan, *self.rows]))
        return self._finish() if self.device.ranks.is_first else {}

    def _train(self, run: Run, number: int, network_of: Callable[[Settings], Network], watch: Watch) -> None:
        """Train one of several runs, and keep what became of it."""
        try:
            watch(run, run.train(network_of(run.settings)))
        except Diverged as error:
            self.warn(f"run {number + 1} has failed: {error}")
            if self.device.ranks.is_first:  # else the next run would take its checkpoints for its own
                checkpoint.discard(self.output.path, is_finished=False)
        self._judge(run, f"run {number + 1}")
        self.rows.append(self._row(number, run))

    def _name(self, number: int) -> str:
        return f"run {number + 1} of {len(self.settings)}"

    def _run(self, settings: Settings, output: Output, spool: Spool, dev: list[tuple[Record, list[Example]]]) -> Run:
        run = Run(self.task, settings, output, self.device, self.notes, self.say, self.warn)
        run.take(spool)
        run.dev, run.to_beat = dev, max(map(self._scored, self.rows), default=Scored())
        return run

    def _output(self, number: int) -> Output:
        return replace(
            self.output,
            log=f"runs/{number + 1}.jsonl",
            resume=self.output.resume and number == self._restored,
            run=self._name(number),
            is_first=number == 0,
            is_only=False,
        )

    def _restore(self, plan: Record) -> None:
        if not (self.output.resume and self._path.exists()):
            return
        try:
            old, *self.rows = [loads(line) for line in self._path.read_bytes().splitlines()]
            best = max(map(self._scored, self.rows), default=Scored())
        except (ValueError, KeyError, TypeError):
            raise BadData("no table of finished runs", file=str(self._path)) from None
        if best.scores and not (self.output.path / "config.json").exists():
            raise BadData("the model of the best run is not there any more", file=str(self.output.path))
        if changed := [name for name in plan if loads(dumps(plan[name])) != old.get(name)]:
            raise UsageError(f"{self._path}: --resume goes on with the same runs only: other {' and '.join(changed)}")
        self._restored = len(self.rows)
        self.say(f"resuming after run {self._restored} of {len(self.settings)}")

    def _judge(self, run: Run, name: str) -> None:
        if run.best.scores and not run.best.is_sound:
            self.warn(f"{name} has failed: all dev records get the same answer")

    def _row(self, number: int, run: Run) -> Record:
        best = run.best
        return {
            "run": number + 1,
            **{name: getattr(run.settings, name) for name in (*CELL, "seed")},
            "step": best.step,
            "loss": run.kept_row.get("loss"),
            "metric": run.settings.metric,
            "value": best.value if best.scores else None,  # None: it diverged
            "failed": not best.is_sound,
            "dev": best.scores,
        }

    def _scored(self, row: Record) -> Scored:
        if row["value"] is None:
            return Scored()
        rank = -row["value"] if row["metric"] in self.task.errors else row["value"]
        return Scored(not row["failed"], rank, row["value"], row["step"], row["dev"])

    def _finish(self) -> Record:
        """Write the table of runs into the notes of the model that was kept, and its log beside it."""
        kept = max(self.rows, key=self._scored)  # the first of equals
        if kept["value"] is None:
            raise Diverged("the loss of every run is no finite number; try a lower --lr")
        path, table = self.output.path, {"kept": kept["run"], "runs": self.rows, "cells": self._cells()}
        with suppress(FileNotFoundError):
            shutil.copyfile(path / "runs" / f"{kept['run']}.jsonl", path / "log.jsonl")
        with publish.replacing(path / "bertcli.json") as temporary:
            folder.write_json(temporary, folder.read_notes(path) | table)
        publish.vanish(self._path.parent)
        for line in _lines(table):
            self.say(line)
        return {"model": str(path), **{name: kept[name] for name in ("step", "loss", "dev")}, **table}

    def _cells(self) -> list[Record]:
        """Returns for each cell the mean of its runs that did not fail, their standard deviation and their number."""
        groups: dict[tuple[Any, ...], list[Record]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[name] for name in CELL), []).append(row)
        return [dict(zip(CELL, cell, strict=True)) | _spread(rows) for cell, rows in groups.items()]


def _spread(rows: list[Record]) -> Record:
    values = [row["value"] for row in rows if not row["failed"]]
    return {
        "mean": statistics.fmean(values) if values else None,
        "sd": statistics.stdev(values) if len(values) > 1 else None,
        "count": len(values),
        "failed": len(rows) - len(values),
    }


def _lines(table: Record) -> Iterator[str]:
    """Yields the lines of the table of runs, and of that of cells, for people."""
    metric = table["runs"][0]["metric"]
    yield f"{'run':>4} {'lr':>8} {'batch':>6} {'epochs':>6} {'seed':>5} {'step':>7}  {metric}"
    for row in table["runs"]:
        value = "the loss is no finite number" if row["value"] is None else f"{row['value']:.4f}"
        told = "  failed" * row["failed"] + "  kept" * (row["run"] == table["kept"])
        cell = f"{row['lr']:>8g} {row['batch_size']:>6} {row['epochs']:>6g}"
        yield f"{row['run']:>4} {cell} {row['seed']:>5} {row['step']:>7}  {value}{told}"
    for row in table["cells"]:
        mean = "no mean" if row["mean"] is None else f"mean {row['mean']:.4f}"
        spread = "" if row["sd"] is None else f", sd {row['sd']:.4f}"
        cell = f"lr {row['lr']:g}, batch {row['batch_size']}, epochs {row['epochs']:g}"
        yield f"{cell}: {mean}{spread} of {many(row['count'], 'run')}, {row['failed']} failed"

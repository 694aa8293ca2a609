"""Pre-training as one run in this process, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import models

from bertcli.engine.device import choose
from bertcli.engine.run import Run
from bertcli.engine.settings import Output, Settings
from bertcli.model.config import Config
from bertcli.records import Record
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build

WORDPIECE = models.wordpiece()
PAIRS = models.pairs(30)  # with a batch of 8, the first epoch ends in step 4
SETTINGS = Settings(
    lr=2e-3, warmup=0.2, schedule="linear", bias_correction=True, batch_size=8, dropout=0.2, seed=3, steps=12
)


def run(
    path: Path,
    *,
    settings: Settings = SETTINGS,
    config: Config | None = None,
    records: list[Record] = PAIRS,
    said: list[str] | None = None,
    **output: Any,
) -> list[Record]:
    """Returns the rows of a run that reads its pairs as they come; raises what the run raises."""
    path.mkdir(exist_ok=True)
    task = Pretraining(WORDPIECE, 64, seed=settings.seed)
    network = build(task, (config or models.config()).with_dropout(settings.dropout), settings.seed)
    one = Run(task, settings, Output(path, **output), choose("cpu"), {"objective": "mlm+nsp", "command": str(output)})
    one.say = one.warn = [].append if said is None else said.append
    one.stream(models.stream(task, records))
    return list(one.train(network))


def figures(rows: list[Record]) -> list[Record]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def logged(path: Path) -> list[Record]:
    return [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]

"""What a training run is told, what it knows of its input, and by what it is known again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from bertcli.lines import Mark
from bertcli.model.config import Config, FeatureConfig
from bertcli.tasks.task import Task


@dataclass(frozen=True)
class Settings:
    """What a run is told about learning; `--resume` goes on with the same settings only."""

    lr: float
    warmup: float
    schedule: str
    bias_correction: bool
    batch_size: int
    dropout: float
    seed: int
    optimizer: str = "adamw"
    steps: int = 0  # 0: as many as `epochs` take
    epochs: float = 0
    early_stop: int = 0  # epochs without a better dev score after which to end, the best one kept; 0: never
    metric: str | None = None  # the dev score by which one model is better than another; None: the last one is


@dataclass(frozen=True)
class Output:
    """Where a run leaves its model, and when it saves on the way; in steps, 0 for never."""

    path: Path
    resume: bool = False
    spool: Path | None = None
    stop_at: int = 0
    save_every: int = 0
    keep: int = 1  # checkpoints, the newest
    save_at: tuple[int, ...] = ()
    eval_every: int = 0  # 0: after each epoch where their length is known, else with each checkpoint
    log: str = "log.jsonl"  # its name in the folder
    run: str = ""  # which of several runs it is, as messages name it
    is_first: bool = True  # of several runs: what else is in the folder is older than they
    is_only: bool = True  # the folder is finished with this run

    @property
    def room(self) -> Path:
        """Returns where the spool is to be."""
        return self.spool or self.path

    def kept_spool(self, rank: int) -> Path:
        """Returns the folder of the spool that a rank keeps for a resumed run."""
        name = f"spool-{rank}" if rank else "spool"
        if self.spool is None:
            return self.path / name
        return self.spool / f"{name}-{blake2b(bytes(self.path.resolve()), digest_size=4).hexdigest()}"


@dataclass(frozen=True)
class Input:
    """What a run reads: the step after which it began, and marks of how far it was read, by which it is known again."""

    begun: int = 0
    first: Mark | None = None
    last: Mark | None = None
    has_ended: bool = False  # with the last one
    # Sizes in bytes, and times of last change in nanoseconds, of all that it is read from, where that are only files.
    files: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, told: dict[str, Any]) -> Input:
        """Returns what was told as JSON."""
        marks = {name: Mark(*told[name]) for name in ("first", "last") if told[name]}
        return cls(**{**told, **marks, "files": tuple(map(tuple, told["files"]))})


def making(task: Task, notes: dict[str, Any]) -> dict[str, Any]:
    """Returns by what a run makes examples of records: the vocabulary, the task's options and what its notes say."""
    told = {name: value for name, value in notes.items() if name not in ("command", "history")}
    return _as_read({**told, **task.options(), **task.reads()})


def fingerprint(settings: Settings, config: Config | FeatureConfig, made: dict[str, Any]) -> dict[str, Any]:
    """Returns all that must be the same for a resumed run: settings, sizes, and by what its examples are `made`."""
    sizes = {name: value for name, value in asdict(config).items() if "dropout" not in name}
    told = {**asdict(settings), **sizes, **made}
    if not settings.epochs:  # one schedule may have short sequences first, then long ones (section A.2)
        del told["max_length"]
    return _as_read(told)


def _as_read(told: dict[str, Any]) -> dict[str, Any]:
    """Returns what is written as JSON as it will be read again: tuples as lists."""
    read: dict[str, Any] = json.loads(json.dumps(told))
    return read

"""What a training run is told, and what it knows of its input."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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


@dataclass(frozen=True)
class Input:
    """What a run reads: a digest by which it is known again, and the step after which it began."""

    digest: str = ""
    begun: int = 0

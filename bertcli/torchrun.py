"""What `torchrun` tells the processes that it starts, by variables."""

from __future__ import annotations

import os
from typing import NamedTuple


class Place(NamedTuple):
    """A process's place among those that do one work together."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those of one machine
    local_size: int = 1


def place() -> Place:
    """Returns this process's place; a process that was started alone is the first of one."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "MASTER_ADDR" not in os.environ:
        return Place()
    return Place(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")))


def restarts() -> int:
    """Returns how often `torchrun` has started all processes anew, for one of them had died (`--max-restarts`)."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))

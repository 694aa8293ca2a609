"""`bertcli`, and what its process alone knows at the end: the GPU's memory, and what was compiled when.

python tests/bench/watched.py OUT.json COMMAND ARGUMENT...
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from bertcli.cli import main


def seen() -> dict[str, Any]:
    """Returns the card; the most bytes in use there, or else by the process; those that torch reserved there, for
    recordings and its cache too; and what was compiled.

    Of each compilation the name, the begin in seconds of the clock, the seconds that it took, and why it was needed
    where there was one before.
    """
    torch, dynamo = sys.modules.get("torch"), sys.modules.get("torch._dynamo.utils")
    has_card = torch is not None and torch.cuda.is_available()
    compiled = dynamo.get_compilation_metrics() if dynamo else ()
    return {
        "card": torch.cuda.get_device_name() if has_card else "",
        "memory": torch.cuda.max_memory_allocated() if has_card else 1024 * getrusage(RUSAGE_SELF).ru_maxrss,
        "reserved": torch.cuda.max_memory_reserved() if has_card else 0,
        "compilations": [
            {
                "name": each.co_name,
                "begun": (each.start_time_us or 0) / 1e6,
                "seconds": (each.duration_us or 0) / 1e6,
                "reason": each.recompile_reason,
            }
            for each in compiled
        ],
    }


def watch(out: Path) -> None:
    """Let this process, and none that it forks, write what it has seen when `bertcli` leaves, by `os._exit`."""
    leave, own = os._exit, os.getpid()

    def told(status: int) -> None:
        if os.getpid() == own and os.environ.get("RANK", "0") == "0":
            out.write_text(json.dumps(seen()))
        leave(status)

    os._exit = told  # type: ignore[assignment]


if __name__ == "__main__":
    watch(Path(sys.argv.pop(1)))
    main()

"""Prints how long `bertcli --help` takes: the best of five runs of the installed script, in milliseconds."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(sys.executable).parent / "bertcli"


def milliseconds(*arguments: str) -> float:
    start = time.perf_counter()
    subprocess.run([SCRIPT, *arguments], stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - start)


if __name__ == "__main__":
    for line in (["--help"], ["read", "--help"], ["pretrain", "--help"]):
        print(f"bertcli {' '.join(line)}: {min(milliseconds(*line) for _ in range(5)):.0f} ms")

"""The program as a user runs it, for tests: how a command ends, and what came out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard

ROOT = Path(__file__).parent.parent


class Result(NamedTuple):
    """How a command ended: its status, its output (decompressed where it is zstd) and what it said."""

    status: int
    out: bytes
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.out.splitlines()]


def decompressed(data: bytes) -> bytes:
    """Returns the content of zstd frames, whole or cut, and other bytes as they are."""
    out = []
    while data.startswith(b"\x28\xb5\x2f\xfd"):
        decoder = zstandard.ZstdDecompressor().decompressobj()
        out.append(decoder.decompress(data))
        data = decoder.unused_data
    return b"".join([*out, data])


def environment() -> dict[str, str]:
    """Returns an environment in which `bertcli` is this checkout and nothing else of the user's matters.

    Nor does it see a GPU, on which numbers are others.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTCLI_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def run(command: list[str], stdin: bytes = b"", cwd: Path | None = None) -> Result:
    """Returns how a process ended that was given these bytes."""
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=environment(), check=False)
    return Result(done.returncode, decompressed(done.stdout), done.stderr.decode())

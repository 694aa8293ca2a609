"""What every test may ask for: the program as a user runs it, a shell, and the real data."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
import zstandard

ROOT = Path(__file__).parent.parent


class Result(NamedTuple):
    """How a command ended: its status, its output (decompressed where it is zstd) and what it said."""

    status: int
    out: bytes
    err: str

    @property
    def records(self) -> list[dict[str, object]]:
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
    """Returns an environment in which `bertcli` is this checkout and nothing else of the user's matters."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BERTCLI_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return kept | {"PATH": path, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def run(command: list[str], stdin: bytes = b"", cwd: Path | None = None) -> Result:
    """Returns how a process ended that was given these bytes."""
    done = subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=environment(), check=False)
    return Result(done.returncode, decompressed(done.stdout), done.stderr.decode())


@pytest.fixture
def invoke(tmp_path: Path) -> Callable[..., Result]:
    """Runs `bertcli ARGS...` in an empty folder of its own; `stdin` is bytes."""

    def invoke(*args: object, stdin: bytes = b"") -> Result:
        return run([sys.executable, "-m", "bertcli", *map(str, args)], stdin, tmp_path)

    return invoke


@pytest.fixture
def shell(tmp_path: Path) -> Callable[..., Result]:
    """Runs one line of bash with pipefail, in an empty folder of its own."""

    def shell(line: str, stdin: bytes = b"") -> Result:
        return run(["bash", "-o", "pipefail", "-c", line], stdin, tmp_path)

    return shell


@pytest.fixture(scope="session")
def shared() -> Path:
    """Returns the folder of real data beside the project, which is not part of it."""
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip(f"no real data: {data} is not there")
    return data

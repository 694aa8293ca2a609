"""What every test may ask for: the program, a shell, files to work on, and the real data."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import house as files
import hypothesis
import pytest
import warm
from program import ROOT, Result, decompressed, run

hypothesis.settings.register_profile("shared cores", deadline=None)  # an example's time is the machine's affair
hypothesis.settings.load_profile("shared cores")
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is loaded, by whichever test comes first


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
def program() -> Iterator[warm.Program]:
    """Gives the program as processes that need not import torch anew."""
    with warm.program() as program:
        yield program


@pytest.fixture
def bertcli(program: warm.Program, tmp_path: Path) -> Callable[..., Result]:
    """Runs `bertcli ARGS...` as `invoke` does, without importing torch anew."""

    def bertcli(*args: object, stdin: bytes = b"") -> Result:
        result = program.run(list(map(str, args)), tmp_path, stdin)
        return result._replace(out=decompressed(result.out))

    return bertcli


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder with the files that the examples name; it is to be copied, not changed."""
    return files.build(tmp_path_factory.mktemp("house"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """Returns the folder of real data beside the project, which is not part of it."""
    data = ROOT.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip(f"no real data: {data} is not there")
    return data


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run whole pipelines first: they take longest, and at the end one core would wait for the other."""
    items.sort(key=lambda item: "pipelines" not in item.path.parts)

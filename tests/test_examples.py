"""Every example that a page shows works, in a folder where the files that it names are."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Result

from bertcli import manual

# The demo's own test runs its example, which takes minutes, and looks at its figures.
EXAMPLES = [line for name, command in manual.commands().items() if name != "demo" for line, _ in command.examples]


@pytest.mark.parametrize("line", EXAMPLES)
def test_an_example_works(line: str, house: Path, shell: Callable[..., Result], tmp_path: Path) -> None:
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    for folder in re.findall(r"-o (\S+)", line):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)  # the house has what an example makes
    result = shell(line)
    assert "Traceback" not in result.err
    assert result.status == 0 or (result.status == 141 and "| head" in line), result.err

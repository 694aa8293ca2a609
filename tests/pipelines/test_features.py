"""The README's way from an official file to a tagger on features and its score."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import warm
from program import ROOT

SECTION = re.search(r"^## Features\n.*?^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
LINES = SECTION[1].splitlines() if SECTION else []


def test_four_commands_from_files_to_a_score(house: Path, program: warm.Program, tmp_path: Path) -> None:
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    assert len(LINES) == 4
    *_, learned, scored = [program.script(["bash", "-o", "pipefail", "-c", line], tmp_path) for line in LINES]
    assert (learned.status, scored.status) == (0, 0), learned.err + scored.err
    assert scored.records[0]["f1"] == pytest.approx(learned.records[0]["dev"]["f1"])
    assert scored.records[0]["f1"] == 100  # a city, and always the same

"""The README's way from an official file to a tagger on features and its score."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from program import ROOT, Result

SECTION = re.search(r"^## Features\n.*?^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
LINES = SECTION[1].splitlines() if SECTION else []


def test_four_commands_from_files_to_a_score(house: Path, shell: Callable[..., Result], tmp_path: Path) -> None:
    shutil.copytree(house, tmp_path, dirs_exist_ok=True)
    assert len(LINES) == 4
    *_, learned, scored = [shell(f"set -o pipefail; {line}") for line in LINES]
    assert (learned.status, scored.status) == (0, 0), learned.err + scored.err
    assert scored.records[0]["f1"] == pytest.approx(learned.records[0]["dev"]["f1"])
    assert scored.records[0]["f1"] == 100  # a city, and always the same

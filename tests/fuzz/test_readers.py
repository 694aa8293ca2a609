"""Every reader on hostile inputs: those of the corpus, and a few made anew. `run.py` makes hundreds."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz.mutate import BYTES, FRAMES, LINES, mutated, safetensors, value
from fuzz.targets import CORPUS, targets
from program import environment

READERS = list(targets())
COUNT = 3  # a reader, beside the corpus


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Returns what became of all inputs, by reader."""
    keep = tmp_path_factory.mktemp("kept")
    line = [sys.executable, Path(__file__).parent / "run.py", "--count", COUNT, "--json", "--keep", keep]
    done = subprocess.run(list(map(str, line)), capture_output=True, env=environment(), check=False)
    assert done.stderr == b"", done.stderr.decode()
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("reader", READERS)
def test_no_input_is_answered_wrongly(rows: dict[str, dict[str, Any]], reader: str) -> None:
    row = rows[reader]
    assert row["wrong"] == []
    assert sum(row["statuses"].values()) >= COUNT + len(targets()[reader].seeds())


def test_each_reader_succeeds_and_fails(rows: dict[str, dict[str, Any]]) -> None:
    """A harness that gave commands nothing to read would find no fault either."""
    assert all("0" in row["statuses"] for row in rows.values())
    assert sum("65" in row["statuses"] for row in rows.values()) > len(READERS) * 0.9


def test_the_corpus_is_small_and_all_of_it_is_used() -> None:
    files = [path for path in CORPUS.rglob("*") if path.is_file()]
    assert max(path.stat().st_size for path in files) < 1 << 15
    used = {part for target in targets().values() for part in (target.name, *target.around)}
    assert {path.relative_to(CORPUS).parts[0] for path in files} <= {*used, "model"}


@pytest.mark.parametrize("kind", [*BYTES, *LINES, *FRAMES, value, safetensors])
def test_a_seed_makes_the_same_inputs_again(kind: Any) -> None:
    data = (CORPUS / "model/model.safetensors").read_bytes() if kind is safetensors else b'{"a": [1, "b"]}\n{"c": 2}\n'
    made = [[mutated(random.Random(number), data, (kind,)) for number in range(8)] for _ in range(2)]
    assert made[0] == made[1]
    assert any(each != data for each in made[0])

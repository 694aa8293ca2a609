"""`bertcli demo`, as a new user runs it: from a text to a score."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from program import Result

from bertcli import demo


def test_the_demo_learns_what_it_was_not_told(shell: Callable[..., Result], tmp_path: Path) -> None:
    done = shell("bertcli demo -o demo")
    assert done.status == 0, done.err
    summary = done.out.decode().splitlines()[-1]
    first, last, accuracy, majority = map(float, re.findall(r"(\d+\.\d+)", summary)[:4])
    assert last < first - 1.5, summary
    assert accuracy >= majority + 0.15, summary
    learned, asked = ((tmp_path / "demo" / name).read_text() for name in ("corpus.txt", "heldout.txt"))
    assert not {line for line in asked.splitlines() if len(line) > 40} & set(learned.splitlines())
    again = shell("bertcli demo -o demo")
    assert again.status == 73
    assert "--force" in again.err


def test_both_sides_of_the_task_are_held_out(tmp_path: Path) -> None:
    demo.write(tmp_path)
    chapters = demo.CORPUS.read_text().strip().split("\n\n")
    assert set(range(1, len(chapters) + 1)) >= demo.FICTION | demo.HELD_OUT
    labels = [json.loads(line)["label"] for line in (tmp_path / "heldout.jsonl").read_text().splitlines()]
    assert abs(labels.count("fiction") - labels.count("fact")) < 0.1 * len(labels)

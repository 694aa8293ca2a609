"""Runs that are killed and go on end as if nothing had been: tests/bench/kills.py, with few kills."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import warm
from bench import kills

RECORDS = 120


@pytest.mark.parametrize(
    ("task", "count", "ranks", "by_pipe", "signals"),
    [
        ("pretrain", 3, 1, False, False),
        ("pretrain", 2, 1, True, True),
        ("pretrain", 2, 2, False, False),
        ("classification", 1, 1, False, False),
    ],
)
def test_kills_change_nothing(
    program: warm.Program, tmp_path: Path, task: str, count: int, ranks: int, by_pipe: bool, signals: bool
) -> None:
    line = kills.prepared(tmp_path, task, RECORDS)
    trial = kills.Trial(tmp_path, program.start, line, kills.steps(RECORDS), ranks, by_pipe, random.Random(count))
    fell = list(kills.tried(trial, count + 1, endings=1, signals=signals))  # the last one may come too late
    assert len(fell) >= count
    assert min(each.step for each in fell) > 0

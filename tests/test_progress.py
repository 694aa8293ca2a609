"""How a training run is watched."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bertcli.commands.progress import Pace, watch


def test_a_rate_leaves_out_what_the_first_step_waits_for() -> None:
    pace = Pace()
    assert str(pace) == "0.0 k tokens/s"
    pace.add({"tokens": 5000, "seconds": 50.0})
    assert str(pace) == "0.1 k tokens/s"
    for second in (51.0, 52.0):
        pace.add({"tokens": 4000, "seconds": second})
    assert str(pace) == "4.0 k tokens/s"


def test_without_a_terminal_there_is_a_line_every_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    said: list[str] = []
    streams: Any = SimpleNamespace(quiet=False, is_silent=False, note=said.append)
    output = SimpleNamespace(path="model", is_only=True)
    run: Any = SimpleNamespace(last=10, steps=10, output=output, is_complete=True, last_row={"loss": 2.0})

    def rows() -> Iterator[dict[str, Any]]:
        for step in range(1, 11):  # the first waits a minute, the others take four
            yield {"step": step, "loss": 3 - step / 10, "lr": 1e-4, "tokens": 240_000, "seconds": step * 240.0 - 180}

    watch(streams, run, rows())
    assert said == [
        "step 4 of 10: loss 2.600, lr 1.00e-04, 1.0 k tokens/s, 24:00 left",
        "step 7 of 10: loss 2.300, lr 1.00e-04, 1.0 k tokens/s, 12:00 left",
        "step 10 of 10: loss 2.000, lr 1.00e-04, 1.0 k tokens/s, 00:00 left",
        "step 10: loss 2.0000, 1.0 k tokens/s; model is complete",
    ]

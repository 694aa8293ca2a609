"""The figures of tests/bench are what they are called."""

from __future__ import annotations

import time

import pytest
from bench import rates


def rows(*seconds: float, tokens: int = 100) -> list[rates.Row]:
    return [{"tokens": tokens, "seconds": each} for each in seconds]


def test_the_pace_is_that_of_the_steps_after_the_warm_up() -> None:
    # Two slow steps, then four that end half a second apart: the second's tokens belong to its own time.
    assert rates.pace(rows(10, 20, 20.5, 21, 21.5, 22), warm=2) == (200, 200, 200)


def test_the_pace_counts_tokens_not_steps() -> None:
    assert rates.pace([*rows(1), *rows(2, tokens=50), *rows(3, tokens=150)], warm=1).mean == 100


def test_the_slowest_and_the_fastest_stretch_are_of_fifty_steps_each() -> None:
    slow = [float(end) for end in range(1, 61)]
    fast = [60 + end / 2 for end in range(1, 51)]
    made = rates.pace(rows(*slow, *fast), warm=10)
    assert (made.slowest, made.fastest) == (100, 200)
    assert made.mean == pytest.approx(100 * 100 / (50 + 25))


def test_a_rest_of_less_than_fifty_steps_belongs_to_the_last_stretch() -> None:
    made = rates.pace(rows(*map(float, range(1, 52)), 51.5, 52), warm=1)
    assert made.slowest == made.fastest == made.mean == pytest.approx(100 * 52 / 51)


def test_without_a_step_after_the_warm_up_there_is_no_pace() -> None:
    with pytest.raises(ValueError, match="2 steps, of which 2"):
        rates.pace(rows(1, 2), warm=2)


def test_operations_are_counted_as_the_peer_counts_them() -> None:
    # The given peer's own words: at 476 k tokens/s base makes 260 TFLOP/s, and large 354 at 188 k.
    assert 476e3 * rates.flops_per_token(12, 768, 128) / 1e12 == pytest.approx(260, abs=1)
    assert 188e3 * rates.flops_per_token(24, 1024, 128) / 1e12 == pytest.approx(354, abs=1)


def test_the_peak_of_a_card_is_known_by_its_name() -> None:
    assert rates.peak("NVIDIA H100 80GB HBM3") == 989e12
    assert rates.peak("") is None


def test_what_is_compiled_after_the_warm_up_is_told() -> None:
    import torch
    from bench.watched import seen

    torch._dynamo.reset()
    doubled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    doubled(torch.ones(2))
    moment = time.time()
    doubled(torch.ones(2))
    assert not rates.after(seen()["compilations"], moment)
    doubled(torch.ones(3))
    [again] = rates.after(seen()["compilations"], moment)
    assert "size" in again["reason"]
    assert again["seconds"] > 0

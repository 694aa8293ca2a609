"""Shares of right choices."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.metrics.choice import score


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=20))
def test_accuracy(pairs: list[tuple[int, int]]) -> None:
    found = score({"label": gold, "prediction": predicted} for gold, predicted in pairs)
    assert found["total"] == len(pairs)
    assert found.get("accuracy") == (sum(a == b for a, b in pairs) / len(pairs) if pairs else None)


def test_command(invoke: Callable[..., Result]) -> None:
    lines = b'{"text": "a", "choices": ["b", "c"], "label": 1, "prediction": 1}\n{"label": 0, "prediction": 1}\n'
    result = invoke("score", "choice", stdin=lines)
    assert (result.status, result.out, result.err) == (0, b'{"accuracy":0.5,"total":2}\n', "")
    said = "<stdin>:3: field 'label': found nothing, expected an integer"
    bad = invoke("score", "choice", stdin=lines + b'{"text": "a", "choices": ["b", "c"], "prediction": 1}\n')
    assert bad == (65, b"", f"bertcli score: {said}\n")

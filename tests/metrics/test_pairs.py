"""How often the good sentence of a minimal pair is the likelier one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from program import Result

from bertcli.metrics.pairs import score

NAMES = st.none() | st.sampled_from(["agreement", "binding", "islands"])
RECORDS = st.lists(st.fixed_dictionaries({"prediction": st.booleans(), "phenomenon": NAMES, "paradigm": NAMES}))


def share(records: list[dict[str, Any]]) -> dict[str, Any]:
    right = [record["prediction"] for record in records]
    return {"accuracy": sum(right) / len(right), "total": len(right)}


@given(RECORDS)
def test_each_group_is_scored_as_if_it_were_alone(records: list[dict[str, Any]]) -> None:
    found = score(records)
    assert found["total"] == len(records)
    for kind, field in (("phenomena", "phenomenon"), ("paradigms", "paradigm")):
        names = sorted({record[field] for record in records if record[field]})
        groups = found.pop(kind, {})
        assert list(groups) == names
        for name in names:
            assert groups[name] == share([record for record in records if record[field] == name])
    assert found == (share(records) if records else {"total": 0})


def test_command(invoke: Callable[..., Result]) -> None:
    lines = b'{"phenomenon": "islands", "paradigm": "wh", "prediction": true}\n{"prediction": false}\n'
    result = invoke("score", "pairs", stdin=lines)
    group = b'{"accuracy":1.0,"total":1}'
    groups = b'"phenomena":{"islands":%b},"paradigms":{"wh":%b}' % (group, group)
    assert (result.status, result.out, result.err) == (0, b'{"accuracy":0.5,"total":2,%b}\n' % groups, "")
    bad = invoke("score", "pairs", stdin=lines + b'{"good": "a", "bad": "b"}\n')
    said = "<stdin>:3: field 'prediction': found nothing, expected true or false"
    assert bad == (65, b"", f"bertcli score: {said}\n")

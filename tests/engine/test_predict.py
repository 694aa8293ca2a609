"""The prediction loop: order, early answers, and nothing that depends on how sequences are gathered."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import models
import pytest

from bertcli.engine import predict as module
from bertcli.engine.device import choose
from bertcli.engine.predict import gathered, predict
from bertcli.tasks.classification import Classification
from bertcli.tasks.task import build

LABELS = ("a", "b", "c")
TASK = Classification(models.wordpiece(), 64, LABELS)
NETWORK = build(TASK, models.config(initializer_range=0.3, labels=LABELS))


def records(count: int) -> list[dict[str, Any]]:
    rng = random.Random(6)
    return [{"id": number, "text": models.text(rng, rng.randint(0, 50))} for number in range(count)]


def encoded(items: list[dict[str, Any]], pulled: list[int] | None = None) -> Iterator[tuple[Any, Any]]:
    for item in items:
        if pulled is not None:
            pulled.append(item["id"])
        yield item, TASK.encode(item)


def test_order_is_kept_and_max_tokens_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    items = records(600)
    whole = list(predict(NETWORK, TASK, encoded(items), choose("cpu", max_tokens=10_000)))
    assert [{name: answer[name] for name in item} for item, answer in zip(items, whole, strict=True)] == items
    monkeypatch.setattr(module, "WINDOW", 9)
    for max_tokens in (1, 300):
        part = list(predict(NETWORK, TASK, encoded(items), choose("cpu", max_tokens=max_tokens)))
        for one, other in zip(whole, part, strict=True):
            assert one["id"] == other["id"]
            assert one["details"]["probabilities"] == pytest.approx(other["details"]["probabilities"], abs=1e-5)


def test_what_has_come_is_answered_before_more_is_waited_for() -> None:
    pulled: list[int] = []
    device = choose("cpu", max_tokens=1_000_000)
    answers = predict(NETWORK, TASK, encoded(records(200), pulled), device, waits=lambda: len(pulled) in (3, 50))
    assert next(answers)["id"] == 0
    assert pulled == [0, 1, 2]
    assert [next(answers)["id"] for _ in range(3)] == [1, 2, 3]
    assert len(pulled) == 50
    assert [answer["id"] for answer in answers] == list(range(4, 200))


def test_nothing_in_is_nothing_out() -> None:
    assert list(predict(NETWORK, TASK, encoded([]), choose("cpu"))) == []


def test_windows_are_shorter_where_the_producer_is_slow() -> None:
    lengths = [len(window) for window in gathered(range(400), 128, lambda: False)]
    assert lengths == [2, 4, 8, 16, 32, 64, 128, 128, 18]
    waits = iter([False, True, True])
    assert list(gathered("abcdefg", 256, lambda: next(waits, False))) == [["a", "b"], ["c"], [*"defg"]]
    assert [len(window) for window in gathered([5, 1, 1, 1], 128, lambda: False, lambda item: item)] == [1, 3]

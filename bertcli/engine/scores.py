"""Scores on a dev set, by which one model is better than another."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from bertcli.engine.device import Device
from bertcli.engine.predict import predict
from bertcli.errors import BadData, UsageError
from bertcli.model.heads import Network
from bertcli.records import Record
from bertcli.tasks.task import Example, Task


@dataclass(frozen=True, order=True)
class Scored:
    """A dev score: whether the answers are more than one, the metric that counts, and all of them with their step."""

    is_sound: bool = False
    rank: float = -math.inf  # the value, or of an error its negative
    value: float = field(default=math.nan, compare=False)
    step: int = field(default=0, compare=False)
    scores: dict[str, Any] = field(default_factory=dict, compare=False)


def answers(network: Network, task: Task, encoded: list[tuple[Record, list[Example]]], device: Device) -> list[Record]:
    """Returns records that hold the truth with their answers, to which the task is fitted."""
    training = network.training
    try:
        return task.calibrate(list(predict([network], task, encoded, device)))
    finally:
        network.train(training)


def settled(task: Task, dev: list[tuple[Record, list[Example]]], asked: str | None) -> str:
    """Returns the name of the dev score by which one model is better than another: the one asked for or the task's own.

    Raises `UsageError` where the one asked for is not what the records, answered right, have; `BadData` where they have
    none.
    """
    scores = task.score([{**record, "prediction": task.gold(record)} for record, _ in dev])
    known = [name for name, value in scores.items() if isinstance(value, float)]
    if asked is not None and asked not in known:
        raise UsageError(f"--metric {asked}: the dev scores are {', '.join(known)}")
    name = asked or next((name for name in task.criteria if name in known), None)
    if name is None:
        raise BadData("the dev records have nothing to score")
    return name


def is_constant(task: Task, answered: list[Record]) -> bool:
    """Returns whether records have one and the same answer although the right ones differ: training has failed."""
    found = {part for record in answered for part in task.parts(record["prediction"])}
    right = {part for record in answered for part in task.parts(task.gold(record))}
    return len(found) <= 1 < len(right)

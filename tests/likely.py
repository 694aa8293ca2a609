"""What tests of likelihoods share: texts, the program's answers, and what these must hold."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import models
import pytest

WORDPIECE = models.wordpiece()
LONGEST = 64  # tokens of a window
UNSCORED = {WORDPIECE.mask, WORDPIECE.cls, WORDPIECE.sep}


def answers(path: Path, records: list[dict[str, Any]], max_tokens: int = 4096) -> list[dict[str, Any]]:
    return models.answers(path, records, max_tokens, max_length=LONGEST, pseudo_likelihood=True)


def text_of(words: int, seed: int) -> str:
    return models.text(random.Random(seed), words)


def ids_of(text: str) -> list[int]:
    return WORDPIECE.encode(text, mask_is_special=True).ids


def assert_chances(answer: dict[str, Any], expected: list[tuple[int, float]]) -> None:
    """Assert that an answer tells these tokens and their log p."""
    details = answer["details"]
    assert details["tokens"] == [models.PIECES[number] for number, _ in expected]
    assert details["log_likelihoods"] == pytest.approx([log for _, log in expected], abs=1e-5)
    assert answer["prediction"] == details["log_likelihood"] == math.fsum(details["log_likelihoods"])

"""From BLiMP's file to a score in three commands."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from program import Result

PIPE = "bertcli predict -m model --pseudo-likelihood --quiet | bertcli score pairs"
PARADIGMS = {"number": "agreement", "gender": "agreement", "order": "islands"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.theirs("BertForMaskedLM"), tmp_path_factory.mktemp("home") / "model")


def rows(count: int) -> list[dict[str, Any]]:
    """Returns rows as BLiMP has them, of words that the small models know."""
    rng = random.Random(0)
    return [
        {
            "sentence_good": " ".join(rng.choices(models.WORDS, k=rng.randint(2, 6))),
            "sentence_bad": " ".join(rng.choices(models.WORDS, k=rng.randint(2, 6))),
            "linguistics_term": PARADIGMS[paradigm],
            "UID": paradigm,
            "pairID": str(number),
        }
        for paradigm in PARADIGMS
        for number in range(count)
    ]


@torch.no_grad()
def likelihood(theirs: Any, text: str) -> float:
    """Returns the sum of log p of each token, hidden alone, in one batch of a model of transformers."""
    (ids,) = models.tokenizer()(text, return_tensors="pt")["input_ids"]
    places = torch.arange(1, len(ids) - 1)
    hidden = ids.repeat(len(places), 1)
    hidden[torch.arange(len(places)), places] = models.wordpiece().mask
    logs = theirs(input_ids=hidden).logits.log_softmax(-1)
    return float(logs[torch.arange(len(places)), places, ids[places]].sum())


def accuracy(rights: list[bool]) -> dict[str, Any]:
    return {"accuracy": sum(rights) / len(rights), "total": len(rights)}


def test_the_score_is_that_of_a_loop_over_transformers(
    shell: Callable[..., Result], tmp_path: Path, model: Path
) -> None:
    (tmp_path / "model").symlink_to(model)
    given = rows(8)
    (tmp_path / "rows.jsonl").write_bytes(models.lines(given))
    theirs = models.transformers.BertForMaskedLM.from_pretrained(model).eval()
    rights = [likelihood(theirs, row["sentence_good"]) > likelihood(theirs, row["sentence_bad"]) for row in given]
    assert {True, False} == set(rights)

    def of(field: str) -> dict[str, Any]:
        names = sorted({row[field] for row in given})
        return {
            name: accuracy([is_right for row, is_right in zip(given, rights, strict=True) if row[field] == name])
            for name in names
        }

    result = shell(f"bertcli read blimp rows.jsonl | {PIPE}")
    assert (result.status, result.err) == (0, "")
    assert json.loads(result.out) == {**accuracy(rights), "phenomena": of("linguistics_term"), "paradigms": of("UID")}


def test_real_pairs_in_any_order(shell: Callable[..., Result], tmp_path: Path, model: Path, shared: Path) -> None:
    file = shared / "blimp" / "blimp.jsonl.zst"
    if not file.exists():
        pytest.skip(f"no real pairs: {file} is not there")
    (tmp_path / "model").symlink_to(model)
    some = f"set +o pipefail; bertcli read blimp {file} --plain | sed -n '995,1006p;1006q' | tac"
    result = shell(f"{some} | {PIPE}")
    assert (result.status, result.err) == (0, "")
    score = json.loads(result.out)
    assert (score["total"], [group["total"] for group in score["paradigms"].values()]) == (12, [6, 6])

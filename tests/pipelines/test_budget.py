"""From text to a trained model in one command, and the same seconds for a loop over transformers' model."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from paper import budget, transformers_loop
from program import ROOT, Result
from transformers import BertTokenizer, DataCollatorForLanguageModeling
from warm import Program

from bertcli.demo import CORPUS

FILES = {"TEXT": "one.txt two.txt", "HELDOUT": "heldout.txt", "BLIMP": "blimp.jsonl", "WORK": "work", "EVERY": "3"}
TIMES = {"SECONDS_OF_TRAINING": "1", "CALIBRATION": "20", "WORKERS": "1"}
SIZES = {"PRESET": "1x64", "BATCH_PRETRAIN": "8", "LENGTHS": "32", "VOCAB_OPTIONS": "--size 1000"}
SETTINGS = {**FILES, **TIMES, **SIZES, "LR_PRETRAIN": "1e-2", "WARMUP": "0.01"}
REFUSED = [
    ({"TEXT": "two.txt"}, "vocab.txt is of other parameters"),
    ({"LENGTHS": "8 9"}, "LENGTHS=8 9: expected one"),
    ({"EVERY": "few"}, "EVERY=few: expected a whole number"),
    ({"SECONDS_OF_TRAINING": "4 min"}, "SECONDS_OF_TRAINING=4 min: expected a number"),
    ({"CALIBRATION": "1"}, "CALIBRATION=1: expected 2 steps or more"),
]
PATIENCE = 4.0  # seconds that one of training may become where another process takes the core


def write(folder: Path) -> None:
    """Write two texts, one that is held out, and minimal pairs."""
    chapters = CORPUS.read_text().strip().split("\n\n")
    for name, own in (("one", chapters[:2]), ("two", chapters[2:4]), ("heldout", chapters[4:6])):
        (folder / f"{name}.txt").write_text("\n\n".join(chapter[:8000] for chapter in own) + "\n")
    pair = {"sentence_good": "they were here", "sentence_bad": "they was here", "linguistics_term": "agreement"}
    pairs = [{**pair, "UID": "number", "pairID": f"{number}"} for number in range(7)]
    (folder / "blimp.jsonl").write_bytes(models.lines(pairs))


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_both_engines_get_the_same_seconds_and_data(program: Program, tmp_path: Path) -> None:
    def budget_of(**settings: str) -> Result:
        return program.script([f"{ROOT}/tests/paper/budget.sh"], tmp_path, **{**SETTINGS, **settings})

    write(tmp_path)
    made = {}
    for engine in ("bertcli", "transformers"):
        result = budget_of(ENGINE=engine)
        assert result.status == 0, result.err
        (told,) = result.records
        assert told["model"] == f"{engine}-0"
        assert 1 / PATIENCE < told["seconds"] < PATIENCE
        assert told["steps"] == rows_of(tmp_path / "work" / told["model"])[-1]["step"]
        assert told["mlm_loss"] < math.log(1000) - 0.1, "it has learned nothing"
        assert 0.3 < told["nsp_accuracy"] <= 1
        assert told["minimal_pairs"] == 2
        made[engine] = (tmp_path / "work" / "pairs" / "32").stat().st_mtime_ns
    assert made["bertcli"] == made["transformers"], "pairs are made once"
    for changed, told in REFUSED:
        result = budget_of(**changed)
        assert result.status == 2
        assert told in result.err
    *_, last = rows_of(tmp_path / "work" / "bertcli-0")
    assert last["lr"] == pytest.approx(1e-2 / (last["step"] - int(0.01 * last["step"]))), "the rate falls to 0"


def test_so_many_steps_fit_as_the_second_half_of_a_log_had_speed_for(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(models.lines([{"step": step, "seconds": 100 + step / 4} for step in range(1, 21)]))
    assert budget.steps(str(log), "60") == 1 + 240


def test_the_loop_hides_what_transformers_collator_hides(tmp_path: Path) -> None:
    ids = {piece: number for number, piece in enumerate(models.PIECES)}
    torch.manual_seed(0)
    given = torch.randint(len(ids), (400, 100))
    read, labels = transformers_loop.Masks(ids, torch.device("cpu"))(given)
    chosen = labels != -100
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{piece}\n" for piece in models.PIECES))
    collator = DataCollatorForLanguageModeling(BertTokenizer(str(vocab)), mlm_probability=1.0)
    hides = set(collator.torch_mask_tokens(torch.arange(len(ids))[None].clone())[1].flatten().tolist())
    special = ~torch.isin(given, torch.tensor(sorted(hides)))
    assert special.any()
    assert not (chosen & special).any()
    assert (labels[chosen] == given[chosen]).all()
    assert (read[~chosen] == given[~chosen]).all()
    assert chosen.sum() / (~special).sum() == pytest.approx(0.15, abs=0.01)
    masked, same = (float((read[chosen] == other).float().mean()) for other in (ids["[MASK]"], given[chosen]))
    assert (masked, same) == pytest.approx((0.8 + 0.1 / len(ids), 0.1 + 0.2 / len(ids)), abs=0.02)


def test_the_loop_needs_a_batch_of_pairs() -> None:
    pairs = {name: torch.ones(3, 8, dtype=torch.int32) for name in ("ids", "length", "segment_b", "random")}
    ids = {piece: number for number, piece in enumerate(models.PIECES)}
    masks = transformers_loop.Masks(ids, torch.device("cpu"))
    with pytest.raises(SystemExit, match="3 pairs are no batch of 4"):
        next(transformers_loop.batches(pairs, 4, masks, torch.device("cpu")))

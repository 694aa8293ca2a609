"""Two lengths under one schedule, and what is known of an input on `--resume`; scores on the way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
from program import Result

from bertcli.engine.optim import Schedule

SMALL = ["--num-layers", 1, "--hidden-size", 16, "--num-heads", 2, "--device", "cpu", "--plain"]
PRETRAIN = ["pretrain", *SMALL, "--batch-size", 8, "--lr", 1e-3, "--steps", 12, "--warmup", 4]
SAME, OTHER = (
    "the input is the same: it goes on at its place",
    "the input is another one: it begins at its first record",
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
    for name, longest, seed in (("short", 6, 0), ("long", 24, 1), ("dev", 6, 2)):
        (tmp_path / f"{name}.jsonl").write_bytes(models.lines(models.pairs(40, seed=seed, longest=longest)))


def rows(path: Path, name: str = "log.jsonl") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (path / name).read_text().splitlines()]
    return [{key: value for key, value in row.items() if key != "seconds"} for row in found]


def done(result: Result) -> Result:
    assert result.status == 0, result.err
    return result


def test_long_sequences_after_short_ones_under_one_schedule(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    """Section A.2: 90% of the steps at length 128, the rest at 512, to learn the positions."""
    short = [*PRETRAIN, "-o", "model", "--max-length", 16]
    done(bertcli(*short, "short.jsonl", "--stop-at", 9))
    refused = bertcli(*short, "--resume", "long.jsonl")
    assert (refused.status, "more than --max-length 16" in refused.err) == (65, True)
    result = done(bertcli(*short, "--max-length", 64, "--max-tokens", 128, "--resume", "long.jsonl"))
    assert OTHER in result.err
    assert SAME not in result.err
    log, schedule = rows(tmp_path / "model"), Schedule(1e-3, 12, 4)
    assert [row["step"] for row in log] == list(range(1, 13))
    assert [row["lr"] for row in log] == [schedule(step) for step in range(1, 13)]
    assert max(row["tokens"] for row in log[:9]) < 8 * 16 < min(row["tokens"] for row in log[9:])
    first = done(bertcli(*PRETRAIN, "-o", "first", "--max-length", 64, "long.jsonl", "--stop-at", 3))
    assert first.status == 0
    tokens = [row["tokens"] for row in rows(tmp_path / "first")]
    assert [row["tokens"] for row in log[9:]] == tokens  # the new input from its first record on
    config = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert config["model_max_length"] == 64


@pytest.mark.parametrize("stdin", [True, False])
def test_an_input_is_known_again_wherever_it_began(
    bertcli: Callable[..., Result], tmp_path: Path, *, stdin: bool
) -> None:
    """A run of two inputs, stopped in both of them, is the one that was stopped between them alone."""

    def go(out: str, name: str, *options: Any) -> Result:
        data = (tmp_path / f"{name}.jsonl").read_bytes()
        given = {"stdin": data} if stdin else {}
        files = [] if stdin else [f"{name}.jsonl"]
        return done(bertcli(*PRETRAIN, "--max-length", 64, "-o", out, *files, *options, **given))

    go("two", "short", "--stop-at", 7)
    assert OTHER in go("two", "long", "--resume").err
    go("more", "short", "--stop-at", 3)
    assert SAME in go("more", "short", "--resume", "--stop-at", 7).err
    assert OTHER in go("more", "long", "--resume", "--stop-at", 10).err
    assert SAME in go("more", "long", "--resume").err
    assert rows(tmp_path / "more") == rows(tmp_path / "two")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("more", "two")]
    assert weights[0] == weights[1]


CHANGES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "one less": lambda pairs: pairs.pop(),
    "one more": lambda pairs: pairs.append(dict(pairs[0])),
    "another order": lambda pairs: random.Random(0).shuffle(pairs),
    "another word": lambda pairs: pairs[20]["tokens"].__setitem__(1, "[UNK]"),
    "another truth": lambda pairs: pairs[20].__setitem__("is_next", not pairs[20]["is_next"]),
    "another border": lambda pairs: pairs[20].__setitem__("segment_b", pairs[20]["segment_b"] - 1),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_input_is_another(bertcli: Callable[..., Result], tmp_path: Path, change: str) -> None:
    line = [*PRETRAIN, "-o", "model", "--max-length", 64]
    done(bertcli(*line, "long.jsonl", "--stop-at", 3))
    pairs = models.pairs(40, seed=1, longest=24)
    CHANGES[change](pairs)
    told = (
        OTHER if change != "one more" else "the input is another, which goes on after record 40: it begins at its first"
    )
    assert told in done(bertcli(*line, "--resume", "--stop-at", 4, stdin=models.lines(pairs))).err


# -- scores on the way ----------------------------------------------------------------------------------------------


def test_dev_scores_are_rows_too(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    line = [*PRETRAIN, "short.jsonl", "--max-length", 32, "--dev", "dev.jsonl"]
    result = done(bertcli(*line, "-o", "model", "--save-every", 5))
    scores = rows(tmp_path / "model", "scores.jsonl")
    assert [row["step"] for row in scores] == [5, 10, 12]
    assert {"step", "mlm_loss", "perplexity", "mlm_accuracy", "nsp_accuracy"} <= set(scores[0])
    assert scores[-1] == {"step": 12, **result.records[0]["dev"]}
    done(bertcli(*line, "-o", "often", "--eval-every", 4, "--save-every", 5))
    often = rows(tmp_path / "often", "scores.jsonl")
    assert [row["step"] for row in often] == [4, 8, 12]
    assert often[-1] == scores[-1]  # looking on changes nothing
    refused = bertcli(*PRETRAIN, "short.jsonl", "-o", "none", "--eval-every", 4)
    assert (refused.status, "--eval-every needs --dev" in refused.err) == (2, True)


def test_a_resumed_run_has_each_score_once(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    line = [*PRETRAIN, "short.jsonl", "--max-length", 32, "--dev", "dev.jsonl", "--eval-every", 2]
    done(bertcli(*line, "-o", "whole"))
    done(bertcli(*line, "-o", "model", "--stop-at", 5))
    with (tmp_path / "model" / "scores.jsonl").open("a") as file:
        file.write('{"step":6,"mlm_loss":9.0}\n{"step":8,"mlm')  # of a run that went further, and was lost
    done(bertcli(*line, "-o", "model", "--resume"))
    scores = rows(tmp_path / "model", "scores.jsonl")
    assert [row["step"] for row in scores] == [2, 4, 5, 6, 8, 10, 12]
    assert [row for row in scores if row["step"] != 5] == rows(tmp_path / "whole", "scores.jsonl")


def test_a_model_is_kept_at_each_step_asked_for_however_the_run_is_stopped(
    bertcli: Callable[..., Result], tmp_path: Path
) -> None:
    """At a stop, after it, before a resume and beyond all of them."""
    line = [*PRETRAIN, "short.jsonl", "--max-length", 32, "--save-at", "7,3,5,12,99"]
    done(bertcli(*line, "-o", "whole"))
    done(bertcli(*line, "-o", "model", "--stop-at", 3))
    assert sorted(path.name for path in (tmp_path / "model" / "steps").iterdir()) == ["3"]
    done(bertcli(*line, "-o", "model", "--stop-at", 6, "--resume"))
    done(bertcli(*line, "-o", "model", "--stop-at", 6, "--resume"))
    done(bertcli(*line, "-o", "model", "--resume"))
    for name in ("whole", "model"):
        homes = (tmp_path / name / "steps").iterdir()
        assert sorted(int(path.name) for path in homes) == [3, 5, 7, 12]
    for step in (3, 5, 7, 12):
        one, other = (tmp_path / name / "steps" / f"{step}" / "model.safetensors" for name in ("whole", "model"))
        assert one.read_bytes() == other.read_bytes()
        assert json.loads((one.parent / "bertcli.json").read_text())["step"] == step
    assert (tmp_path / "model" / "steps" / "12" / "model.safetensors").read_bytes() == (
        tmp_path / "model" / "model.safetensors"
    ).read_bytes()

"""Whole runs from the command line: sizes, starts, signals, and what is refused."""

from __future__ import annotations

import fcntl
import json
import math
import os
import signal
import termios
import time
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import toys
import warm
from program import Result

from bertcli.folder import read_notes
from bertcli.weights.folder import open_folder

SMALL = ["--num-layers", 1, "--hidden-size", 16, "--num-heads", 2, "--max-length", 32, "--device", "cpu"]
PRETRAIN = ["pretrain", "-o", "model", "--plain", "--batch-size", 8, "--lr", 1e-3, *SMALL]
PAIRS = models.lines(models.pairs(60))


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "pairs.jsonl").write_bytes(PAIRS)
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))


def figures(path: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (path / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_pretraining_from_pairs_to_predictions(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_bytes(models.lines(models.pairs(40, seed=1)))
    options = ["--steps", 300, "--lr", 3e-3, "--dev", "dev.jsonl", "--hidden-size", 64]
    result = bertcli(*PRETRAIN, *options, stdin=models.lines(models.pairs(400)))
    assert result.status == 0, result.err
    (told,) = result.records
    assert told["step"] == 300
    assert [row["step"] for row in figures(tmp_path / "model")] == list(range(1, 301))
    masked = bertcli("mask", "dev.jsonl", "--plain")
    predicted = bertcli("predict", "-m", "model", "--plain", "--device", "cpu", stdin=masked.out)
    (scores,) = bertcli("score", "pretraining", stdin=predicted.out).records
    # The dev set's masks are the first copy's, so both ways lead to one score.
    assert {name: scores[name] for name in told["dev"]} == pytest.approx(told["dev"], rel=1e-5)
    hidden = Counter(token for record in masked.records for token in record["masked_tokens"])
    unigram = -sum(count * math.log(count / hidden.total()) for count in hidden.values()) / hidden.total()
    assert scores["mlm_loss"] < unigram
    model = models.transformers.BertForPreTraining.from_pretrained(tmp_path / "model")
    assert model.config.hidden_size == 64
    notes = json.loads((tmp_path / "model" / "bertcli.json").read_text())
    assert (notes["objective"], notes["rate"], notes["step"]) == ("mlm+nsp", 0.15, 300)


def test_sizes_mean_what_they_say_in_any_order(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        sizes = [["--num-layers", 3], ["--hidden-size", 24], ["--num-heads", 2]]
        line = [word for place in order for word in sizes[place]]
        out = tmp_path / f"model{order}"
        result = bertcli(
            "pretrain", "pairs.jsonl", "-o", out, *line, "--steps", 1, "--batch-size", 4, "--device", "cpu"
        )
        assert result.status == 0, result.err
        config = open_folder(out).config
        sizes_made = (config.num_hidden_layers, config.hidden_size, config.num_attention_heads)
        assert (*sizes_made, config.intermediate_size, config.max_position_embeddings) == (3, 24, 2, 96, 512)


def test_a_start_gives_size_vocabulary_and_weights(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    start = models.save(models.theirs("BertModel"), tmp_path / "start")
    line = [
        "pretrain",
        "pairs.jsonl",
        "-o",
        "model",
        "--start",
        start,
        "--max-length",
        32,
        "--steps",
        2,
        "--batch-size",
        4,
    ]
    result = bertcli(*line, "--lr", 1e-9, "--device", "cpu")
    assert result.status == 0, result.err
    assert "fresh: heads.mlm, heads.mlm.dense, heads.mlm.norm, heads.nsp" in result.err
    before, after = (models.transformers.BertModel.from_pretrained(path) for path in (start, tmp_path / "model"))
    for name, tensor in before.state_dict().items():
        models.torch.testing.assert_close(after.state_dict()[name], tensor, atol=1e-6, rtol=0)
    assert (tmp_path / "model" / "vocab.txt").read_text().split("\n")[:-1] == models.PIECES
    (tmp_path / "other.txt").write_text("".join(f"{piece}\n" for piece in [*models.PIECES, "more"]))
    other = bertcli(*line, "-o", "other", "-v", "other.txt")
    assert (other.status, "its vocabulary is not the one given by -v" in other.err) == (2, True)
    onto = bertcli(*line, "-o", start, "--force")
    assert (onto.status, "must be another folder than the model to start from" in onto.err) == (2, True)
    assert open_folder(start).architecture == "BertModel"


def test_one_seed_is_one_model(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    files = []
    for out, others in (("a", []), ("b", ["--quiet"]), ("c", ["--seed", 1])):
        assert bertcli(*PRETRAIN, "pairs.jsonl", "-o", out, "--steps", 9, *others).status == 0
        files.append((tmp_path / out / "model.safetensors").read_bytes())
    assert files[0] == files[1]
    assert files[0] != files[2]


@pytest.mark.parametrize("task", toys.TASKS)
def test_one_seed_is_one_model_of_each_task(bertcli: Callable[..., Result], tmp_path: Path, task: str) -> None:
    """Scoring a dev set on the way changes nothing."""
    start = toys.start(tmp_path / "start")
    (tmp_path / "train.jsonl").write_bytes(models.lines(toys.records(task, 48)))
    (tmp_path / "dev.jsonl").write_bytes(models.lines(toys.records(task, 12, seed=1)))
    line = ["finetune", task, "train.jsonl", "-m", start, "--device", "cpu", "--lr", 1e-3, "--batch-size", 8]
    made = {}
    for out, others in {"a": [], "b": ["--quiet"], "c": ["--dev", "dev.jsonl"], "d": ["--seed", 1]}.items():
        result = bertcli(*line, "-o", out, "--epochs", 1.5, *others)
        assert result.status == 0, result.err
        made[out] = (figures(tmp_path / out), (tmp_path / out / "model.safetensors").read_bytes())
    assert len(made["a"][0]) == 9
    assert made["a"] == made["b"] == made["c"]
    assert made["d"][1] != made["a"][1]


def test_a_model_is_not_overwritten_and_a_finished_one_not_resumed(
    bertcli: Callable[..., Result], tmp_path: Path
) -> None:
    line = [*PRETRAIN, "pairs.jsonl", "--steps", 3]
    assert bertcli(*line).status == 0
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    refused = bertcli(*line, "--seed", 1)
    assert (refused.status, "holds a model already" in refused.err) == (73, True)
    finished = bertcli(*line, "--resume", stdin=b"")
    assert (finished.status, "finished already" in finished.err) == (0, True)
    assert finished.records == [{"model": "model", "step": 3}]
    assert bertcli(*line, "--warmup", 0, "--resume", stdin=b"").status == 2  # none at all is another setting too
    longer = bertcli(*line, "--steps", 4, "--resume", stdin=b"")
    assert (longer.status, "steps was 3" in longer.err) == (2, True)
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == weights
    assert bertcli(*line, "--seed", 1, "--force").status == 0
    assert (tmp_path / "model" / "model.safetensors").read_bytes() != weights


def test_other_objectives_sizes_and_masks_are_refused_on_resume(bertcli: Callable[..., Result]) -> None:
    line = [*PRETRAIN, "pairs.jsonl", "--steps", 6]
    assert bertcli(*line, "--stop-at", 2).status == 0
    changes = {
        "objective": ["--objective", "mlm"],
        "rate": ["--rate", 0.3],
        "whole_word": ["--whole-word"],
        "bernoulli": ["--bernoulli"],
        "ngram": ["--ngram", 3],
        "max_masks": ["--max-masks", 20],
        "num_hidden_layers": ["--num-layers", 2],
        "lr": ["--lr", 2e-3],
    }
    for name, change in changes.items():
        result = bertcli(*line, "--resume", *change)
        assert (result.status, f"{name} was " in result.err) == (2, True), result.err
    assert bertcli(*line, "--resume").status == 0


def test_a_bad_pair_leaves_no_model(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    result = bertcli(*PRETRAIN, "--steps", 3, stdin=PAIRS + b'{"tokens":["zebra"],"is_next":true}\n')
    assert (result.status, result.out) == (65, b"")
    assert "<stdin>:61: field 'tokens': found 'zebra', expected a piece of the vocabulary" in result.err
    skipped = bertcli(*PRETRAIN, "--steps", 3, "--on-error", "skip", stdin=PAIRS + b'{"tokens":["zebra"]}\n')
    assert (skipped.status, "bad lines skipped: 1" in skipped.err) == (0, True)
    (tmp_path / "dev.jsonl").write_bytes(b'{"text": "a"}\n')
    dev = bertcli(*PRETRAIN, "pairs.jsonl", "-o", "other", "--dev", "dev.jsonl")
    assert (dev.status, "dev.jsonl:1: field 'tokens': found nothing" in dev.err) == (65, True)


# -- signals --------------------------------------------------------------------------------------------------------


class Started:
    """`bertcli pretrain` at work on a pipe that is held open, so that it waits for more where `count` is all."""

    def __init__(self, program: warm.Program, folder: Path, line: list[object], stdin: bytes) -> None:
        inlet, self.outlet = os.pipe()
        self.err = open(folder / "stderr", "wb")  # noqa: SIM115  # closed in `end`
        with open(os.devnull, "wb") as out, open(inlet, "rb") as source:
            self.process = program.start([str(word) for word in line], folder, [source, out, self.err])
        self.folder = folder
        with open(os.dup(self.outlet), "wb") as pipe:
            pipe.write(stdin)

    def wait_for(self, file: str, begins: bytes) -> None:
        path, ends = self.folder / file, time.monotonic() + warm.PATIENCE
        while not (path.exists() and begins in path.read_bytes()):
            assert time.monotonic() < ends
            assert self.process.is_alive(), (self.folder / "stderr").read_text()
            time.sleep(0.02)

    def wait_until_read(self) -> None:
        ends = time.monotonic() + warm.PATIENCE
        while array("i", fcntl.ioctl(self.outlet, termios.FIONREAD, bytes(4)))[0]:
            assert time.monotonic() < ends
            time.sleep(0.02)

    def end(self, number: int) -> tuple[int, str]:
        self.process.send_signal(number)
        status = self.process.wait()
        self.err.close()
        return status, (self.folder / "stderr").read_text()

    def hang_up(self) -> None:
        os.close(self.outlet)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 75), (signal.SIGUSR1, 75), (signal.SIGINT, -signal.SIGINT)],
)
def test_a_signal_saves_and_resume_finishes(
    bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path, number: int, status: int
) -> None:
    line = [*PRETRAIN, "--steps", 1200]
    one = Started(program, tmp_path, line, PAIRS)
    one.hang_up()
    one.wait_for("model/log.jsonl", b'"step":10,')
    ended, err = one.end(number)
    assert ended == status
    (home,) = (tmp_path / "model" / "checkpoint").iterdir()
    step = int(home.name)
    assert 10 <= step < 1200
    told = f"bertcli pretrain: stopped by {signal.Signals(number).name} after step {step}; --resume goes on from there"
    assert err.splitlines()[-1] == told
    assert len(figures(tmp_path / "model")) == step
    assert not (tmp_path / "model" / "config.json").exists()
    resumed = bertcli(*line, "--resume", "--stop-at", step + 20, stdin=PAIRS)
    assert (resumed.status, f"resuming after step {step}" in resumed.err) == (0, True)
    made = read_notes(tmp_path / "model")
    assert [len(made["history"]), "--resume" in made["history"][0], "--resume" in made["command"]] == [1, False, True]
    whole = bertcli(*line, "-o", "whole", "--stop-at", step + 20, stdin=PAIRS)
    assert whole.status == 0
    assert figures(tmp_path / "model") == figures(tmp_path / "whole")
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_a_signal_is_heard_while_the_producer_is_waited_for(
    bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path
) -> None:
    one = Started(program, tmp_path, [*PRETRAIN, "--steps", 20], PAIRS)
    one.wait_until_read()  # and the pipe stays open
    status, err = one.end(signal.SIGTERM)
    one.hang_up()
    assert status == 75
    assert err.splitlines()[-1] == "bertcli pretrain: stopped by SIGTERM before the first step"
    assert bertcli(*PRETRAIN, "--steps", 20, "--resume", stdin=PAIRS).status == 0

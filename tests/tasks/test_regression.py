"""Numbers: the loss and the answers of transformers with the same folder, and the mean over windows."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
import warm
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.tasks.regression import Regression
from bertcli.tasks.task import build

WORDPIECE = models.wordpiece()
KIND = "BertForSequenceClassification"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return models.save(models.theirs(KIND, num_labels=1), tmp_path / "model")


def rated(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Returns short texts, every second with another one, and numbers."""
    rng, records = random.Random(seed), []
    for number in range(count):
        first, second = (models.text(rng, rng.randint(1, 4)).replace("[MASK]", "mask") for _ in range(2))
        pair = {"text_pair": second} if number % 2 else {}
        records.append({"text": first, **pair, "label": rng.choice([rng.randint(0, 5), rng.uniform(-2, 9)])})
    return records


@torch.no_grad()
def theirs(path: Path, records: list[dict[str, Any]]) -> tuple[list[float], float]:
    """Returns the numbers that transformers gives, each alone, and its loss."""
    model = models.transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    found, errors = [], []
    for record in records:
        inputs = tokenizer(record["text"], record.get("text_pair"), truncation=True, return_tensors="pt")
        output = model(**inputs, labels=torch.tensor([float(record.get("label", 0))]))
        found.append(float(output.logits))
        errors.append(float(output.loss))
    return found, float(np.mean(errors))


# -- what is learned ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [None, "3", True, math.inf, math.nan, [1.0]])
def test_what_is_no_number_is_named(label: Any) -> None:
    with pytest.raises(BadData, match=r"^field 'label': found .*, expected a number"):
        Regression(WORDPIECE, 64).learn({"text": "a", "label": label})


def test_a_bad_text_is_named() -> None:
    with pytest.raises(BadData, match=r"^field 'text_pair': found 1, expected a string"):
        Regression(WORDPIECE, 64).encode({"text": "a", "text_pair": 1})


def test_one_number_is_nothing_to_learn() -> None:
    with pytest.raises(BadData, match=r"every record has the label 2\.5"):
        models.learned(Regression(WORDPIECE, 64), [{"text": "a", "label": 2.5}] * 4)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=20).filter(lambda each: np.std(each) > 1e-3))
def test_a_fresh_head_begins_at_the_mean_with_the_deviation(numbers: list[float]) -> None:
    task = Regression(WORDPIECE, 64)
    models.learned(task, [{"text": "a", "label": number} for number in numbers])
    network = build(task, models.config(layers=1))
    head = network.heads["classifier"].output
    before = head.weight.detach().clone()
    task.adapt(network, None)
    assert float(head.bias.detach()) == pytest.approx(np.mean(numbers), abs=1e-2, rel=1e-4)
    torch.testing.assert_close(head.weight.detach(), before * float(np.std(numbers)), rtol=1e-3, atol=1e-6)
    task.adapt(network, ("LABEL_0",))  # a head that was kept
    torch.testing.assert_close(head.weight.detach(), before * float(np.std(numbers)), rtol=1e-3, atol=1e-6)


def test_the_loss_is_that_of_transformers(folder: Path) -> None:
    records = rated(30)
    _, network = models.opened(folder)
    task = Regression(WORDPIECE, 64)
    examples = models.learned(task, records)
    assert models.loss(task, network, examples) == pytest.approx(theirs(folder, records)[1], rel=1e-5)


# -- in use ---------------------------------------------------------------------------------------------------------


def test_answers_are_those_of_transformers(folder: Path) -> None:
    records = [*rated(30), {"text": ""}]
    answered = models.answers(folder, records)
    assert [answer["prediction"] for answer in answered] == pytest.approx(theirs(folder, records)[0], abs=1e-5)
    assert all(answer["details"] == {} for answer in answered)
    assert [record | answer for answer, record in zip(answered, records, strict=True)] == answered


@torch.no_grad()
def test_a_long_text_has_the_mean_of_its_windows(folder: Path) -> None:
    model = models.transformers.BertForSequenceClassification.from_pretrained(folder).eval()
    rng = random.Random(2)
    records = [{"text": " ".join(rng.choices(models.WORDS, k=rng.randint(63, 300))), "label": n} for n in range(6)]
    task, network = models.opened(folder)
    expected = []
    for record in records:
        windows = models.halves(WORDPIECE.text_ids(record["text"]), 62)
        assert len(windows) > 1
        expected.append(float(np.mean([float(model(**models.framed(window)).logits) for window in windows])))
    answered = [answer["prediction"] for answer in models.answers(folder, records)]
    assert answered == pytest.approx(expected, abs=1e-5)
    # So it is in training too.
    squares = np.mean([(number - record["label"]) ** 2 for number, record in zip(answered, records, strict=True)])
    assert models.loss(task, network, models.learned(Regression(WORDPIECE, 64), records)) == pytest.approx(squares)


# -- the command ----------------------------------------------------------------------------------------------------


def counted(count: int, seed: int, longest: int = 8) -> list[dict[str, Any]]:
    """Returns texts of two words, whose number is the share of the one among them."""
    rng, records = random.Random(seed), []
    for number in range(count):
        words = [rng.choice(["good", "bad"]) for _ in range(rng.randint(1, longest))]
        share = words.count("good") / len(words)
        records.append({"id": number, "text": " ".join(words), "label": 3 + 2 * share})
    return records


def test_a_toy_task_is_learned(bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_bytes(models.lines(counted(60, 1)))
    options = ["--lr", 3e-3, "--batch-size", 16, "--epochs", 4, "--max-length", 16, "--dev", tmp_path / "dev.jsonl"]
    model = models.finetuned(program, tmp_path, "regression", counted(300, 0), *options)
    notes = json.loads((model / "bertcli.json").read_text())
    assert notes["dev"]["spearman"] > 0.9
    config = json.loads((model / "config.json").read_text())
    assert (config["architectures"], config["problem_type"]) == ([KIND], "regression")
    records = counted(30, 2)
    expected, _ = theirs(model, records)
    unlabelled = [{"text": record["text"]} for record in records]
    long = {"text": " ".join(["good"] * 9000), "label": 5}
    predicted = bertcli("predict", "-m", model, stdin=models.lines([*unlabelled, long, {"text": ""}]))
    assert (predicted.status, predicted.err) == (0, "")
    numbers = [answer["prediction"] for answer in predicted.records]
    assert numbers[:30] == pytest.approx(expected, abs=1e-5)
    assert numbers[30] == pytest.approx(5, abs=0.3)
    assert len(numbers) == 32

    (tmp_path / "bad.jsonl").write_bytes(models.lines([*counted(3, 0), {"text": "a"}]))
    bad = bertcli("finetune", "regression", "bad.jsonl", "-m", model, "-o", "other")
    assert bad.status == 65
    assert "bad.jsonl:4: field 'label': found nothing, expected a number" in bad.err


def test_cut_is_recorded_and_honoured(bertcli: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    records = [record | {"text": record["text"] + " a" * 70} for record in rated(20)]
    line = ["finetune", "regression", "-m", folder, "--max-length", 64, "--lr", 1e-6, "--epochs", 1, "--cut"]
    assert bertcli(*line, "-o", "cut", stdin=models.lines(records)).status == 0
    assert json.loads((tmp_path / "cut" / "bertcli.json").read_text())["cut"] is True
    asked = [{"text": "a b c d " * 40}, {"text": "a", "text_pair": "b " * 70}]
    predicted = bertcli("predict", "-m", "cut", stdin=models.lines(asked))
    assert "2 of 2 records were cut to 64 tokens" in predicted.err
    expected, _ = theirs(tmp_path / "cut", asked)
    assert [answer["prediction"] for answer in predicted.records] == pytest.approx(expected, abs=1e-5)


def test_an_ensemble_is_the_mean(bertcli: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    other = models.save(models.theirs(KIND, num_labels=1, seed=1), tmp_path / "other")
    asked = models.lines(rated(9))
    one, two, both = (
        [answer["prediction"] for answer in bertcli("predict", *line, stdin=asked).records]
        for line in (["-m", folder], ["-m", other], ["-m", folder, "-m", other])
    )
    assert both == pytest.approx(np.mean([one, two], axis=0).tolist(), abs=1e-6)

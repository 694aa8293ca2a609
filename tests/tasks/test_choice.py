"""Choices: any number of them, the loss and the answers of transformers, and the highest score in any window."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import warm
from hypothesis import given, settings
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.tasks.choice import Choice
from bertcli.tasks.task import Example
from bertcli.weights.folder import open_folder

WORDPIECE = models.wordpiece()
KIND = "BertForMultipleChoice"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return models.save(models.theirs(KIND), tmp_path / "model")


def asked(count: int, seed: int = 0, choices: int | None = None) -> list[dict[str, Any]]:
    """Returns texts with some choices, of which one is as right as another."""
    rng, records = random.Random(seed), []
    for number in range(count):
        own = [" ".join(rng.choices(models.WORDS, k=rng.randint(1, 8))) for _ in range(choices or rng.randint(1, 6))]
        text = " ".join(rng.choices(models.WORDS, k=rng.randint(0, 8)))
        records.append({"id": number, "text": text, "choices": own, "label": rng.randrange(len(own))})
    return records


def theirs(path: Path, records: list[dict[str, Any]]) -> tuple[list[list[float]], list[float]]:
    """Returns the probabilities of each record's choices as transformers has them, and its loss for each record."""
    model = models.transformers.AutoModelForMultipleChoice.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    found, losses = [], []
    for record in records:
        pairs = [record["text"]] * len(record["choices"]), record["choices"]
        inputs = tokenizer(*pairs, padding=True, return_tensors="pt")
        inputs = {name: tensor[None] for name, tensor in inputs.items()}
        with torch.no_grad():
            output = model(**inputs, labels=torch.tensor([record.get("label", 0)]))
        found.append(output.logits[0].softmax(-1).tolist())
        losses.append(float(output.loss))
    return found, losses


# -- what is learned ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"choices": ["a"]}, "field 'text': found nothing, expected a string"),
        ({"text": "a"}, "field 'choices': found nothing, expected a list of strings"),
        ({"text": "a", "choices": []}, "field 'choices': found an empty list, expected one text or more"),
        ({"text": "a", "choices": ["a", 1]}, "field 'choices': found 1, expected a string at [1]"),
        ({"text": "a", "choices": ["a", "b"]}, "field 'label': found nothing, expected the index of a choice"),
        ({"text": "a", "choices": ["a", "b"], "label": 2}, "field 'label': found 2, expected the index of a choice"),
        ({"text": "a", "choices": ["a", "b"], "label": -1}, "field 'label': found -1, expected the index of a choice"),
        ({"text": "a", "choices": ["a", "b"], "label": True}, "field 'label': found true, expected"),
        ({"text": "a", "choices": ["a", "b"], "label": "0"}, "field 'label': found '0', expected"),
    ],
)
def test_a_bad_record_is_named_by_field(record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        Choice(WORDPIECE, 64).learn(record)
    assert str(caught.value).startswith(said)


@settings(deadline=None)
@given(st.integers(0, 26), st.lists(st.integers(0, 21), min_size=1, max_size=5), st.integers(8, 24))
def test_all_of_every_choice_is_read_beside_all_of_the_text(letters: int, words: list[int], max_length: int) -> None:
    text, choices = " ".join(models.LETTERS[:letters]), [" ".join(models.WORDS[:count]) for count in words]
    task = Choice(WORDPIECE, max_length)
    examples = task.encode({"text": text, "choices": choices})
    assert all(len(example["ids"]) <= max_length for example in examples)
    owners = [int(example["choice"][0]) for example in examples]
    assert owners == sorted(owners)
    for number, choice in enumerate(choices):
        for side, whole in enumerate(map(WORDPIECE.text_ids, (text, choice))):  # each piece another
            parts = [sides(example)[side] for example, owner in zip(examples, owners, strict=True) if owner == number]
            assert {piece for part in parts for piece in part} == set(whole)
            assert all(part == whole[whole.index(part[0]) :][: len(part)] for part in parts if part)
            assert len(parts[0]) == len(whole) or len(whole) > (max_length - 3) // 2  # what is short is whole
    learned = task.learn({"text": text, "choices": choices, "label": len(choices) - 1})[0]  # the same, as one example
    assert learned["ids"].tolist() == [number for example in examples for number in example["ids"].tolist()]
    assert learned["sizes"].tolist() == [len(example["ids"]) for example in examples]
    assert task.shortened == 0


def sides(example: Example) -> tuple[list[int], list[int]]:
    """Returns the two sides of a sequence, without what stands around them."""
    ids, border = example["ids"].tolist(), int(example["segment_b"][0])
    return ids[1 : border - 1], ids[border:-1]


def test_the_loss_is_that_of_transformers(folder: Path) -> None:
    records = asked(20)
    assert len({len(record["choices"]) for record in records}) > 3
    _, network = models.opened(folder)
    task = Choice(WORDPIECE, 64)
    examples = models.learned(task, records)
    losses = theirs(folder, records)[1]
    assert models.loss(task, network, examples) == pytest.approx(sum(losses) / len(losses), abs=1e-5)


# -- in use ---------------------------------------------------------------------------------------------------------


def same_as_transformers(path: Path, records: list[dict[str, Any]]) -> None:
    expected, _ = theirs(path, records)
    for record, answer, probabilities in zip(records, models.answers(path, records), expected, strict=True):
        assert answer["details"]["probabilities"] == pytest.approx(probabilities, abs=1e-5)
        assert answer["prediction"] == probabilities.index(max(probabilities))
        assert {name: answer[name] for name in record} == record


def test_answers_are_those_of_transformers(folder: Path) -> None:
    same_as_transformers(folder, [*asked(30), {"text": "", "choices": ["a", ""]}])


@torch.no_grad()
def test_a_choice_has_its_highest_score_in_any_window(folder: Path) -> None:
    model = models.transformers.BertForMultipleChoice.from_pretrained(folder).eval()
    rng = random.Random(3)
    records = [
        {"text": " ".join(rng.choices(models.WORDS, k=150)), "choices": ["the cat", "a b c", ""], "label": 1},
        {"text": "the cat", "choices": [" ".join(rng.choices(models.WORDS, k=k)) for k in (3, 200, 90)], "label": 2},
    ]
    found = models.answers(folder, records)
    for record, answer in zip(records, found, strict=True):
        best = []
        for choice in record["choices"]:
            first, second = WORDPIECE.text_ids(record["text"]), WORDPIECE.text_ids(choice)
            # The short side is whole beside every window of the long one.
            windows = [(own, second) for own in models.halves(first, 61 - len(second))] if len(first) > 9 else []
            windows = windows or [(first, own) for own in models.halves(second, 61 - len(first))]
            scores = [model(**{k: v[None] for k, v in models.framed(*own).items()}).logits for own in windows]
            best.append(max(map(float, scores)))
        expected = torch.tensor(best).softmax(-1).tolist()
        assert answer["details"]["probabilities"] == pytest.approx(expected, abs=1e-5)
    # So it is in training too.
    told = torch.tensor([answer["details"]["probabilities"][answer["label"]] for answer in found])
    _, network = models.opened(folder)
    task = Choice(WORDPIECE, 64)
    expected_loss = -told.log().mean().item()
    assert models.loss(task, network, models.learned(task, records)) == pytest.approx(expected_loss, abs=1e-5)


def test_records_that_are_cut_are_counted_once() -> None:
    task = Choice(WORDPIECE, 8, cut=True)
    for choices in (["a", "b"], ["a " * 9, "b " * 9, "c"], ["a " * 9]):
        examples = task.encode({"text": "a", "choices": choices})
        assert [int(example["choice"][0]) for example in examples] == list(range(len(choices)))
        assert max(len(example["ids"]) for example in examples) <= 8
    assert (task.shortened, str(task)) == (2, "2 cut to 8 tokens")


# -- the command ----------------------------------------------------------------------------------------------------


def coloured(count: int, seed: int, longest: int = 6) -> list[dict[str, Any]]:
    """Returns texts of which the choice that has a colour in it goes on."""
    rng, records = random.Random(seed), []
    for number in range(count):
        choices = [rng.choices(models.PLAIN, k=rng.randint(1, longest)) for _ in range(rng.randint(2, 5))]
        label = rng.randrange(len(choices))
        choices[label].insert(rng.randrange(len(choices[label]) + 1), rng.choice(models.COLOURS))
        texts = [" ".join(choice) for choice in choices]
        records.append({"id": number, "text": "the house was", "choices": texts, "label": label})
    return records


def test_a_toy_task_is_learned(bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path) -> None:
    (tmp_path / "dev.jsonl").write_bytes(models.lines(coloured(60, 1)))
    options = ["--lr", 3e-3, "--epochs", 3, "--max-length", 32, "--dev", tmp_path / "dev.jsonl"]
    model = models.finetuned(program, tmp_path, "choice", coloured(200, 0), *options)
    assert json.loads((model / "bertcli.json").read_text())["dev"]["accuracy"] > 0.95
    assert open_folder(model).architecture == KIND
    same_as_transformers(model, coloured(20, 2))

    words = random.Random(1).choices(models.PLAIN, k=5200)
    words[5000] = "red"
    far = {"text": "the house was", "choices": ["the tree", " ".join(words), "the tree of stone"]}
    bare = [{"text": text, "choices": own} for text, own in (("", ["", "red"]), ("the", ["a"]), ("a " * 99, [""]))]
    predicted = bertcli("predict", "-m", model, stdin=models.lines([far, *bare]))
    assert (predicted.status, predicted.err) == (0, "")
    assert predicted.records[0]["prediction"] == 1
    assert [len(record["details"]["probabilities"]) for record in predicted.records] == [3, 2, 1, 1]

    line = ["finetune", "choice", "-m", model, "-o", "again", *options[:-1], "dev.jsonl"]
    bad = bertcli(*line, stdin=models.lines([*coloured(4, 0), {"text": "a", "choices": ["b"]}]))
    assert bad.status == 65
    assert "<stdin>:5: field 'label': found nothing, expected the index of a choice, from 0 to 0" in bad.err
    again = bertcli(*line, "--lr", 1e-9, "--epochs", 1, stdin=models.lines(coloured(4, 0)))
    assert (again.status, "fresh" in again.err) == (0, False)


@torch.no_grad()
def test_cut_is_recorded_and_honoured(bertcli: Callable[..., Result], folder: Path, tmp_path: Path) -> None:
    records = [record | {"text": record["text"] + " a" * 70} for record in asked(9, choices=3)]
    line = ["finetune", "choice", "-m", folder, "--max-length", 64, "--lr", 1e-6, "--epochs", 1, "--cut"]
    assert bertcli(*line, "-o", "cut", stdin=models.lines(records)).status == 0
    assert json.loads((tmp_path / "cut" / "bertcli.json").read_text())["cut"] is True
    predicted = bertcli("predict", "-m", "cut", stdin=models.lines(records))
    assert "9 of 9 records were cut to 64 tokens" in predicted.err
    model = models.transformers.BertForMultipleChoice.from_pretrained(tmp_path / "cut").eval()
    for record, answer in zip(records, predicted.records, strict=True):
        scores = []
        for choice in map(WORDPIECE.text_ids, record["choices"]):  # whole, and of the text what fits
            inputs = models.framed(WORDPIECE.text_ids(record["text"])[: 61 - len(choice)], choice)
            scores.append(float(model(**{name: tensor[None] for name, tensor in inputs.items()}).logits))
        expected = torch.tensor(scores).softmax(-1).tolist()
        assert answer["details"]["probabilities"] == pytest.approx(expected, abs=1e-5)

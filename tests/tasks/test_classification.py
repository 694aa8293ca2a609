"""Classes: the labels that are gathered, and answers that equal those of transformers with the same folder."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import zstandard
from program import Result

from bertcli.engine.device import choose
from bertcli.engine.predict import predict
from bertcli.errors import BadData
from bertcli.model.config import from_json
from bertcli.tasks import of_folder
from bertcli.tasks.classification import Classification
from bertcli.tasks.task import build
from bertcli.weights.safetensors import load, open_folder, save_folder

WORDPIECE = models.wordpiece()


def test_labels_are_sorted_whatever_the_order_of_sight() -> None:
    task = Classification(WORDPIECE, 64)
    examples = [task.encode({"text": "a", "label": label})[0] for label in ("c", "a", "b", "c", "a")]
    task.close()
    assert task.labels == ("a", "b", "c")
    assert task.collate(examples).targets["labels"].tolist() == [2, 0, 1, 2, 0]
    assert task.collate(task.encode({"text": "a", "label": "b"})).targets["labels"].tolist() == [1]
    with pytest.raises(BadData, match="field 'label': found 'd', expected one of a, b, c"):
        task.encode({"text": "a", "label": "d"})
    with pytest.raises(BadData, match="field 'label': found nothing, expected a string"):
        task.encode({"text": "a"})


def test_one_label_is_no_choice() -> None:
    task = Classification(WORDPIECE, 64)
    task.encode({"text": "a", "label": "x"})
    with pytest.raises(BadData, match="every record has the label 'x'"):
        task.close()


def test_texts_that_are_cut_are_counted() -> None:
    task = Classification(WORDPIECE, 8, ["a", "b"])
    lengths = [len(task.encode({"text": "a " * count})[0]["ids"]) for count in (5, 6, 7, 100)]
    assert (lengths, task.cut) == ([7, 8, 8, 8], 2)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"label": "a"}, "field 'text': found nothing"),
        ({"text": ["a"]}, "field 'text': found a list"),
        ({"text": "a", "text_pair": 1}, "field 'text_pair': found 1"),
        ({"text": "a", "label": 1}, "field 'label': found 1, expected a string"),
    ],
)
def test_a_bad_record_is_named_by_field(record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        Classification(WORDPIECE, 64).encode(record)
    assert str(caught.value).startswith(said)


def test_labels_are_not_needed_in_use_nor_looked_at() -> None:
    task = Classification(WORDPIECE, 64, ["a", "b"])
    for label in ({}, {"label": "a"}, {"label": "another model's"}):
        assert task.collate(task.encode({"text": "a", **label})).counts == {"loss": 0}


def test_a_model_of_one_output_is_no_classifier(tmp_path: Path) -> None:
    path = models.save(models.theirs("BertForSequenceClassification", num_labels=1), tmp_path / "regression")
    with pytest.raises(BadData, match="field 'id2label': found 1, expected two labels or more"):
        of_folder(open_folder(path), 64, 1)
    path = models.save(models.theirs("BertModel"), tmp_path / "bare")
    with pytest.raises(BadData, match="field 'architectures': found 'BertModel', expected BertForSequenceClass"):
        of_folder(open_folder(path), 64, 1)


# -- in use ---------------------------------------------------------------------------------------------------------


def answers(path: Path, records: list[dict[str, Any]], max_tokens: int = 4096) -> list[dict[str, Any]]:
    folder = open_folder(path)
    task = of_folder(folder, folder.max_length, 1)
    network = build(task, folder.config)
    load(path, network)
    encoded = [(record, task.encode(record)) for record in records]
    return list(predict(network, task, encoded, choose("cpu", max_tokens=max_tokens)))


@torch.no_grad()
def same_as_transformers(path: Path, records: list[dict[str, Any]]) -> None:
    model = models.transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    for record, answer in zip(records, answers(path, records), strict=True):
        inputs = tokenizer(record["text"], record.get("text_pair"), truncation=True, return_tensors="pt")
        theirs = model(**inputs).logits.softmax(-1)[0]
        named = answer["details"]["probabilities"]
        assert list(named) == list(model.config.id2label.values())
        assert list(named.values()) == pytest.approx(theirs.tolist(), abs=1e-5)
        assert answer["prediction"] == model.config.id2label[int(theirs.argmax())]


def test_answers_are_those_of_transformers(tmp_path: Path) -> None:
    path = models.save(models.theirs("BertForSequenceClassification", num_labels=3), tmp_path / "model")
    rng = random.Random(5)
    records = [{"text": models.text(rng, rng.randint(1, 40)).replace("[MASK]", "mask")} for _ in range(40)]
    same_as_transformers(path, records)
    assert [record["text"] for record in answers(path, records)] == [record["text"] for record in records]


def test_answers_on_real_reviews_are_those_of_transformers(tmp_path: Path, shared: Path) -> None:
    start = open_folder(models.minilm())
    task = Classification(start.wordpiece, 48, ["0", "1"])
    config = replace(start.config, labels=task.labels, initializer_range=0.5)
    network = build(task, config)
    load(start.path, network, new_head=True)
    save_folder(tmp_path, network, task.architecture, start.wordpiece, 48, {})
    with zstandard.open(shared / "glue" / "SST-2" / "dev.tsv.zst", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:151]
    same_as_transformers(tmp_path, [{"text": text} for text, _ in rows])


# -- the command ----------------------------------------------------------------------------------------------------


def labelled(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Returns texts whose label is the colour in them."""
    rng = random.Random(seed)
    records = []
    for number in range(count):
        words = rng.choices([word for word in models.WORDS if word not in ("red", "blue")], k=rng.randint(1, 9))
        label = rng.choice(["red", "blue"])
        words.insert(rng.randrange(len(words) + 1), label)
        records.append({"id": number, "text": " ".join(words), "label": label})
    return records


FINETUNE = ["--lr", 3e-3, "--batch-size", 16, "--device", "cpu", "--max-length", 16, "--plain"]


@pytest.fixture
def start(tmp_path: Path) -> Path:
    return models.save(models.theirs("BertForPreTraining"), tmp_path / "start")


def test_a_toy_task_is_learned(bertcli: Callable[..., Result], tmp_path: Path, start: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(models.lines(labelled(400)))
    (tmp_path / "dev.jsonl").write_bytes(models.lines(labelled(100, seed=1)))
    line = ["finetune", "classification", "-m", start, *FINETUNE]
    first = bertcli(*line, "train.jsonl", "-o", "model", "--epochs", 4, "--dev", "dev.jsonl")
    assert first.status == 0, first.err
    (result,) = first.records
    assert result["step"] == 100
    assert result["dev"]["accuracy"] == 1.0
    assert "fresh: heads.classification.output" in first.err
    assert "400 records; labels blue, red; 0 cut to 16 tokens" in first.err
    assert first.err.count("dev accuracy") == 4

    predicted = bertcli("predict", "-m", "model", "dev.jsonl", "--plain")
    assert [record["prediction"] for record in predicted.records] == [r["label"] for r in predicted.records]
    same_as_transformers(tmp_path / "model", labelled(30, seed=2))
    notes = json.loads((tmp_path / "model" / "bertcli.json").read_text())
    assert (notes["task"], notes["settings"]["steps"], notes["dev"]) == ("classification", 100, result["dev"])
    assert not list((tmp_path / "model").glob("*spool*"))

    # The head is kept where its labels are the records', and fresh where they are others.
    again = ["finetune", "classification", "-m", "model", *FINETUNE, "--epochs", 0.1, "--warmup", 0]
    kept = bertcli(*again, "train.jsonl", "-o", "kept", "--dev", "dev.jsonl", "--lr", 1e-7)
    assert kept.records[0]["dev"]["accuracy"] == 1.0
    assert "fresh" not in kept.err
    renamed = [record | {"label": record["label"].upper()} for record in labelled(40)]
    fresh = bertcli(*again, "-o", "fresh", stdin=models.lines(renamed))
    assert "fresh: heads.classification.output" in fresh.err
    assert "fresh: bert" not in fresh.err


def test_faults_of_the_data(bertcli: Callable[..., Result], tmp_path: Path, start: Path) -> None:
    line = ["finetune", "classification", "-m", start, *FINETUNE, "-o", "model"]
    good = models.lines(labelled(10))
    one = bertcli(*line, stdin=models.lines([{"text": "a", "label": "x"}] * 3))
    assert (one.status, one.out) == (65, b"")
    assert "every record has the label 'x'" in one.err
    (tmp_path / "dev.jsonl").write_bytes(good + models.lines([{"text": "a", "label": "green"}]))
    unknown = bertcli(*line, "--dev", "dev.jsonl", stdin=good)
    assert unknown.status == 65
    assert "dev.jsonl:11: field 'label': found 'green', expected one of blue, red" in unknown.err
    (tmp_path / "dev.jsonl").write_bytes(good + b'{"text": "a"}\n')
    unlabelled = bertcli(*line, "--dev", "dev.jsonl", stdin=good)
    assert unlabelled.status == 65
    assert "dev.jsonl:11: field 'label': found nothing" in unlabelled.err
    assert not (tmp_path / "model" / "config.json").exists()


def test_the_model_to_start_from_is_never_overwritten(
    bertcli: Callable[..., Result], tmp_path: Path, start: Path
) -> None:
    line = ["finetune", "classification", "-m", start, *FINETUNE, "-o", tmp_path / "." / "start"]
    result = bertcli(*line, "--force", stdin=models.lines(labelled(10)))
    assert result.status == 2
    assert "must be another folder than the model to start from" in result.err
    assert open_folder(start).architecture == "BertForPreTraining"


def test_a_head_is_kept_whatever_the_order_of_its_labels(
    bertcli: Callable[..., Result], tmp_path: Path, start: Path
) -> None:
    data = models.lines(labelled(40))
    assert bertcli("finetune", "classification", "-m", start, *FINETUNE, "-o", "first", stdin=data).status == 0
    config = json.loads((tmp_path / "first" / "config.json").read_text())
    names = list(config["id2label"].values())
    turned = {str(number): name for number, name in enumerate(reversed(names))}
    config |= {"id2label": turned, "label2id": {name: int(number) for number, name in turned.items()}}
    (tmp_path / "first" / "config.json").write_text(json.dumps(config))
    line = ["finetune", "classification", "-m", "first", *FINETUNE, "-o", "second", "--lr", 1e-12, "--epochs", 1]
    again = bertcli(*line, stdin=data)
    assert (again.status, "fresh:" in again.err) == (0, False)
    ask = models.lines([{"text": "a b c"}])
    first, second = (bertcli("predict", "-m", name, stdin=ask).records[0] for name in ("first", "second"))
    assert first["details"]["probabilities"] == pytest.approx(second["details"]["probabilities"], abs=1e-6)


def test_labels_that_are_the_same_are_no_choice(tmp_path: Path) -> None:
    values = {"vocab_size": 9, "id2label": {"0": "a", "1": "a"}}
    with pytest.raises(BadData, match="field 'id2label'"):
        from_json(values, "f")

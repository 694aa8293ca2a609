"""Classes: labels that are gathered, the loss, and answers that equal those of transformers with the same folder."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
import warm
import zstandard
from program import Result
from torch.nn import functional

from bertcli.errors import BadData, UsageError
from bertcli.model.config import from_json
from bertcli.tasks import of_folder
from bertcli.tasks.classification import Classification
from bertcli.tasks.task import build
from bertcli.weights.folder import open_folder, save_folder

WORDPIECE = models.wordpiece()
KIND = "BertForSequenceClassification"
NAMES = {0: "neutral", 1: "entailment", 2: "contradiction"}  # MNLI's, in the order of nobody's alphabet


# -- labels ---------------------------------------------------------------------------------------------------------


def test_labels_are_sorted_whatever_the_order_of_sight() -> None:
    task = Classification(WORDPIECE, 64)
    examples = models.learned(task, [{"text": "a", "label": label} for label in ("c", "a", "b", "c", "a")])
    assert task.labels == ("a", "b", "c")
    assert task.collate(examples).targets["labels"].tolist() == [2, 0, 1, 2, 0]
    assert task.collate(task.learn({"text": "a", "label": "b"})).targets["labels"].tolist() == [1]
    with pytest.raises(BadData, match="field 'label': found 'd', expected one of a, b, c"):
        task.learn({"text": "a", "label": "d"})


def test_the_positive_label_can_be_named() -> None:
    pairs = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")]
    records = [{"label": gold, "prediction": found} for gold, found in pairs]
    named = Classification(WORDPIECE, 64, ("no", "yes"), positive="yes").score(records)
    assert (named["precision"], named["recall"], named["f1"]) == (1.0, 0.5, pytest.approx(2 / 3))
    assert "f1" not in Classification(WORDPIECE, 64, ("no", "yes")).score(records)


def test_several_labels_are_ones_and_zeros() -> None:
    task = Classification(WORDPIECE, 64)
    records = [{"text": "a", "labels": labels} for labels in (["c", "a"], [], ["b", "b"])]
    batch = task.collate(models.learned(task, records))
    assert (task.labels, task.problem_type) == (("a", "b", "c"), "multi_label_classification")
    assert batch.targets["labels"].tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    assert batch.counts == {"loss": 9}


def test_where_there_is_nothing_to_tell_apart() -> None:
    with pytest.raises(BadData, match="every record has the label 'x'"):
        models.learned(Classification(WORDPIECE, 64), [{"text": "a", "label": "x"}] * 3)
    with pytest.raises(BadData, match="field 'labels': no record has a label"):
        models.learned(Classification(WORDPIECE, 64), [{"text": "a", "labels": []}] * 3)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"label": "a"}, {"labels": ["a"]}, "field 'label': found nothing, expected a string"),
        ({"labels": ["a"]}, {"label": "a"}, "field 'labels': found nothing, expected a list of strings"),
        ({"label": "a"}, {}, "field 'label': found nothing, expected a string"),
        ({"label": "a"}, {"label": 1}, "field 'label': found 1, expected a string"),
        ({"labels": ["a"]}, {"labels": ["b", 1]}, r"field 'labels': found 1, expected a string at \[1\]"),
        ({}, {}, "field 'label': found nothing, expected a string"),
    ],
)
def test_one_label_and_several_are_not_mixed(first: dict[str, Any], second: dict[str, Any], said: str) -> None:
    task = Classification(WORDPIECE, 64)
    with pytest.raises(BadData, match=f"^{said}"):
        models.learned(task, [{"text": "a", **first}, {"text": "a", **second}])


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
        Classification(WORDPIECE, 64).learn(record)
    assert str(caught.value).startswith(said)


# -- loss -----------------------------------------------------------------------------------------------------------


def data(several: bool, count: int = 30) -> list[dict[str, Any]]:
    """Returns texts with labels that are not equally frequent."""
    rng, names = random.Random(9), list(NAMES.values())
    records = []
    for number in range(count):
        own: dict[str, Any] = {"label": names[(0, 0, 0, 1, 0, 2, 0, 1, 0, 1)[number % 10]]}
        own = {"labels": [name for name in names if rng.random() < 0.3]} if several else own
        records.append({"text": models.text(rng, rng.randint(1, 9)).replace("[MASK]", "mask"), **own})
    return records


def truth(records: list[dict[str, Any]], several: bool) -> Any:
    """Returns the labels as transformers takes them, ids in the order of the alphabet."""
    names = sorted(NAMES.values())
    if several:
        return torch.tensor([[float(name in record["labels"]) for name in names] for record in records])
    return torch.tensor([names.index(record["label"]) for record in records])


def theirs(path: Path, records: list[dict[str, Any]], labels: Any = None) -> Any:
    """Returns what transformers makes of all the records at once."""
    model = models.transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    inputs = tokenizer([record["text"] for record in records], padding=True, return_tensors="pt")
    return model(**inputs, labels=labels)


def folder(path: Path, several: bool = False, names: dict[int, str] | None = None) -> Path:
    """Returns a folder of transformers with names of its own."""
    kind = {"problem_type": "multi_label_classification"} if several else {}
    return models.save(models.theirs(KIND, id2label=names or NAMES, **kind), path)


@pytest.mark.parametrize("several", [False, True])
@torch.no_grad()
def test_the_loss_is_that_of_transformers(tmp_path: Path, several: bool) -> None:
    path = folder(tmp_path / "model", several, dict(enumerate(sorted(NAMES.values()))))
    _, network = models.opened(path)
    task = Classification(WORDPIECE, 64)
    examples = models.learned(task, data(several))
    expected = float(theirs(path, data(several), truth(data(several), several)).loss)
    assert models.loss(task, network, examples) == pytest.approx(expected, abs=1e-5)


def test_weights_are_those_of_scikit_learn(tmp_path: Path) -> None:
    sklearn = pytest.importorskip("sklearn.utils.class_weight")
    path = folder(tmp_path / "model", names=dict(enumerate(sorted(NAMES.values()))))
    _, network = models.opened(path)
    records, labels = data(False), truth(data(False), False)
    balanced = sklearn.compute_class_weight("balanced", classes=np.arange(3), y=labels.numpy())
    given = {"neutral": 0.5, "contradiction": 3.0}  # of the third nothing is said
    for asked, weights in (("balanced", balanced), (given, [3.0, 1.0, 0.5])):
        task = Classification(WORDPIECE, 64, class_weights=asked)
        examples = models.learned(task, records)
        for part in (slice(None), slice(0, 5)):  # the weights are those of all records, whatever is in a batch
            logits = theirs(path, records[part]).logits
            expected = functional.cross_entropy(logits, labels[part], torch.tensor(weights, dtype=torch.float))
            assert models.loss(task, network, examples[part]) == pytest.approx(expected.item(), abs=1e-5)


def test_weights_of_several_labels_are_those_of_what_is_there(tmp_path: Path) -> None:
    path = folder(tmp_path / "model", several=True, names=dict(enumerate(sorted(NAMES.values()))))
    _, network = models.opened(path)
    records, labels = data(True), truth(data(True), True)
    balanced = (1 - labels).sum(0) / labels.sum(0)  # as BCEWithLogitsLoss has it in its manual
    given = {"contradiction": 2.5}
    for asked, weights in (("balanced", balanced), (given, torch.tensor([2.5, 1.0, 1.0]))):
        task = Classification(WORDPIECE, 64, class_weights=asked)
        examples = models.learned(task, records)
        for part in (slice(None), slice(0, 5)):
            logits = theirs(path, records[part]).logits
            expected = functional.binary_cross_entropy_with_logits(logits, labels[part], pos_weight=weights)
            assert models.loss(task, network, examples[part]) == pytest.approx(expected.item(), abs=1e-5)


def test_a_weight_for_nobody_is_refused() -> None:
    with pytest.raises(UsageError, match="--class-weights: 'green' is not one of the labels a, b"):
        models.learned(
            Classification(WORDPIECE, 64, class_weights={"green": 2.0}),
            [{"text": "x", "label": label} for label in ("a", "b")],
        )


# -- other people's folders -----------------------------------------------------------------------------------------


@torch.no_grad()
def same_as_transformers(path: Path, records: list[dict[str, Any]]) -> None:
    model = models.transformers.AutoModelForSequenceClassification.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    is_several = model.config.problem_type == "multi_label_classification"
    names = list(model.config.id2label.values())
    for record, answer in zip(records, models.answers(path, records), strict=True):
        inputs = tokenizer(record["text"], record.get("text_pair"), truncation=True, return_tensors="pt")
        scores = model(**inputs).logits[0]
        probabilities = scores.sigmoid() if is_several else scores.softmax(-1)
        named = answer["details"]["probabilities"]
        assert list(named) == names
        assert list(named.values()) == pytest.approx(probabilities.tolist(), abs=1e-5)
        likely = [name for name, score in zip(names, scores, strict=True) if score > 0]
        assert answer["prediction"] == (likely if is_several else names[int(scores.argmax())])
        assert {name: answer[name] for name in record} == record


def texts(count: int) -> list[dict[str, Any]]:
    """Returns short texts, every second with another one."""
    rng, records = random.Random(5), []
    for number in range(count):
        first, second = (models.text(rng, rng.randint(1, 12)).replace("[MASK]", "mask") for _ in range(2))
        records.append({"text": first} | ({"text_pair": second} if number % 2 else {}))
    return [*records, {"text": ""}]


@pytest.mark.parametrize("several", [False, True])
def test_answers_are_those_of_transformers(tmp_path: Path, several: bool) -> None:
    same_as_transformers(folder(tmp_path / "model", several), texts(40))


def test_labels_without_a_name_are_called_as_transformers_calls_them(tmp_path: Path) -> None:
    path = models.save(models.theirs(KIND), tmp_path / "model")
    config = json.loads((path / "config.json").read_text())
    for name in ("id2label", "label2id"):
        config.pop(name, None)
    (path / "config.json").write_text(json.dumps(config))
    same_as_transformers(path, texts(4))
    assert set(models.answers(path, texts(1))[0]["details"]["probabilities"]) == {"LABEL_0", "LABEL_1"}


def test_answers_on_real_reviews_are_those_of_transformers(tmp_path: Path, shared: Path) -> None:
    start = open_folder(models.minilm())
    task = Classification(start.wordpiece, 48, ["0", "1"])
    config = replace(start.config, labels=task.labels, initializer_range=0.5)
    network = build(task, config)
    models.load(start.path, network, new_head=True)
    save_folder(tmp_path, network, task.architecture, start.wordpiece, 48, {"cut": True})
    with zstandard.open(shared / "glue" / "SST-2" / "dev.tsv.zst", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:61]
    same_as_transformers(tmp_path, [{"text": text} for text, _ in rows])


@pytest.mark.parametrize(
    ("names", "kind"), [(["only"], "single_label_classification"), (["a", "b"], "regression"), (["a"], "ranking")]
)
def test_heads_that_tell_nothing_apart_are_refused(tmp_path: Path, names: list[str], kind: str) -> None:
    path = folder(tmp_path / "model", names=dict(enumerate(names)))
    config = json.loads((path / "config.json").read_text()) | {"problem_type": kind}
    (path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadData, match=f"field 'problem_type': {kind} of {len(names)} outputs; found '{kind}'"):
        of_folder(open_folder(path), 64)


def test_a_model_without_a_head_has_no_task(tmp_path: Path) -> None:
    path = models.save(models.theirs("BertModel"), tmp_path / "bare")
    with pytest.raises(BadData, match="field 'architectures': found 'BertModel', expected BertForSequenceClass"):
        of_folder(open_folder(path), 64)


def test_labels_that_are_the_same_are_no_choice() -> None:
    values = {"vocab_size": 9, "id2label": {"0": "a", "1": "a"}}
    with pytest.raises(BadData, match="field 'id2label'"):
        from_json(values, "f")


# -- long texts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
@torch.no_grad()
def test_a_label_has_its_highest_score_in_any_window(tmp_path: Path, several: bool) -> None:
    path = folder(tmp_path / "model", several)
    model = models.transformers.BertForSequenceClassification.from_pretrained(path).eval()
    rng = random.Random(2)
    records = [{"text": models.text(rng, rng.randint(70, 200)).replace("[MASK]", "mask")} for _ in range(6)]
    pairs = [{"text": models.text(rng, 2), "text_pair": record["text"]} for record in records[:2]]
    turned = [{"text": record["text_pair"], "text_pair": record["text"]} for record in pairs]
    for record, answer in zip([*records, *pairs, *turned], models.answers(path, records + pairs + turned), strict=True):
        sides = [WORDPIECE.text_ids(record[name]) for name in ("text", "text_pair") if name in record]
        room = 64 - 1 - len(sides)
        short = min(map(len, sides)) if len(sides) == 2 else 0
        # Of two texts the short one is whole beside every window of the other.
        windows = [models.halves(side, room - short) if len(side) > short else [side] for side in sides]
        count = max(map(len, windows))
        assert count > 2
        each = [side * count if len(side) == 1 else side for side in windows]
        scores = torch.cat([model(**models.framed(*own)).logits for own in zip(*each, strict=True)]).amax(0)
        expected = scores.sigmoid() if several else scores.softmax(-1)
        assert list(answer["details"]["probabilities"].values()) == pytest.approx(expected.tolist(), abs=1e-5)


def test_training_has_the_score_of_use(tmp_path: Path) -> None:
    path = folder(tmp_path / "model", names=dict(enumerate(sorted(NAMES.values()))))
    _, network = models.opened(path)
    records = [record | {"text": " ".join([record["text"]] * 12)} for record in data(False)]
    task = Classification(WORDPIECE, 64)
    examples = models.learned(task, records)
    assert max(len(example["sizes"]) for example in examples) > 4
    named = [answer["details"]["probabilities"][answer["label"]] for answer in models.answers(path, records)]
    assert models.loss(task, network, examples) == pytest.approx(-float(np.log(named).mean()), abs=1e-5)


def test_texts_that_are_to_be_cut_are_cut_and_counted() -> None:
    task = Classification(WORDPIECE, 8, ["a", "b"], cut=True)
    lengths = [[len(example["ids"]) for example in task.encode({"text": "a " * count})] for count in (5, 6, 7, 100)]
    assert (lengths, task.shortened) == ([[7], [8], [8], [8]], 2)
    assert str(task) == "labels a, b; 2 cut to 8 tokens"
    whole = Classification(WORDPIECE, 8, ["a", "b"])
    assert [len(whole.encode({"text": "a " * count})) for count in (6, 7, 9, 10)] == [1, 2, 2, 3]
    assert whole.shortened == 0


# -- the command ----------------------------------------------------------------------------------------------------

FINETUNE = ["--lr", 3e-3, "--batch-size", 16, "--device", "cpu", "--max-length", 16, "--plain"]


@pytest.fixture
def start(tmp_path: Path) -> Path:
    return models.save(models.theirs("BertForPreTraining"), tmp_path / "start")


def test_a_toy_task_is_learned(bertcli: Callable[..., Result], tmp_path: Path, start: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(models.lines(models.coloured(400)))
    (tmp_path / "dev.jsonl").write_bytes(models.lines(models.coloured(100, seed=1)))
    line = ["finetune", "classification", "-m", start, *FINETUNE]
    first = bertcli(*line, "train.jsonl", "-o", "model", "--epochs", 4, "--dev", "dev.jsonl")
    assert first.status == 0, first.err
    (result,) = first.records
    assert result["step"] == 100
    assert result["dev"]["accuracy"] == 1.0
    assert "fresh: heads.classifier.output" in first.err
    assert "400 records; labels blue, red" in first.err
    assert first.err.count("dev accuracy") == 4

    predicted = bertcli("predict", "-m", "model", "dev.jsonl", "--plain")
    assert [record["prediction"] for record in predicted.records] == [r["label"] for r in predicted.records]
    same_as_transformers(tmp_path / "model", models.coloured(30, seed=2))
    notes = json.loads((tmp_path / "model" / "bertcli.json").read_text())
    assert (notes["task"], notes["settings"]["steps"], notes["dev"]) == ("classification", 100, result["dev"])
    assert not list((tmp_path / "model").glob("*spool*"))

    # The head is kept where its labels are the records', and fresh where they are others.
    again = ["finetune", "classification", "-m", "model", *FINETUNE, "--epochs", 0.1, "--warmup", 0]
    kept = bertcli(*again, "train.jsonl", "-o", "kept", "--dev", "dev.jsonl", "--lr", 1e-7)
    assert kept.records[0]["dev"]["accuracy"] == 1.0
    assert "fresh" not in kept.err
    renamed = [record | {"label": record["label"].upper()} for record in models.coloured(40)]
    fresh = bertcli(*again, "-o", "fresh", stdin=models.lines(renamed))
    assert "fresh: heads.classifier.output" in fresh.err
    assert "fresh: bert" not in fresh.err


def test_faults_of_the_data(bertcli: Callable[..., Result], tmp_path: Path, start: Path) -> None:
    line = ["finetune", "classification", "-m", start, *FINETUNE, "-o", "model"]
    good, dev = models.lines(models.coloured(10)), tmp_path / "dev.jsonl"
    one = bertcli(*line, stdin=models.lines([{"text": "a", "label": "x"}] * 3))
    assert (one.status, one.out) == (65, b"")
    assert "every record has the label 'x'" in one.err
    mixed = bertcli(*line, stdin=good + models.lines([{"text": "a", "labels": ["red"]}]))
    assert mixed.status == 65
    assert "<stdin>:11: field 'label': found nothing, expected a string" in mixed.err
    for bad, said in (
        ({"text": "a", "label": "green"}, "field 'label': found 'green', expected one of blue, red"),
        ({"text": "a"}, "field 'label': found nothing"),
    ):
        dev.write_bytes(good + models.lines([bad]))
        result = bertcli(*line, "--dev", "dev.jsonl", stdin=good)
        assert result.status == 65
        assert f"dev.jsonl:11: {said}" in result.err
    weighted = bertcli(*line, "--class-weights", "red=2,green=3", stdin=good)
    assert weighted.status == 2
    assert "--class-weights: 'green' is not one of the labels blue, red" in weighted.err
    assert not (tmp_path / "model" / "config.json").exists()


def test_the_model_to_start_from_is_never_overwritten(
    bertcli: Callable[..., Result], tmp_path: Path, start: Path
) -> None:
    line = ["finetune", "classification", "-m", start, *FINETUNE, "-o", tmp_path / "." / "start"]
    result = bertcli(*line, "--force", stdin=models.lines(models.coloured(10)))
    assert result.status == 2
    assert "must be another folder than the model to start from" in result.err
    assert open_folder(start).architecture == "BertForPreTraining"


def test_a_head_is_kept_whatever_the_order_of_its_labels(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    first = folder(tmp_path / "first")
    data = models.lines([{"text": "a", "label": label} for label in NAMES.values()])
    line = ["finetune", "classification", "-m", first, *FINETUNE, "-o", "second", "--lr", 1e-12, "--epochs", 1]
    again = bertcli(*line, stdin=data)
    assert (again.status, "fresh:" in again.err) == (0, False)
    assert list(open_folder(tmp_path / "second").config.labels) == sorted(NAMES.values())
    ask = models.lines(texts(9))
    before, after, both = (
        [
            answer["details"]["probabilities"]
            for answer in bertcli("predict", *folders, "--max-length", 64, stdin=ask).records
        ]
        for folders in (["-m", first], ["-m", "second"], ["-m", first, "-m", "second"])
    )
    for one, other, mean in zip(before, after, both, strict=True):
        assert other == pytest.approx(one, abs=1e-6)
        assert mean == pytest.approx(one, abs=1e-6)
        assert list(mean) == list(NAMES.values())  # the first one's order


def long_text(colour: str, at: int, count: int = 5200) -> str:
    """Returns a text in which one word tells the colour."""
    words = random.Random(3).choices(models.PLAIN, k=count)
    words[at : at + 4] = ["the", "house", "was", colour]
    return " ".join(words)


def test_one_telling_sentence_far_behind_tells(
    bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path
) -> None:
    records = [*models.coloured(200), *models.coloured(100, seed=1, longest=60)]
    options = ["--lr", 3e-3, "--batch-size", 16, "--epochs", 4, "--max-length", 16]
    whole = models.finetuned(program, tmp_path, "classification", records, *options)
    asked = [{"id": number, "text": long_text(colour, 5000)} for number, colour in enumerate(models.COLOURS)]
    asked += [{"id": 2, "text": ""}, {"id": 3, "text": "", "text_pair": "a " * 200}, {"id": 4, "text": "red"}]
    found = bertcli("predict", "-m", whole, stdin=models.lines(asked))
    assert (found.status, found.err) == (0, "")
    assert [answer["id"] for answer in found.records] == [0, 1, 2, 3, 4]
    assert [found.records[number]["prediction"] for number in (0, 1, 4)] == [*models.COLOURS, "red"]

    plain = bertcli("predict", "-m", whole, stdin=b"the house was red\n\nblue\n")
    assert [(answer["text"], answer["prediction"]) for answer in plain.records] == [
        ("the house was red", "red"),
        ("blue", "blue"),
    ]

    # The same folder, as one that was made with --cut: what stands behind is not read.
    notes = json.loads((whole / "bertcli.json").read_text())
    (whole / "bertcli.json").write_text(json.dumps(notes | {"cut": True}))
    far = [{"text": long_text(colour, 5000)} for colour in models.COLOURS]
    near = {"text": " ".join(long_text("red", 5000).split()[:14])}
    cut = bertcli("predict", "-m", whole, stdin=models.lines([*far, near]))
    assert "2 of 3 records were cut to 16 tokens" in cut.err
    one, other, short = (answer["details"]["probabilities"] for answer in cut.records)
    assert one == pytest.approx(short, abs=1e-5)
    assert other == pytest.approx(short, abs=1e-5)


def test_cut_is_recorded_and_honoured(bertcli: Callable[..., Result], tmp_path: Path, start: Path) -> None:
    data = models.lines([record | {"text": record["text"] + " a" * 40} for record in models.coloured(30)])
    line = ["finetune", "classification", "-m", start, *FINETUNE, "--epochs", 1]
    cut = bertcli(*line, "--cut", "-o", "cut", stdin=data)
    assert "30 records; labels blue, red; 30 cut to 16 tokens" in cut.err
    assert json.loads((tmp_path / "cut" / "bertcli.json").read_text())["cut"] is True
    assert bertcli(*line, "-o", "whole", stdin=data).status == 0
    assert "cut" not in json.loads((tmp_path / "whole" / "bertcli.json").read_text())
    same_as_transformers(tmp_path / "cut", [{"text": "a b c d " * 20}, {"text": "a", "text_pair": "b " * 70}])


def test_several_labels_a_text(bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path) -> None:
    def records(count: int, seed: int, longest: int = 6, share: float = 0.3) -> list[dict[str, Any]]:
        rng, made = random.Random(seed), []
        for _ in range(count):
            labels = [name for name in ("red", "old", "blue") if rng.random() < share]
            words = [*rng.choices(models.PLAIN, k=rng.randint(1, longest)), *labels]
            made.append({"text": " ".join(rng.sample(words, len(words))), "labels": labels})
        return made

    options = ["--lr", 3e-3, "--batch-size", 16, "--epochs", 10, "--max-length", 16]
    data = [*records(400, 0), *records(40, 1, longest=60, share=0)]
    model = models.finetuned(program, tmp_path, "classification", data, *options)
    far = {"text": long_text("red", 5000), "labels": ["red"]}
    predicted = bertcli("predict", "-m", model, stdin=models.lines([*records(100, 2), far]))
    assert predicted.records[-1]["prediction"] == ["red"]
    (scores,) = bertcli("score", "classification", stdin=models.lines(predicted.records)).records
    assert scores["accuracy"] > 0.95
    same_as_transformers(model, records(30, 3))

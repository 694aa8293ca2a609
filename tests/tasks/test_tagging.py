"""Tags: every word labelled once and in order, from the window with most context, as transformers would label it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import accumulate, compress
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
from bertcli.tasks.tagging import NONE, Tagging
from bertcli.weights.folder import open_folder

WORDPIECE = models.wordpiece()
KIND = "BertForTokenClassification"
NAMES = {0: "O", 1: "I-PER", 2: "B-PER"}
# Of some words nothing is left, and some have more pieces than a window has room for.
WORD = st.sampled_from(["a", "the", "xyz", "q" * 25, "", "\u200b", "caf\u00e9", "9" * 70, "\u4e2d"])
WORDS = st.integers(0, 60).flatmap(lambda size: st.lists(WORD, min_size=size, max_size=size))


def tagged(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Returns sentences with labels of no sense."""
    rng, records = random.Random(seed), []
    for _ in range(count):
        words = models.text(rng, rng.randint(1, 7)).replace("[MASK]", "mask").split()
        records.append({"words": words, "labels": rng.choices(list(NAMES.values()), k=len(words))})
    records[0]["labels"][:1] = ["B-PER"]
    return records


def folder(path: Path, names: dict[int, str] | None = None, **others: Any) -> Path:
    return models.save(models.theirs(KIND, id2label=names or NAMES, **others), path)


@torch.no_grad()
def theirs(path: Path, words: list[str], labels: list[int] | None = None) -> Any:
    """Returns the scores that transformers gives to each word's first piece: (W, K); with labels its loss too."""
    model = models.transformers.AutoModelForTokenClassification.from_pretrained(path).eval()
    inputs = models.transformers.AutoTokenizer.from_pretrained(path)(
        words, is_split_into_words=True, return_tensors="pt"
    )
    owners = inputs.word_ids()
    firsts = [place for place, word in enumerate(owners) if word is not None and word != owners[place - 1]]
    scores = model(**inputs).logits[0, firsts]
    if labels is None:
        return scores
    wanted = torch.full_like(inputs["input_ids"], -100)
    wanted[0, firsts] = torch.tensor(labels)
    return scores, model(**inputs, labels=wanted).loss


# -- what is learned ------------------------------------------------------------------------------------------------


def test_labels_are_sorted_whatever_the_order_of_sight() -> None:
    task = Tagging(WORDPIECE, 64)
    examples = models.learned(task, [{"words": ["a", "xyz"], "labels": ["b", "c"]}, {"words": ["a"], "labels": ["a"]}])
    batch = task.collate(examples)
    assert task.labels == ("a", "b", "c")
    assert batch.targets["labels"].tolist() == [NONE, 1, 2, NONE, NONE, NONE, NONE, 0, NONE]  # x ##y ##z: the first
    assert batch.counts == {"loss": 3}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"words": "a"}, "field 'words': found 'a', expected a list of strings"),
        ({"words": ["a", "b"]}, "field 'labels': found nothing, expected 2 labels, one a word"),
        ({"words": ["a", "b"], "labels": ["O"]}, "field 'labels': found 1, expected 2 labels, one a word"),
        ({"words": ["a"], "labels": ["B-LOC"]}, "field 'labels': found 'B-LOC', expected one of O, I-PER, B-PER"),
        ({"words": ["a"], "labels": [1]}, "field 'labels': found 1, expected a string at [0]"),
    ],
)
def test_a_bad_record_is_named_by_field(record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        Tagging(WORDPIECE, 64, list(NAMES.values())).learn(record)
    assert str(caught.value) == said


def test_one_label_is_no_choice() -> None:
    with pytest.raises(BadData, match="every word has the label 'O': there is nothing to tell apart"):
        models.learned(Tagging(WORDPIECE, 64), [{"words": ["a", "b"], "labels": ["O", "O"]}])


def test_the_loss_is_that_of_transformers(tmp_path: Path) -> None:
    names = sorted(NAMES.values())
    path = folder(tmp_path / "model", dict(enumerate(names)))
    records = tagged(12)
    losses = [theirs(path, each["words"], [*map(names.index, each["labels"])])[1].item() for each in records]
    sizes = [len(record["words"]) for record in records]
    _, network = models.opened(path)
    task = Tagging(WORDPIECE, 64)
    examples = models.learned(task, records)
    assert models.loss(task, network, examples) == pytest.approx(np.average(losses, weights=sizes), abs=1e-5)


# -- windows --------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(WORDS, st.integers(8, 40))
def test_every_word_is_labelled_once_and_in_order(words: list[str], max_length: int) -> None:
    task = Tagging(WORDPIECE, max_length, ["O", "B"])
    examples = task.encode({"words": words})
    answered = [number for example in examples for number in example["ids"][example["rows"]]]
    assert answered == [pieces[0] for pieces in WORDPIECE.encode_words(words)]
    assert all(len(example["ids"]) <= max_length for example in examples)
    # Each word's row, as if its number were its score, comes out at its place.
    scores, number = [], 0
    for example in examples:
        own = np.full((len(example["ids"]), 2), -1.0, np.float32)
        own[example["rows"], 0] = range(number, number + len(example["rows"]))
        own[:, 1] = 0
        number += len(example["rows"])
        scores.append(own)
    answer = task.combine(examples, scores)
    assert answer.shape == (len(words), 2)
    assert np.log(answer[:, 0]) - np.log(answer[:, 1]) == pytest.approx(list(range(len(words))))
    decoded = task.decode({"words": words}, examples, answer)
    assert decoded["prediction"] == ["O"] * len(words)
    assert len(decoded["details"]["probabilities"]) == len(words)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Returns words, of no sentence, of one or of several."""
    sentences = draw(st.lists(WORDS.filter(bool), max_size=4))
    starts = [*accumulate(map(len, sentences), initial=0)][:-1]
    words = {"words": [word for own in sentences for word in own]}
    return words if len(starts) == 1 and draw(st.booleans()) else {**words, "sentences": starts}


def read(document: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Returns a document's pieces with [SEP] between its sentences, and where the first ones of its words are."""
    ids: list[int] = []
    firsts = []
    for number, pieces in enumerate(WORDPIECE.encode_words(document["words"])):
        ids += [WORDPIECE.sep] * (number in document.get("sentences", [])[1:])
        firsts.append(len(ids))
        ids += pieces
    return ids, firsts


@settings(deadline=None)
@given(documents(), st.integers(8, 40))
def test_a_word_is_read_where_its_first_piece_has_most_context(document: dict[str, Any], max_length: int) -> None:
    ids, firsts = read(document)
    windows = models.halves(ids, max_length - 2) if ids else []
    starts = [number * ((max_length - 2) // 2) for number in range(len(windows))]
    examples = Tagging(WORDPIECE, max_length, ["O", "B"]).encode(document)
    assert [example["ids"][1:-1].tolist() for example in examples] == windows
    rows = [example["rows"].tolist() for example in examples]
    found = [(start + row - 1, start) for start, own in zip(starts, rows, strict=True) for row in own]
    for token, start in found:
        context = {
            begin: min(token - begin, begin + len(own) - 1 - token) + 0.01 * len(own)
            for begin, own in zip(starts, windows, strict=True)
            if begin <= token < begin + len(own)
        }
        assert start == max(context, key=lambda begin: context[begin])
    assert [token for token, _ in found] == firsts


@settings(deadline=None)
@given(documents(), st.integers(8, 40))
def test_a_word_is_learned_in_every_window_that_has_its_first_piece(document: dict[str, Any], max_length: int) -> None:
    ids, firsts = read(document)
    marks = [NONE] * len(ids)
    for number, place in enumerate(firsts):
        marks[place] = number
    windows = models.halves(marks, max_length - 2) if marks else []
    taught = [any(mark != NONE for mark in own) for own in windows]
    task, labels = Tagging(WORDPIECE, max_length), [str(number) for number in range(len(firsts))]
    examples = task.learn({**document, "labels": labels})
    assert [each["labels"].tolist() for each in examples] == [[NONE, *own, NONE] for own in compress(windows, taught)]
    encoded = compress(task.encode(document), taught)
    assert [example["ids"].tolist() for example in examples] == [example["ids"].tolist() for example in encoded]


# -- in use ---------------------------------------------------------------------------------------------------------


def same_as_transformers(path: Path, records: list[dict[str, Any]]) -> None:
    names = list(open_folder(path).config.labels)
    for record, answer in zip(records, models.answers(path, records), strict=True):
        expected = theirs(path, record["words"]).softmax(-1).max(-1)
        assert answer["prediction"] == [names[number] for number in expected.indices]
        assert answer["details"]["probabilities"] == pytest.approx(expected.values.tolist(), abs=1e-5)
        assert {name: answer[name] for name in record} == record


def test_answers_are_those_of_transformers(tmp_path: Path) -> None:
    same_as_transformers(folder(tmp_path / "named"), tagged(30))
    same_as_transformers(models.save(models.theirs(KIND), tmp_path / "plain"), tagged(3))  # LABEL_0 and LABEL_1


@torch.no_grad()
def test_a_long_sentence_is_read_in_windows(tmp_path: Path) -> None:
    path = folder(tmp_path / "model")
    model = models.transformers.BertForTokenClassification.from_pretrained(path).eval()
    words = random.Random(1).choices(models.LETTERS, k=150)  # a piece each
    (answer,) = models.answers(path, [{"words": words}])
    windows = models.halves(WORDPIECE.text_ids(" ".join(words)), 62)
    scores = [model(**models.framed(window)).logits[0, 1:-1].softmax(-1).max(-1).values for window in windows]
    # Windows begin at 0, 31, 62, 93: word 46 has 15 words after it in the first, word 47 has 16 before in the second.
    for word, window in ((0, 0), (46, 0), (47, 1), (77, 1), (78, 2), (108, 2), (109, 3), (149, 3)):
        probability = float(scores[window][word - 31 * window])
        assert answer["details"]["probabilities"][word] == pytest.approx(probability, abs=1e-5)


def entities(count: int, seed: int, longest: int = 40) -> list[dict[str, Any]]:
    """Returns sentences in which each colour is an entity, and each figure."""
    rng, records = random.Random(seed), []
    kinds = {**dict.fromkeys(models.COLOURS, "B-COL"), **dict.fromkeys("0123456789", "B-NUM")}
    for number in range(count):
        words = rng.choices([*models.PLAIN, "xyzzy", *kinds], k=rng.randint(1, longest))
        records.append({"id": number, "words": words, "labels": [kinds.get(word, "O") for word in words]})
    return records


def test_a_toy_task_is_learned_and_long_sentences_keep_their_labels(
    bertcli: Callable[..., Result], program: warm.Program, tmp_path: Path
) -> None:
    (tmp_path / "dev.jsonl").write_bytes(models.lines(entities(40, 1)))
    options = ["--lr", 3e-3, "--batch-size", 16, "--epochs", 3, "--max-length", 32, "--dev", tmp_path / "dev.jsonl"]
    model = models.finetuned(program, tmp_path, "tagging", entities(200, 0), *options)
    assert json.loads((model / "bertcli.json").read_text())["dev"]["f1"] == 100
    same_as_transformers(model, entities(10, 2, longest=5))

    words = random.Random(4).choices([*models.PLAIN, "xyzzy"], k=700)
    words[590], words[0], words[699] = "red", "7", "blue"
    labels = ["O"] * 700
    labels[590], labels[0], labels[699] = "B-COL", "B-NUM", "B-COL"
    document = {"id": "d", "words": words, "labels": labels, "sentences": [0, 300, 580]}
    unlabelled = [{"words": []}, {"words": [""]}, {"words": ["the", "\u200b", "red"]}, {"words": ["cat" * 90]}]
    predicted = bertcli("predict", "-m", model, stdin=models.lines([document, *unlabelled, *entities(9, 3)]))
    assert (predicted.status, predicted.err) == (0, "")
    first, empty, none, gap, long, *others = predicted.records
    assert first == document | {"prediction": labels, "details": first["details"]}
    assert (empty["prediction"], empty["details"]) == ([], {"probabilities": []})
    assert [len(record["prediction"]) for record in (none, gap, long)] == [1, 3, 1]
    assert gap["prediction"][2] == "B-COL"
    assert [record["prediction"] for record in others] == [record["labels"] for record in others]
    (scores,) = bertcli("score", "tagging", stdin=models.lines([first, *others])).records
    assert scores["f1"] == 100


def test_faults_of_the_data(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    line = ["finetune", "tagging", "-m", folder(tmp_path / "start"), "-o", "model", "--max-length", 64]
    good = models.lines(tagged(9))
    bare = bertcli(*line, stdin=good + models.lines([{"words": ["a"]}]))
    assert bare.status == 65
    assert "<stdin>:10: field 'labels': found nothing, expected 1 label, one a word" in bare.err
    (tmp_path / "dev.jsonl").write_bytes(models.lines([{"words": ["a"], "labels": ["B-LOC"]}]))
    unknown = bertcli(*line, "--dev", "dev.jsonl", stdin=good)
    assert unknown.status == 65
    assert "dev.jsonl:1: field 'labels': found 'B-LOC', expected one of B-PER, I-PER, O" in unknown.err
    empty = bertcli(*line, stdin=models.lines([{"words": [], "labels": []}]))
    assert empty.status == 65
    assert "there is no record to train on" in empty.err


def test_a_head_is_kept_whatever_the_order_of_its_labels(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    first = folder(tmp_path / "first")
    line = ["finetune", "tagging", "-m", first, "-o", "second", "--lr", 1e-12, "--epochs", 1, "--max-length", 64]
    again = bertcli(*line, stdin=models.lines(tagged(9)))
    assert (again.status, "fresh:" in again.err) == (0, False)
    assert open_folder(tmp_path / "second").config.labels == ("B-PER", "I-PER", "O")
    for models_asked in (["-m", "second"], ["-m", first, "-m", "second"]):
        found = bertcli("predict", *models_asked, stdin=models.lines(tagged(9, 1))).records
        for answer, expected in zip(found, models.answers(first, tagged(9, 1)), strict=True):
            assert answer["prediction"] == expected["prediction"]
            assert answer["details"]["probabilities"] == pytest.approx(expected["details"]["probabilities"], abs=1e-6)

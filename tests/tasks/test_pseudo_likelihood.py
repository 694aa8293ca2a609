"""The likelihood of texts: each token's is what transformers finds where that token alone is hidden."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from likely import LONGEST, UNSCORED, answers, assert_chances, ids_of, text_of
from program import Result

from bertcli.errors import BadData
from bertcli.tasks.pseudo_likelihood import PseudoLikelihood

WORDPIECE = models.wordpiece()
MASK = WORDPIECE.mask


@pytest.fixture(scope="module", params=["BertForPreTraining", "BertForMaskedLM"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.theirs(request.param), tmp_path_factory.mktemp("model"))


@torch.no_grad()
def chance(theirs: Any, inputs: dict[str, torch.Tensor], place: int) -> float:
    """Returns log p of one token, hidden alone, by a model of transformers."""
    ids = inputs["input_ids"].clone()
    ids[0, place] = MASK
    return float(theirs(**{**inputs, "input_ids": ids}).logits[0, place].log_softmax(-1)[inputs["input_ids"][0, place]])


TEXTS = [{"text": text_of(words, words)} for words in range(1, 9)]
TWO = [{"text": text_of(3, words), "text_pair": text_of(words, 9)} for words in range(1, 4)]
WORDS = [{"words": ["the", "[MASK]", "cats"]}, {"words": ["a"], "text_pair": "b [MASK]"}]
SHORT, LONG = "the cat was old", text_of(100, 1)
PAIRS = [*models.pairs(5), {"tokens": ["[CLS]", "the", "[MASK]", "cat", "[SEP]"]}]


@pytest.mark.parametrize("record", [*TEXTS, *TWO, *WORDS, *PAIRS])
def test_each_token_is_as_likely_as_transformers_finds_it(model: Path, record: dict[str, Any]) -> None:
    theirs = models.transformers.BertForMaskedLM.from_pretrained(model).eval()
    if "tokens" in record:
        inputs = models.alone(WORDPIECE.ids_of(record["tokens"]), record.get("segment_b"))
    else:
        text = record.get("text") or " ".join(record["words"])
        inputs = models.tokenizer()(text, record.get("text_pair"), return_tensors="pt")
    ids = inputs["input_ids"][0].tolist()
    scored = [place for place, number in enumerate(ids) if number not in UNSCORED]
    (answer,) = answers(model, [record])
    assert_chances(answer, [(ids[place], chance(theirs, inputs, place)) for place in scored])
    assert {name: answer[name] for name in record} == record


def windows_of(length: int, room: int) -> list[tuple[int, int]]:
    return [(part[0], part[-1] + 1) for part in models.halves(list(range(length)), room)]


def most_context(windows: list[tuple[int, int]], token: int) -> int:
    """Returns the first of the windows that have the token as far from their ends as any."""
    rooms = [min(token - start, end - 1 - token) if start <= token < end else -1 for start, end in windows]
    return rooms.index(max(rooms))


def test_a_long_text_is_read_in_windows(model: Path) -> None:
    theirs = models.transformers.BertForMaskedLM.from_pretrained(model).eval()
    ids = ids_of(LONG)
    windows, expected = windows_of(len(ids), LONGEST - 2), []
    assert len(windows) > 3
    for token, number in enumerate(ids):
        start, end = windows[most_context(windows, token)]
        if number != MASK:
            expected.append((number, chance(theirs, models.framed(ids[start:end]), 1 + token - start)))
    (answer,) = answers(model, [{"text": LONG}])
    assert_chances(answer, expected)


def test_the_shorter_of_two_texts_is_whole_beside_each_window_of_the_other(model: Path) -> None:
    theirs = models.transformers.BertForMaskedLM.from_pretrained(model).eval()
    first, second = ids_of(SHORT), ids_of(LONG)
    windows = windows_of(len(second), LONGEST - 3 - len(first))
    sides = [models.framed(first, second[start:end]) for start, end in windows]
    expected = [(number, chance(theirs, sides[0], 1 + place)) for place, number in enumerate(first)]
    for token, number in enumerate(second):
        best = most_context(windows, token)
        if number != MASK:
            place = len(first) + 2 + token - windows[best][0]
            expected.append((number, chance(theirs, sides[best], place)))
    one, two = (
        ["[CLS]"] * (not side) + [models.PIECES[each] for each in ids] + ["[SEP]"]
        for side, ids in enumerate((first, second))
    )
    pair = {"tokens": one + two, "segment_b": len(one)}
    for answer in answers(model, [{"text": SHORT, "text_pair": LONG}, pair]):
        assert_chances(answer, expected)


def test_of_two_long_texts_each_token_is_hidden_once_where_it_stands() -> None:
    task = PseudoLikelihood(WORDPIECE, LONGEST)
    for first, second in ((LONG, text_of(70, 2)), (text_of(30, 3), LONG), (LONG, SHORT)):
        examples = task.encode({"text": first, "text_pair": second})
        hidden = [int(example["ids"][example["place"][0]]) for example in examples]
        assert hidden == [number for text in (first, second) for number in ids_of(text) if number != MASK]
        is_second = [bool(example["place"][0] >= example["segment_b"][0]) for example in examples]
        assert is_second == sorted(is_second)


def test_the_numbers_do_not_depend_on_what_is_computed_together(model: Path) -> None:
    records = [*TEXTS, *TWO, *PAIRS, {"text": LONG}, {"good": "the cat is", "bad": "the cat are"}]
    together = answers(model, records)
    for alike in (answers(model, records, max_tokens=1), [answers(model, [record])[0] for record in records]):
        for one, other in zip(together, alike, strict=True):
            assert one["details"]["log_likelihoods"] == pytest.approx(other["details"]["log_likelihoods"], abs=1e-5)


def test_scoring_pieces_for_some_tokens_at_a_time_changes_nothing(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answers(model, TEXTS)
    monkeypatch.setattr("bertcli.tasks.pseudo_likelihood.TOKENS", 3)
    for one, other in zip(whole, answers(model, TEXTS), strict=True):
        assert one["details"]["log_likelihoods"] == pytest.approx(other["details"]["log_likelihoods"], abs=1e-5)


def test_a_text_of_which_nothing_is_to_be_found_is_certain(model: Path) -> None:
    records = [{"text": ""}, {"text": "[MASK]"}, {"text": "", "text_pair": ""}, {"tokens": ["[CLS]", "[SEP]"]}]
    for answer in answers(model, [*records, {"text": "a"}])[:-1]:
        assert answer["prediction"] == 0.0
        assert answer["details"] == {"log_likelihood": 0.0, "log_likelihoods": [], "tokens": []}


def test_of_a_minimal_pair_the_likelier_sentence_is_told(model: Path) -> None:
    sentences = ["the cat was old", "the cats was old", "", "a [MASK]", LONG]
    alone = [each["prediction"] for each in answers(model, [{"text": each} for each in sentences])]
    records = [{"id": 1, "good": good, "bad": bad} for good in sentences for bad in sentences]
    given = answers(model, records)
    expected = [(good, bad) for good in alone for bad in alone]
    assert {one["prediction"] for one in given} == {True, False}
    for record, answer, (good, bad) in zip(records, given, expected, strict=True):
        assert answer["details"] == {"log_likelihoods": pytest.approx([good, bad], abs=1e-5)}
        assert answer["prediction"] == (good > bad)
        assert {name: answer[name] for name in record} == record


def test_the_examples_of_a_long_text_are_small() -> None:
    """Every token has a window of its own to be hidden in, and those are told apart by its place alone."""
    examples = PseudoLikelihood(WORDPIECE, 512).encode({"text": " ".join(["a"] * 10_000)})
    assert len(examples) == 10_000
    assert sum(len(example["ids"]) for example in examples) > 5_000_000
    assert len({id(example["ids"]) for example in examples}) < 50
    assert len(pickle.dumps(examples)) < 500_000


MASKED = {"tokens": ["[CLS]", "a", "[SEP]"], "masked_positions": [], "masked_tokens": []}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (MASKED, "field 'masked_positions': found an empty list, expected none: every token is scored"),
        ({"tokens": ["a", "b"]}, r"field 'tokens': found a list, expected \[CLS\] A \[SEP\], or with segment_b"),
        ({"tokens": ["[CLS]", "a", "b", "[SEP]"], "segment_b": 2}, r"field 'tokens': found a list, expected \[CLS\]"),
        ({"tokens": ["[CLS]", "[SEP]", "b"], "segment_b": 2}, r"field 'tokens': found a list, expected \[CLS\]"),
        ({"tokens": ["[CLS]"]}, r"field 'tokens': found a list, expected \[CLS\]"),
        ({"tokens": []}, r"field 'tokens': found an empty list, expected \[CLS\]"),
        ({"tokens": ["[CLS]", "zebra", "[SEP]"]}, "field 'tokens': found 'zebra', expected a piece"),
        ({"tokens": ["[CLS]", "a", "[SEP]"], "segment_b": 3}, "field 'segment_b': found 3, expected the index"),
        ({"good": "a"}, "field 'bad': found nothing, expected a string"),
        ({"bad": "a", "good": 1}, "field 'good': found 1, expected a string"),
        ({"text": 3}, "field 'text': found 3, expected a string"),
        ({}, "field 'text': found nothing, expected one of text, words"),
    ],
)
def test_a_bad_record_is_named_by_field(record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData, match=f"^{said}"):
        PseudoLikelihood(WORDPIECE, LONGEST).encode(record)


def test_the_command(bertcli: Callable[..., Result], model: Path) -> None:
    text = b"the cat was old\n" + b"the [MASK] was red " * 20
    result = bertcli("predict", "-m", model, "--pseudo-likelihood", "--plain", stdin=text)
    has_pairs = "BertForPreTraining" in (model / "config.json").read_text()
    unneeded = f"{model}: not needed: bert.pooler, cls.seq_relationship (4 tensors)\n" * has_pairs
    assert (result.status, result.err) == (0, unneeded)
    assert [len(record["details"]["tokens"]) for record in result.records] == [4, 60]
    bad = bertcli("predict", "-m", model, "--pseudo-likelihood", stdin=models.lines([{"text": "a"}, MASKED]))
    assert bad.status == 65
    assert "<stdin>:2: field 'masked_positions': " in bad.err
    assert [record["text"] for record in bad.records] == ["a"]

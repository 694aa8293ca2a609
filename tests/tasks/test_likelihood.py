"""The likelihood of texts to a left-to-right model: each token's is what transformers finds after those before it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from likely import LONGEST, UNSCORED, answers, assert_chances, ids_of, text_of

from bertcli.errors import BadData
from bertcli.tasks import of_folder
from bertcli.tasks.likelihood import Likelihood
from bertcli.tasks.pseudo_likelihood import PseudoLikelihood
from bertcli.weights.folder import open_folder

WORDPIECE = models.wordpiece()
Chances = list[tuple[int, float]]  # ids and their log p, as far as they are scored


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.save(models.theirs("BertLMHeadModel", is_decoder=True), tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def theirs(model: Path) -> Any:
    return models.transformers.BertLMHeadModel.from_pretrained(model).eval()


@torch.no_grad()
def chances(theirs: Any, inputs: dict[str, torch.Tensor]) -> Chances:
    """Returns each token but the first, and its log p."""
    logs, ids = theirs(**inputs).logits[0].log_softmax(-1), inputs["input_ids"][0].tolist()
    return [(number, float(logs[place - 1, number])) for place, number in enumerate(ids) if place]


def scored(each: Chances) -> Chances:
    return [(number, log) for number, log in each if number not in UNSCORED]


TEXTS = [{"text": text_of(words, words)} for words in range(1, 9)]
TWO = [{"text": text_of(3, words), "text_pair": text_of(words, 9)} for words in range(1, 4)]
SHORT, LONG, OTHER = "the cat was old", text_of(100, 1), text_of(70, 2)


@pytest.mark.parametrize("record", [*TEXTS, *TWO, {"words": ["the", "[MASK]", "cats"]}, *models.pairs(5)])
def test_each_token_is_as_likely_as_transformers_finds_it(model: Path, theirs: Any, record: dict[str, Any]) -> None:
    if "tokens" in record:
        inputs = models.alone(WORDPIECE.ids_of(record["tokens"]), record["segment_b"])
    else:
        text = record.get("text") or " ".join(record["words"])
        inputs = models.tokenizer()(text, record.get("text_pair"), return_tensors="pt")
    (answer,) = answers(model, [record])
    assert_chances(answer, scored(chances(theirs, inputs)))
    assert {name: answer[name] for name in record} == record


def test_of_a_long_text_each_token_has_the_most_before_it_that_a_window_holds(model: Path, theirs: Any) -> None:
    ids, room = ids_of(LONG), LONGEST - 2
    expected: Chances = []
    windows = models.halves(ids, room)
    assert len(windows) > 3
    for number, window in enumerate(windows):
        known = chances(theirs, models.framed(window))[: len(window)]  # but for the last [SEP]
        expected += known[room - room // 2 if number else 0 :]
    assert [number for number, _ in expected] == ids
    (answer,) = answers(model, [{"text": LONG}])
    assert_chances(answer, scored(expected))


@pytest.mark.parametrize(("first", "second"), [(SHORT, LONG), (LONG, SHORT), (LONG, OTHER), (OTHER, LONG)])
def test_of_two_texts_each_token_is_told_once_and_in_its_place(model: Path, first: str, second: str) -> None:
    (answer,) = answers(model, [{"text": first, "text_pair": second}])
    expected = [number for text in (first, second) for number in ids_of(text) if number not in UNSCORED]
    assert answer["details"]["tokens"] == [models.PIECES[number] for number in expected]


def test_of_a_minimal_pair_the_likelier_sentence_is_told(model: Path, theirs: Any) -> None:
    record = {"good": "the cat is old", "bad": "the cat are old [MASK] now"}
    both = [
        math.fsum(log for _, log in scored(chances(theirs, models.framed(ids_of(record[name])))))
        for name in ("good", "bad")
    ]
    for given, logs in ((record, both), ({"good": record["bad"], "bad": record["good"]}, both[::-1])):
        (answer,) = answers(model, [given])
        assert answer["details"]["log_likelihoods"] == pytest.approx(logs, abs=1e-4)
        assert answer["prediction"] is (logs[0] > logs[1])


def test_the_numbers_do_not_depend_on_what_is_computed_together(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [*TEXTS, *TWO, {"text": LONG, "text_pair": OTHER}, {"good": "the cat is", "bad": "the cat are"}]
    together = answers(model, records)
    monkeypatch.setattr("bertcli.tasks.pseudo_likelihood.TOKENS", 3)
    for one, other in zip(together, answers(model, records, max_tokens=1), strict=True):
        assert one["details"]["log_likelihoods"] == pytest.approx(other["details"]["log_likelihoods"], abs=1e-5)


def test_it_is_one_pass_a_window(model: Path) -> None:
    task = of_folder(open_folder(model), LONGEST, pseudo_likelihood=True)
    assert isinstance(task, Likelihood)
    windows = len(models.halves(ids_of(LONG), LONGEST - 2))
    assert [len(task.encode(record)) for record in ({"text": SHORT}, {"text": LONG})] == [1, windows]


def test_a_text_without_a_token_is_certain(model: Path) -> None:
    for answer in answers(model, [{"text": ""}, {"text": "[MASK]"}, {"text": "a"}])[:-1]:
        assert answer["prediction"] == 0
        assert answer["details"] == {"log_likelihood": 0, "log_likelihoods": [], "tokens": []}


def test_a_bad_record_is_named_as_to_other_models() -> None:
    for record in ({"text": 3}, {"tokens": ["[CLS]"]}, {"good": "a"}):
        said = []
        for task in (Likelihood, PseudoLikelihood):
            with pytest.raises(BadData) as caught:
                task(WORDPIECE, LONGEST).encode(record)
            said.append(str(caught.value))
        assert said[0] == said[1]

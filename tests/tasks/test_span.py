"""Answers: learned where they stand, decoded as by Google's `run_squad.py`, found wherever in a context they are."""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
import torch
import warm
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from program import Result

from bertcli.errors import BadData
from bertcli.metrics.span import score
from bertcli.tasks.span import Rule, Span
from bertcli.tasks.task import Example
from bertcli.weights.folder import open_folder

WORDPIECE = models.wordpiece()
KIND = "BertForQuestionAnswering"
WORDS = ["a", "the", "cat", "xyz", "caf\u00e9,", "\u4e2d\u6587", "Tree", "\u200b", "42", "e\u0301t\u00e9", "\U0001f600"]
PART = st.tuples(st.sampled_from(WORDS), st.sampled_from([" ", "  ", "\n", "\t "]))
CONTEXT = st.integers(0, 60).flatmap(lambda size: st.lists(PART, min_size=size, max_size=size))
RULE = st.builds(Rule, stride=st.integers(1, 40), max_question=st.integers(1, 12), max_answer=st.just(60))
LENGTH = st.integers(8, 40)


def joined(parts: list[tuple[str, str]]) -> tuple[str, list[tuple[int, int]]]:
    """Returns a context, and where its words begin and end."""
    text, places = "", []
    for word, gap in parts:
        places.append((len(text), len(text) + len(word)))
        text += word + gap
    return text, places


def letters(context: str) -> list[tuple[int, int]]:
    """Returns where the pieces of a context stand in it, each with the marks on its last letter."""
    offsets = WORDPIECE.encode(context).offsets
    return [(start, end + len(re.match("[\u0300-\u036f]*", context[end:])[0])) for start, end in offsets]


def inside(example: Example) -> list[tuple[int, int]]:
    """Returns where the pieces of a window stand in the context."""
    return [(int(start), int(end)) for start, end in example["offsets"].reshape(-1, 2)]


# -- what is learned ------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(CONTEXT.filter(bool), st.data(), RULE, LENGTH, st.text(alphabet="ab ", max_size=30))
def test_an_answer_is_learned_in_each_window_that_holds_it_whole(
    parts: list[tuple[str, str]], data: st.DataObject, rule: Rule, max_length: int, question: str
) -> None:
    context, places = joined(parts)
    first = data.draw(st.integers(0, len(places) - 1))
    last = data.draw(st.integers(first, min(first + 3, len(places) - 1)))
    start, end = places[first][0], places[last][1]
    record = {"question": question, "context": context, "answers": [{"text": context[start:end], "start": start}]}
    task = Span(WORDPIECE, max_length, rule)
    whole = [(b, e) for b, e in letters(context) if b < end and e > start]
    examples = task.learn(record)
    if not whole:  # of the answer no piece is left
        assert (examples, task.lost) == ([], 1)
        return
    windows = task.encode(record)
    assert [own["ids"].tolist() for own in examples] == [own["ids"].tolist() for own in windows]
    for example, window in zip(examples, windows, strict=True):
        own, border = inside(window), int(window["segment_b"][0])
        if set(whole) <= set(own):
            begin, stop = (int(place) - border for place in example["span"])
            assert own[begin : stop + 1] == whole
        else:
            assert example["span"].tolist() == [0, 0]
    covered = [piece for window in windows for piece in inside(window)]
    assert list(dict.fromkeys(covered)) == letters(context)


@pytest.mark.parametrize(
    ("text", "start", "found"),
    [
        ("red house", 12, "red  house"),  # white space and case are the file's own
        ("RED", 0, "Red"),  # of several places the nearest
        ("red", 40, "red"),
        ("re", 4, "Red"),  # a part of a piece is that piece
        ("green", 0, None),
        ("", 0, None),
        (" ", 3, None),
    ],
)
def test_where_an_answer_is(text: str, start: int, found: str | None) -> None:
    context = "the Red cat, red  house"
    task = Span(WORDPIECE, 64)
    record = {"question": "a", "context": context, "answers": [{"text": text, "start": start}]}
    examples = task.learn(record)
    if found is None:
        assert (examples, task.lost) == ([], 1)
        assert str(task).endswith("; 1 left out, their answer is not in the context")
    else:
        (example,), (window,) = examples, task.encode(record)
        begin, stop = (int(place) - int(window["segment_b"][0]) for place in example["span"])
        assert context[inside(window)[begin][0] : inside(window)[stop][1]] == found


def test_no_answer_is_learned_as_the_first_token() -> None:
    task = Span(WORDPIECE, 16, Rule(stride=4))
    for context in ("a b c d e f g h i j k l m n", ""):
        examples = task.learn({"question": "a", "context": context, "answers": []})
        assert {tuple(example["span"]) for example in examples} == {(0, 0)}
    assert task.rule.null_threshold == 0.0
    assert task.lost == 0


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"context": "a"}, "field 'question': found nothing, expected a string"),
        ({"question": "a"}, "field 'context': found nothing, expected a string"),
        ({"question": "a", "context": "b"}, "field 'answers': found nothing, expected a list of answers"),
        (
            {"question": "a", "context": "b", "answers": [{"text": "b"}]},
            "field 'answers': found an object, expected an",
        ),
    ],
)
def test_a_bad_record_is_named_by_field(record: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        Span(WORDPIECE, 64).learn(record)
    assert str(caught.value).startswith(said)


def asked(count: int, seed: int = 0, longest: int = 20) -> list[dict[str, Any]]:
    """Returns questions with answers of no sense, some with none."""
    rng, records = random.Random(seed), []
    for number in range(count):
        words = rng.choices(models.WORDS, k=rng.randint(1, longest))
        place = rng.randrange(len(words))
        text = " ".join(words[place : place + 3])
        answers = [{"text": text, "start": len(" ".join([*words[:place], ""]))}] if rng.random() < 0.8 else []
        question = " ".join(rng.choices(models.WORDS, k=rng.randint(0, 5)))
        records.append({"id": number, "question": question, "context": " ".join(words), "answers": answers})
    return records


def test_the_loss_is_that_of_transformers(tmp_path: Path) -> None:
    path = models.save(models.theirs(KIND), tmp_path / "model")
    model = models.transformers.BertForQuestionAnswering.from_pretrained(path).eval()
    records, losses = asked(20), []
    for record in records:
        sides = [WORDPIECE.text_ids(record[name]) for name in ("question", "context")]
        first = last = 0
        if record["answers"]:  # words of one piece each
            before = record["context"][: record["answers"][0]["start"]].split()
            first = len(sides[0]) + 2 + len(before)
            last = first + len(record["answers"][0]["text"].split()) - 1
        places = {"start_positions": torch.tensor([first]), "end_positions": torch.tensor([last])}
        losses.append(model(**models.framed(*sides), **places).loss.item())
    _, network = models.opened(path)
    task = Span(WORDPIECE, 64)
    assert models.loss(task, network, models.learned(task, records)) == pytest.approx(np.mean(losses), abs=1e-5)


# -- decoding -------------------------------------------------------------------------------------------------------


def planted(task: Span, record: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    """Returns the answer where in each window these pieces, if both are in it, have the highest scores."""
    offsets, examples = letters(record["context"]), task.encode(record)
    scores = [np.random.default_rng(1).uniform(-1, 0, (len(example["ids"]), 2)) for example in examples]
    for example, own in zip(examples, scores, strict=True):
        border, pieces = int(example["segment_b"][0]), inside(example)
        if offsets[first] in pieces and offsets[last] in pieces:
            own[border + pieces.index(offsets[first]), 0] = own[border + pieces.index(offsets[last]), 1] = 5
    answer = task.decode(record, examples, task.combine(examples, scores))
    assert answer["details"]["null_score"] == min(own[0].sum() for own in scores)
    return answer


@settings(deadline=None)
@given(CONTEXT.filter(bool), st.data(), RULE, LENGTH, st.text(alphabet="ab ", max_size=30))
def test_a_span_is_found_wherever_it_is(
    parts: list[tuple[str, str]], data: st.DataObject, rule: Rule, max_length: int, question: str
) -> None:
    context, _ = joined(parts)
    offsets = letters(context)
    assume(offsets)
    record = {"question": question, "context": context}
    task = Span(WORDPIECE, max_length, rule, nbest=2)
    room = max_length - 1 - int(task.encode(record)[0]["segment_b"][0])
    # In the window where its first piece has most context, a span of half the overlap is whole.
    stride = rule.stride if rule.stride < room else room // 2
    longest = max(1, (room - stride) // 2)
    first = data.draw(st.integers(0, len(offsets) - 1))
    last = data.draw(st.integers(first, min(first + longest - 1, len(offsets) - 1)))
    answer, start, end = planted(task, record, first, last), offsets[first][0], offsets[last][1]
    assert answer["prediction"] == context[start:end] == answer["details"]["nbest"][0]["text"]
    assert [answer["details"][name] for name in ("start", "end", "score")] == [start, end, 10]


def test_windows_overlap_even_where_the_stride_is_longer_than_they_are() -> None:
    record = {"question": "a cat", "context": " ".join(random.Random(0).choices(models.WORDS, k=90))}
    task = Span(WORDPIECE, 25)  # 20 tokens of the context, and of them 10 in the next window again
    for first in range(86):
        start, end = letters(record["context"])[first][0], letters(record["context"])[first + 4][1]
        assert planted(task, record, first, first + 4)["prediction"] == record["context"][start:end]


def google(
    context: str, examples: list[Example], scores: list[Any], rule: Rule, n_best_size: int, *, may_be_none: bool
) -> tuple[list[dict[str, Any]], float, dict[str, Any] | None]:
    """Returns the n-best list of `write_predictions`, the null score, and the best span that is not empty."""
    offsets = [inside(example) for example in examples]
    prelim: list[tuple[float, int, int]] = []
    null = min(float(own[0, 0] + own[0, 1]) for own in scores)
    for number, (example, own) in enumerate(zip(examples, scores, strict=True)):
        border = int(example["segment_b"][0])
        start_indexes, end_indexes = (np.argsort(-own[:, side])[:n_best_size].tolist() for side in (0, 1))
        for start in start_indexes:
            for end in end_indexes:
                pieces = [place - border for place in (start, end)]
                if not all(0 <= piece < len(offsets[number]) for piece in pieces):
                    continue
                if end < start or end - start + 1 > rule.max_answer:
                    continue
                if number != most_context(offsets, offsets[number][pieces[0]]):
                    continue
                first, last = offsets[number][pieces[0]][0], offsets[number][pieces[1]][1]
                prelim.append((float(own[start, 0] + own[end, 1]), first, last))
    if may_be_none:
        prelim.append((null, 0, 0))
    nbest: list[dict[str, Any]] = []
    for total, first, last in sorted(prelim, key=lambda each: each[0], reverse=True):
        if len(nbest) >= n_best_size:
            break
        if context[first:last] not in [entry["text"] for entry in nbest]:
            nbest.append({"text": context[first:last], "start": first, "end": last, "score": total})
    if may_be_none and "" not in [entry["text"] for entry in nbest]:
        nbest.append({"text": "", "start": 0, "end": 0, "score": null})
    odds = [math.exp(entry["score"]) for entry in nbest]
    nbest = [entry | {"probability": each / sum(odds)} for entry, each in zip(nbest, odds, strict=True)]
    return nbest, null, next((entry for entry in nbest if entry["text"]), None)


def most_context(offsets: list[list[tuple[int, int]]], piece: tuple[int, int]) -> int:
    """Returns the window in which a piece has most context (`_check_is_max_context`)."""
    best, found = -1.0, -1
    for number, own in enumerate(offsets):
        if piece in own:
            place = own.index(piece)
            context = min(place, len(own) - 1 - place) + 0.01 * len(own)
            if context > best:
                best, found = context, number
    return found


def random_scores(examples: list[Example], seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 2, (len(example["ids"]), 2)) for example in examples]


@settings(deadline=None)
@given(CONTEXT, st.integers(8, 20), st.integers(1, 12), st.integers(1, 8), st.booleans(), st.integers(0, 10**6))
def test_decoding_is_googles(
    parts: list[tuple[str, str]], max_length: int, stride: int, max_answer: int, may_be_none: bool, seed: int
) -> None:
    # Windows of at most 20 tokens, of which Google's code tries all with each other.
    context, _ = joined(parts)
    threshold = round(random.Random(seed).uniform(-3, 3), 3) if may_be_none else None
    rule = Rule(stride, 4, max_answer, threshold)
    record = {"question": "a cat", "context": context}
    task = Span(WORDPIECE, max_length, rule, nbest=1000)
    examples = task.encode(record)
    scores = random_scores(examples, seed)
    nbest, null, best = google(context, examples, scores, rule, 1000, may_be_none=may_be_none)
    answer = task.decode(record, examples, task.combine(examples, scores))
    details = answer["details"]
    assert details["null_score"] == pytest.approx(null)
    if best is None:  # a context without a piece: the best span is empty too
        assert (details["start"], details["end"], details["score"]) == (0, 0, details["null_score"])
        assert (answer["prediction"], [entry["text"] for entry in details["nbest"]]) == ("", [""])
        return
    assert {name: details[name] for name in ("start", "end", "score")} == pytest.approx(
        {name: best[name] for name in ("start", "end", "score")}
    )
    # Google's code: score_diff > null_score_diff_threshold gives "".
    is_none = threshold is not None and null - best["score"] > threshold
    assert answer["prediction"] == ("" if is_none else best["text"])
    assert [entry["text"] for entry in details["nbest"]] == [entry["text"] for entry in nbest]
    for ours, theirs in zip(details["nbest"], nbest, strict=True):
        assert ours == pytest.approx(theirs)
    # A shorter list has the best of the long one, and always no answer where there may be none.
    short = Span(WORDPIECE, max_length, rule, nbest=2).decode(record, examples, task.combine(examples, scores))
    spans = [entry["text"] for entry in nbest if entry["text"]][:2]
    texts = [entry["text"] for entry in short["details"]["nbest"]]
    assert [text for text in texts if text] == spans
    assert texts.count("") == may_be_none
    assert sum(entry["probability"] for entry in short["details"]["nbest"]) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(20))
def test_in_long_windows_the_best_is_never_worse_than_googles(seed: int) -> None:
    context = " ".join(random.Random(seed).choices(models.WORDS, k=400))
    rule = Rule(stride=60, max_answer=5)
    record = {"question": "a cat", "context": context}
    task = Span(WORDPIECE, 200, rule)
    examples = task.encode(record)
    scores = random_scores(examples, seed)
    details = task.decode(record, examples, task.combine(examples, scores))["details"]
    (_, _, theirs), (_, _, best) = (
        google(context, examples, scores, rule, size, may_be_none=False) for size in (20, 200)
    )
    assert best is not None
    assert (theirs["score"] if theirs else -math.inf) <= details["score"] + 1e-9 <= best["score"] + 2e-9
    # Google's 20 starts are of all tokens, ours of those alone that may begin an answer of the window.
    for example, own in zip(examples, scores, strict=True):
        border = int(example["segment_b"][0])
        own[1:border, 0] += 100
        own[border:-1, 0] += 100 * ~example["is_best"]
    assert task.decode(record, examples, task.combine(examples, scores))["details"] == details


# -- no answer ------------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(-5, 5)), min_size=1, max_size=12))
def test_the_threshold_is_the_best_there_is(questions: list[tuple[bool, bool, int]]) -> None:
    assume(any(not has_answer for has_answer, _, _ in questions))
    task = Span(WORDPIECE, 64, Rule(null_threshold=0.0))
    records = []
    for has_answer, is_right, lead in questions:
        start, end = (0, 3) if is_right else (4, 7)
        details = {"start": start, "end": end, "score": 0.0, "null_score": float(lead)}
        answers = [{"text": "cat", "start": 0}] if has_answer else []
        records.append({"context": "cat dog", "answers": answers, "prediction": "?", "details": details})
    calibrated = task.calibrate(records)

    def decided(threshold: float) -> list[dict[str, Any]]:
        return [
            record | {"prediction": "" if lead > threshold else "cat" if is_right else "dog"}
            for record, (_, is_right, lead) in zip(records, questions, strict=True)
        ]

    assert score(calibrated)["f1"] == pytest.approx(max(score(decided(lead + 0.5))["f1"] for lead in range(-7, 7)))
    assert task.notes()["null_threshold"] == task.rule.null_threshold
    assert task.rule.null_threshold is not None
    assert calibrated == decided(task.rule.null_threshold)


def test_where_every_question_has_an_answer_nothing_is_fitted() -> None:
    record = {"context": "cat", "answers": [{"text": "cat", "start": 0}], "prediction": "cat", "details": {}}
    for threshold in (None, 0.5):
        task = Span(WORDPIECE, 64, Rule(null_threshold=threshold))
        assert task.calibrate([record]) == [record]
        assert task.notes() == {"stride": 128, "max_question": 64, "max_answer": 30, "null_threshold": threshold}


# -- other people's folders -----------------------------------------------------------------------------------------


@torch.no_grad()
def same_as_transformers(path: Path, records: list[dict[str, Any]]) -> None:
    """Asserts that the best span is the one of the highest sum, as transformers scores the tokens."""
    model = models.transformers.AutoModelForQuestionAnswering.from_pretrained(path).eval()
    tokenizer = models.transformers.AutoTokenizer.from_pretrained(path)
    for record, answer in zip(records, models.answers(path, records), strict=True):
        inputs = tokenizer([record["question"]], [record["context"]], return_offsets_mapping=True, return_tensors="pt")
        places = inputs.pop("offset_mapping")[0].tolist()
        output, sides = model(**inputs), inputs.sequence_ids()
        first, last = output.start_logits[0], output.end_logits[0]
        own = [place for place, side in enumerate(sides) if side == 1]
        sums = {(start, end): float(first[start] + last[end]) for start in own for end in own if 0 <= end - start < 30}
        details = answer["details"]
        assert details["null_score"] == pytest.approx(float(first[0] + last[0]), abs=1e-5)
        assert details["score"] == pytest.approx(max(sums.values()), abs=1e-5)
        start, end = max(sums, key=lambda span: sums[span])
        assert [details["start"], details["end"]] == [places[start][0], places[end][1]]
        assert answer["prediction"] in ("", record["context"][places[start][0] : places[end][1]])
        assert {name: answer[name] for name in record} == record


def test_answers_are_those_of_transformers(tmp_path: Path) -> None:
    path = models.save(models.theirs(KIND), tmp_path / "model")
    records = [*asked(30), {"question": "", "context": "caf\u00e9, xyz"}]
    same_as_transformers(path, records)
    assert all(answer["prediction"] for answer in models.answers(path, records))  # without a threshold


def test_a_head_goes_on_whatever_its_outputs_are_called(bertcli: Callable[..., Result], tmp_path: Path) -> None:
    path = models.save(models.theirs(KIND, id2label={0: "start", 1: "end"}), tmp_path / "model")
    line = ["finetune", "span", "-m", path, "-o", "again", "--lr", 1e-12, "--epochs", 1, "--max-length", 64]
    records = [record for record in asked(9) if record["answers"]]
    again = bertcli(*line, stdin=models.lines(records))
    assert (again.status, "fresh" in again.err) == (0, False)
    one, other = (
        [answer["details"] for answer in models.answers(each, records)] for each in (path, tmp_path / "again")
    )
    assert one == [pytest.approx(details, abs=1e-5) for details in other]


# -- the command ----------------------------------------------------------------------------------------------------


def numbered(count: int, seed: int, longest: int = 40, share: float = 0.8) -> list[dict[str, Any]]:
    """Returns contexts with a colour and a figure after it, which are the answer, or without an answer."""
    rng, records = random.Random(seed), []
    for number in range(count):
        words = rng.choices(models.PLAIN, k=rng.randint(1, longest))
        answers = []
        if rng.random() < share:
            place, text = rng.randrange(len(words) + 1), f"{rng.choice(models.COLOURS)} {rng.randint(0, 9)}"
            answers = [{"text": text, "start": len(" ".join([*words[:place], ""]))}]
            words.insert(place, text)
        records.append({"id": f"q{number}", "question": "was it", "context": " ".join(words), "answers": answers})
    return records


OPTIONS = ["--lr", 3e-3, "--batch-size", 16, "--epochs", 4, "--max-length", 32, "--stride", 12]


@pytest.fixture(scope="module")
def trained(program: warm.Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("span")
    (folder / "dev.jsonl").write_bytes(models.lines(numbered(50, 1)))
    return models.finetuned(program, folder, "span", numbered(200, 0), *OPTIONS, "--dev", folder / "dev.jsonl")


def test_a_toy_task_is_learned(bertcli: Callable[..., Result], trained: Path) -> None:
    notes = json.loads((trained / "bertcli.json").read_text())
    assert notes["dev"]["f1"] > 95
    assert {"stride": 12, "max_question": 64, "max_answer": 30}.items() <= notes.items()
    assert open_folder(trained).architecture == KIND
    same_as_transformers(trained, numbered(20, 2, longest=15))
    predicted = bertcli("predict", "-m", trained, stdin=models.lines(numbered(50, 1)))
    assert (predicted.status, predicted.err) == (0, "")
    for record in predicted.records:  # the threshold of the folder
        is_none = record["details"]["null_score"] - record["details"]["score"] > notes["null_threshold"]
        assert (record["prediction"] == "") == is_none
    (scores,) = bertcli("score", "span", stdin=models.lines(predicted.records)).records
    assert scores["f1"] == pytest.approx(notes["dev"]["f1"])
    always = bertcli("predict", "-m", trained, "--null-threshold", 1e9, stdin=models.lines(numbered(50, 1)))
    assert all(record["prediction"] for record in always.records)


def test_an_answer_is_found_wherever_it_is(bertcli: Callable[..., Result], trained: Path) -> None:
    words = random.Random(5).choices(models.PLAIN, k=20_000)
    words[19_000:19_002] = ["blue", "7"]
    words[10] = "caf\u00e9,\n "
    far = {"id": "far", "question": "was it", "context": " ".join(words)}
    long = {"id": "long", "question": "was it " * 100, "context": " ".join(["the house", "red 3", "water " * 50])}
    edges = [
        {"id": "nothing", "question": "was it", "context": ""},
        {"id": "blank", "question": "was it", "context": " \u200b "},
        {"id": "unasked", "question": "", "context": "the house red 3"},
    ]
    options = ["--nbest", 2, "--null-threshold", 0]
    result = bertcli("predict", "-m", trained, *options, stdin=models.lines([far, long, *edges]))
    assert result.status == 0
    assert "1 of 5 questions were cut to 14 tokens" in result.err
    answers = {record["id"]: record for record in result.records}
    assert list(answers) == ["far", "long", "nothing", "blank", "unasked"]
    details, start = answers["far"]["details"], far["context"].index("blue 7")
    assert answers["far"]["prediction"] == details["nbest"][0]["text"] == "blue 7"
    assert (details["start"], details["end"]) == (start, start + 6)
    assert answers["long"]["prediction"] == "red 3"
    for name in ("nothing", "blank"):
        details = answers[name]["details"]
        assert answers[name]["prediction"] == ""
        assert (details["start"], details["end"], details["score"]) == (0, 0, details["null_score"])
        assert [entry["text"] for entry in details["nbest"]] == [""]


def test_squad_is_read_answered_and_written(bertcli: Callable[..., Result], trained: Path, tmp_path: Path) -> None:
    records = numbered(30, 7)
    paragraphs = [
        {
            "context": record["context"],
            "qas": [
                {
                    "id": record["id"],
                    "question": record["question"],
                    "answers": [{"text": each["text"], "answer_start": each["start"]} for each in record["answers"]],
                    "is_impossible": not record["answers"],
                },
                {"id": f"{record['id']} again", "question": "", "answers": []},
            ],
        }
        for record in records
    ]
    (tmp_path / "dev.json").write_text(json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    read = bertcli("read", "squad", "dev.json", "--plain")
    predicted = bertcli("predict", "-m", trained, "--nbest", 3, "--plain", stdin=read.out)
    wanted = {name for record in records for name in (record["id"], f"{record['id']} again")}
    for format_name in ("squad", "squad-nbest", "squad-odds"):
        written = bertcli("write", format_name, stdin=predicted.out)
        assert written.status == 0, written.err
        pairs = json.loads(written.out, object_pairs_hook=list)
        assert len(pairs) == 60
        assert {name for name, _ in pairs} == wanted
        if format_name == "squad":
            assert dict(pairs) == {record["id"]: record["prediction"] for record in predicted.records}


def test_faults_of_the_data(bertcli: Callable[..., Result], trained: Path, tmp_path: Path) -> None:
    line = ["finetune", "span", "-m", trained, "-o", "model", *OPTIONS, "--epochs", 1]
    good = models.lines(numbered(9, 0))
    bare = bertcli(*line, stdin=good + models.lines([{"question": "a", "context": "b"}]))
    assert bare.status == 65
    assert "<stdin>:10: field 'answers': found nothing, expected a list of answers" in bare.err
    (tmp_path / "dev.jsonl").write_bytes(models.lines([{"question": "a", "context": "b"}]))
    unlabelled = bertcli(*line, "--dev", "dev.jsonl", stdin=good)
    assert unlabelled.status == 65
    assert "dev.jsonl:1: field 'answers': found nothing" in unlabelled.err
    lost = {"question": "a", "context": "b", "answers": [{"text": "green", "start": 0}]}
    kept = bertcli(*line, stdin=good + models.lines([lost]))
    assert kept.status == 0, kept.err
    assert "1 left out, their answer is not in the context" in kept.err
    assert "fresh" not in kept.err  # the head goes on
    assert bertcli(*line, "--force", stdin=models.lines([lost])).status == 65

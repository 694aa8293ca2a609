"""The prediction loop: order, early answers, nothing that hangs on how sequences are gathered, and several models."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from threading import Barrier, Event, Lock, get_ident
from typing import Any

import models
import numpy as np
import pytest
import torch
import toys
import warm
from program import Result

from bertcli.engine import predict as module
from bertcli.engine.device import choose
from bertcli.engine.lanes import CPU_LANES, lanes, shares
from bertcli.engine.predict import computed, gathered, predict
from bertcli.errors import Diverged
from bertcli.tasks.classification import Classification
from bertcli.tasks.task import build

LABELS = ("a", "b", "c")
WORDPIECE = models.wordpiece()
TASK = Classification(WORDPIECE, 64, LABELS)
NETWORK = build(TASK, models.config(initializer_range=0.3, labels=LABELS))


def records(count: int) -> list[dict[str, Any]]:
    rng = random.Random(6)
    return [{"id": number, "text": models.text(rng, rng.randint(0, 50))} for number in range(count)]


def encoded(items: list[dict[str, Any]], pulled: list[int] | None = None) -> Iterator[tuple[Any, Any]]:
    for item in items:
        if pulled is not None:
            pulled.append(item["id"])
        yield item, TASK.encode(item)


@pytest.fixture
def cores(request: pytest.FixtureRequest) -> Iterator[int]:
    """Lets torch have so many cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("cores", [1, 3], indirect=True)
def test_order_is_kept_and_max_tokens_changes_nothing(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    items = records(600)
    whole = list(predict([NETWORK], TASK, encoded(items), choose("cpu", max_tokens=10_000)))
    assert [{name: answer[name] for name in item} for item, answer in zip(items, whole, strict=True)] == items
    monkeypatch.setattr(module, "WINDOW", 9)
    for max_tokens in (1, 300):
        part = list(predict([NETWORK], TASK, encoded(items), choose("cpu", max_tokens=max_tokens)))
        for one, other in zip(whole, part, strict=True):
            assert one["id"] == other["id"]
            assert one["details"]["probabilities"] == pytest.approx(other["details"]["probabilities"], abs=1e-5)


def paused(pulled: list[int]) -> Iterator[tuple[Any, Any] | None]:
    """Yields 200 items, after the third and the fiftieth of which the next has to be waited for."""
    for item in encoded(records(200), pulled):
        yield item
        if len(pulled) in (3, 50):
            yield None


@pytest.mark.parametrize("cores", [1, 3], indirect=True)
def test_what_has_come_is_answered_before_more_is_waited_for(cores: int) -> None:
    pulled: list[int] = []
    found = computed([NETWORK], TASK, paused(pulled), choose("cpu", max_tokens=1_000_000), itemgetter(1))
    for last in (3, 50):
        ids = [item[0]["id"] for item, _ in iter(lambda: next(found), None)]
        assert (len(pulled), ids[-1]) == (last, last - 1)
    assert [item[0]["id"] for item, _ in filter(None, found)] == list(range(50, 200))


@pytest.mark.parametrize("cores", [2, 5, 12, 15, 20], indirect=True)
def test_passes_share_the_cores(cores: int) -> None:
    device, usual = torch.device("cpu"), sys.getswitchinterval()
    count = shares(device, 100)
    together = Barrier(count, timeout=warm.PATIENCE)
    with lanes(device, count) as start:
        passes = [start(lambda: together.wait() < count and torch.get_num_threads()) for _ in range(count)]
        (own,) = {each.result() for each in passes}
    assert cores - own < count * own <= cores
    assert count <= CPU_LANES
    assert sys.getswitchinterval() == usual


@pytest.mark.parametrize("cores", [8], indirect=True)
@pytest.mark.parametrize("max_tokens", [1, 64, 128, 1024])
def test_all_passes_under_way_have_at_most_max_tokens(
    cores: int, max_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most, lock = [0], [0], Lock()
    outputs = module._outputs

    def watched(network: Any, task: Any, examples: list[Any], device: Any) -> list[Any]:
        tokens = sum(len(example["ids"]) for example in examples)
        with lock:
            under_way[0] += tokens
            most[0] = max(most[0], under_way[0])
        try:
            return outputs(network, task, examples, device)
        finally:
            with lock:
                under_way[0] -= tokens

    monkeypatch.setattr(module, "_outputs", watched)
    answers = list(predict([NETWORK], TASK, encoded(records(300)), choose("cpu", max_tokens=max_tokens)))
    assert len(answers) == 300
    assert most[0] <= max(max_tokens, 64)  # one sequence is always under way
    assert shares(torch.device("cpu"), max_tokens // 64) == max(1, min(8, max_tokens // 64))


@pytest.mark.parametrize("cores", [2], indirect=True)
def test_a_pass_that_is_alone_has_all_cores(cores: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a slow producer waits for its answer; not by the hour: rounding hangs on it."""
    seen, outputs = list[tuple[int, int]](), module._outputs

    def watched(network: Any, task: Any, examples: list[Any], device: Any) -> list[Any]:
        seen.append((len(examples), torch.get_num_threads()))
        return outputs(network, task, examples, device)

    def passes(is_done: bool) -> list[tuple[int, int]]:
        seen.clear()
        monkeypatch.setattr(module._Window, "is_done", is_done)
        found = computed([NETWORK], TASK, encoded(records(300)), choose("cpu", max_tokens=512), itemgetter(1))
        assert len(list(found)) == 300
        assert [threads for _, threads in seen[:2]] == [2, 2]  # windows begin small
        assert seen[-2][1] == 1
        return sorted(seen)

    monkeypatch.setattr(module, "_outputs", watched)
    assert passes(is_done=True) == passes(is_done=False)


@pytest.mark.parametrize("cores", [1, 3], indirect=True)
@pytest.mark.parametrize("bad", [0, 40, 199])
def test_what_comes_before_an_answer_that_is_no_number_has_no_gap(cores: int, bad: int) -> None:
    network = build(TASK, models.config(labels=LABELS), seed=1)
    with torch.no_grad():
        network.bert.embeddings.word.weight[WORDPIECE.mask] = torch.nan
    items = list(encoded(records(200)))
    items[bad][1][0]["ids"][0] = WORDPIECE.mask
    found = []
    with pytest.raises(Diverged):
        found.extend(computed([network], TASK, items, choose("cpu", max_tokens=64), itemgetter(1)))
    ids = [each and each[0][0]["id"] for each in found]
    assert ids == [*range(len(ids) - 1), None]
    assert bad / 2 <= len(ids) - 1 <= bad


@pytest.mark.parametrize("cores", [2], indirect=True)
def test_who_ends_early_does_not_wait_for_passes(cores: int) -> None:
    go_on = Event()
    try:
        with lanes(torch.device("cpu"), 2) as start:
            passes = [start(go_on.wait, warm.PATIENCE) for _ in range(3)]
        assert [each.done() for each in passes] == [False, False, True]
        assert passes[2].cancelled()
    finally:
        go_on.set()


def test_nothing_in_is_nothing_out() -> None:
    assert list(predict([NETWORK], TASK, encoded([]), choose("cpu"))) == []


def test_windows_are_shorter_where_the_producer_is_slow() -> None:
    lengths = [len(window) for window in gathered(range(400), 128)]
    assert lengths == [2, 4, 8, 16, 32, 64, 128, 128, 18]
    items = ["a", None, *"bcdefg", None, None, "h"]
    assert list(gathered(items, 256)) == [["a"], [], [*"bcdefg"], [], [], ["h"]]
    assert [len(window) for window in gathered([5, 1, 1, 1], 128, lambda item: item)] == [1, 3]


# -- several models -------------------------------------------------------------------------------------------------


def of_labels(labels: Sequence[str], **others: Any) -> dict[str, Any]:
    """Returns the part of a config that names the outputs of a head, in that order."""
    names = dict(enumerate(labels))
    return {"id2label": names, "label2id": {name: number for number, name in names.items()}, **others}


TAGS = ("B-ANIMAL", "B-THING", "O")
COLOURS = ("blue", "red", "white")
SEVERAL = "multi_label_classification"
KINDS: dict[str, tuple[str, list[dict[str, Any]]]] = {  # a class of transformers, and the configs of three folders
    "classification": (
        "BertForSequenceClassification",
        [of_labels(order) for order in (COLOURS, COLOURS[::-1], ("red", "blue", "white"))],
    ),
    "several labels": (
        "BertForSequenceClassification",
        [of_labels(order, problem_type=SEVERAL) for order in (COLOURS, COLOURS[::-1], COLOURS)],
    ),
    "regression": ("BertForSequenceClassification", [{"num_labels": 1}] * 3),
    "tagging": ("BertForTokenClassification", [of_labels(order) for order in (TAGS, TAGS[::-1], TAGS)]),
    "span": ("BertForQuestionAnswering", [{}] * 3),
    "choice": ("BertForMultipleChoice", [{}] * 3),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with three models of each kind, `KIND-0` to `KIND-2`, records of each, and other models."""
    home = tmp_path_factory.mktemp("home")
    for kind, (name, configs) in KINDS.items():
        for number, config in enumerate(configs):
            models.save(models.theirs(name, seed=number, **config), home / f"{kind}-{number}")
        own = toys.records(kind.replace("several labels", "classification"), 40, seed=2)
        own += models.coloured(3, longest=90) if kind in ("classification", "several labels") else []  # with windows
        (home / f"{kind}.jsonl").write_bytes(models.lines(own))
    toys.start(home / "pretrained")
    config = of_labels(("blue", "red"))
    models.save(models.theirs("BertForSequenceClassification", **config), home / "two labels")
    other = models.save(
        models.theirs("BertForSequenceClassification", vocab_size=len(models.PIECES) + 1, **of_labels(COLOURS)),
        home / "more pieces",
    )
    (other / "tokenizer.json").unlink()
    (other / "vocab.txt").write_text("".join(f"{piece}\n" for piece in [*models.PIECES, "more"]))
    return home


@pytest.fixture(scope="module")
def asked(home: Path, program: warm.Program) -> Callable[..., Result]:
    """Runs `predict` on the records of a kind, with some of its folders and options."""

    def asked(kind: str, numbers: Sequence[int], *options: object, **variables: str) -> Result:
        folders = [word for number in numbers for word in ("-m", f"{kind}-{number}")]
        line = ["predict", f"{kind}.jsonl", "--plain", "--device", "cpu", *folders, *map(str, options)]
        return program.run(line, home, **variables)

    return asked


def numbers_of(record: dict[str, Any]) -> Any:
    """Returns what of an answer is to be the mean of several models': by name where labels have names."""
    found = record["details"].get("probabilities", record["prediction"])
    return [found[name] for name in sorted(found)] if isinstance(found, dict) else found


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("kind", ["classification", "several labels", "regression", "choice"])
def test_several_models_answer_with_the_mean_of_each_alone(asked: Callable[..., Result], kind: str, count: int) -> None:
    """Whatever the order in which each has its labels, and that of the folders."""
    alone = [np.array([numbers_of(record) for record in _ragged(asked(kind, [n]).records)]) for n in range(count)]
    joined = asked(kind, range(count))
    assert joined.status == 0, joined.err
    mean = np.mean(alone, axis=0)
    assert np.abs(mean - np.array([numbers_of(record) for record in _ragged(joined.records)])).max() < 1e-6
    assert np.abs(alone[0] - mean).max() > 1e-3  # they do differ
    turned = asked(kind, range(count)[::-1]).records
    assert np.allclose([numbers_of(record) for record in _ragged(turned)], mean, atol=1e-6)
    for record in joined.records:
        numbers = record["details"].get("probabilities")
        if kind == "classification":
            assert record["prediction"] == max(numbers, key=numbers.__getitem__)
        elif kind == "several labels":
            assert record["prediction"] == sorted(name for name in numbers if numbers[name] >= 0.5)
        elif kind == "choice":
            assert record["prediction"] == int(np.argmax(numbers))


def _ragged(records: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields records, their probabilities filled up to the same number of choices."""
    for record in records:
        found = record["details"].get("probabilities")
        filled = [*found, *[0.0] * (4 - len(found))] if isinstance(found, list) else found
        yield record if found is None else {**record, "details": {"probabilities": filled}}


@torch.no_grad()
def test_several_taggers_answer_with_the_mean_of_each_alone(asked: Callable[..., Result], home: Path) -> None:
    """Of which `predict` tells the likeliest label's, so that the others come from transformers."""
    answered = asked("tagging", [0, 1, 2]).records
    tokenizer = models.tokenizer()
    networks = [
        models.transformers.AutoModelForTokenClassification.from_pretrained(home / f"tagging-{number}").eval()
        for number in range(3)
    ]
    for record in answered:
        inputs = tokenizer(record["words"], is_split_into_words=True, return_tensors="pt")
        firsts = [inputs.word_ids().index(number) for number in range(len(record["words"]))]
        mean = np.zeros((len(firsts), len(TAGS)))
        for network in networks:
            found = network(**inputs).logits[0, firsts].double().softmax(-1).numpy()
            mean += found[:, [network.config.label2id[tag] for tag in TAGS]] / len(networks)
        assert record["prediction"] == [TAGS[best] for best in mean.argmax(-1)]
        assert record["details"]["probabilities"] == pytest.approx(mean.max(-1).tolist(), abs=1e-5)
    alone = asked("tagging", [0]).records
    assert [record["prediction"] for record in alone] != [record["prediction"] for record in answered]


@torch.no_grad()
def test_several_models_find_the_span_of_their_mean_scores(asked: Callable[..., Result], home: Path) -> None:
    """Raw scores are averaged, and then the best span is looked for: not the mean of the best ones."""
    answered = asked("span", [0, 1, 2], "--max-answer", 3, "--null-threshold", 0).records
    tokenizer = models.tokenizer()
    networks = [
        models.transformers.AutoModelForQuestionAnswering.from_pretrained(home / f"span-{number}").eval()
        for number in range(3)
    ]
    for record in answered:
        inputs = tokenizer(record["question"], record["context"], return_tensors="pt", return_offsets_mapping=True)
        offsets = inputs.pop("offset_mapping")[0].tolist()
        outputs = [network(**inputs) for network in networks]
        start, end = (
            torch.stack([getattr(output, name)[0] for output in outputs]).double().mean(0).numpy()
            for name in ("start_logits", "end_logits")
        )
        inside = [place for place, side in enumerate(inputs.sequence_ids()) if side == 1]
        spans = {(a, b): start[a] + end[b] for a in inside for b in inside if a <= b < a + 3}
        first, last = max(spans, key=spans.__getitem__)
        details = record["details"]
        assert details["score"] == pytest.approx(spans[first, last], abs=1e-5)
        assert details["null_score"] == pytest.approx(start[0] + end[0], abs=1e-5)
        assert (details["start"], details["end"]) == (offsets[first][0], offsets[last][1])
        is_none = details["null_score"] > details["score"]
        assert record["prediction"] == ("" if is_none else record["context"][details["start"] : details["end"]])
    alone = [asked("span", [number], "--max-answer", 3).records for number in range(3)]
    best = [np.mean([each[at]["details"]["score"] for each in alone]) for at in range(len(answered))]
    assert max(abs(a - b["details"]["score"]) for a, b in zip(best, answered, strict=True)) > 0.01


def test_one_model_twice_is_that_model(asked: Callable[..., Result]) -> None:
    for kind in KINDS:
        assert asked(kind, [0, 0]).records == asked(kind, [0]).records


def test_thresholds_of_no_answer_are_averaged(asked: Callable[..., Result], home: Path) -> None:
    """Where each has one; `--null-threshold` is what counts where it is given."""
    leads = [r["details"]["null_score"] - r["details"]["score"] for r in asked("span", [0, 1]).records]
    low, high = np.quantile(leads, [0.2, 0.6])

    def silent(*options: object) -> list[bool]:
        return [record["prediction"] == "" for record in asked("span", [0, 1], *options).records]

    try:
        (home / "span-0" / "bertcli.json").write_text(json.dumps({"null_threshold": low}))
        assert not any(silent())  # the other has none, and always answers
        (home / "span-1" / "bertcli.json").write_text(json.dumps({"null_threshold": high}))
        assert silent() == [lead > (low + high) / 2 for lead in leads]
        assert silent("--null-threshold", high) == [lead > high for lead in leads]
    finally:
        for number in (0, 1):
            (home / f"span-{number}" / "bertcli.json").unlink(missing_ok=True)


# -- which models, and options --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folders", "difference"),
    [
        (("classification-0", "tagging-0"), "tasks"),
        (("classification-0", "several labels-0"), "tasks"),
        (("classification-0", "regression-0"), "tasks"),
        (("classification-0", "pretrained"), "tasks"),
        (("pretrained", "classification-0"), "several models"),
        (("pretrained", "pretrained"), "several models"),
        (("classification-0", "classification-1", "two labels"), "labels"),
        (("classification-0", "more pieces"), "vocabularies"),
    ],
)
def test_models_that_cannot_answer_together_are_named(
    home: Path, program: warm.Program, folders: tuple[str, ...], difference: str
) -> None:
    words = [word for folder in folders for word in ("-m", folder)]
    result = program.run(["predict", "classification.jsonl", *words], home)
    assert (result.status, result.out) == (2, b"")
    if difference == "several models":
        assert "several models are an ensemble of a task that they were fine-tuned for" in result.err
    else:
        assert f"{folders[0]} and {folders[-1]} differ in their {difference}" in result.err


def test_another_casing_is_another_vocabulary(home: Path, program: warm.Program) -> None:
    path = home / "classification-2" / "tokenizer_config.json"
    before = path.read_text()
    try:
        path.write_text(json.dumps({"do_lower_case": False, "strip_accents": False}))
        result = program.run(
            ["predict", "classification.jsonl", "-m", "classification-0", "-m", "classification-2"], home
        )
    finally:
        path.write_text(before)
    assert result.status == 2
    assert "classification-0 and classification-2 differ in their vocabularies" in result.err


def test_the_variable_is_one_path_with_a_colon_in_it_too(
    asked: Callable[..., Result], home: Path, program: warm.Program
) -> None:
    (home / "a:b").symlink_to(home / "choice-1")
    expected = asked("choice", [1]).records
    assert asked("choice", [], BERTCLI_MODEL="a:b").records == expected
    assert asked("choice", [1], BERTCLI_MODEL="nowhere").records == expected
    nowhere = asked("choice", [], BERTCLI_MODEL="nowhere:choice-1")
    assert (nowhere.status, "nowhere:choice-1" in nowhere.err) == (66, True)


def test_nbest_answers_have_scores_and_probabilities(asked: Callable[..., Result]) -> None:
    usual, named = asked("span", [0]).records, asked("span", [0], "--nbest", 3).records
    for record, bare in zip(named, usual, strict=True):
        nbest = record["details"].pop("nbest")
        assert record == bare
        assert 1 <= len(nbest) <= 3
        assert {name: nbest[0][name] for name in ("start", "end", "score")} == {
            name: record["details"][name] for name in ("start", "end", "score")
        }
        scores = [each["score"] for each in nbest]
        assert scores == sorted(scores, reverse=True)
        assert sum(each["probability"] for each in nbest) == pytest.approx(1)
        odds = np.exp(np.array(scores) - scores[0])
        assert [each["probability"] for each in nbest] == pytest.approx((odds / odds.sum()).tolist())
        assert len({each["text"] for each in nbest}) == len(nbest)
        assert all(each["text"] == record["context"][each["start"] : each["end"]] for each in nbest)
    with_none = asked("span", [0], "--nbest", 3, "--null-threshold", 0).records
    for record in with_none:  # where there may be no answer, that is among them
        (none,) = [each for each in record["details"]["nbest"] if each["text"] == ""]
        assert none["score"] == record["details"]["null_score"]


@pytest.mark.parametrize(
    "option", [("--nbest", 2), ("--null-threshold", 1), ("--stride", 9), ("--max-question", 9), ("--max-answer", 9)]
)
@pytest.mark.parametrize("kind", [*(kind for kind in KINDS if kind != "span"), "pretrained"])
def test_options_of_span_are_of_no_other_task(
    home: Path, program: warm.Program, kind: str, option: tuple[str, int]
) -> None:
    folder = kind if kind == "pretrained" else f"{kind}-0"
    result = program.run(["predict", "classification.jsonl", "-m", folder, option[0], str(option[1])], home)
    assert (result.status, result.out) == (2, b"")
    assert f"{option[0]} is an option of span, not of " in result.err


def test_top_k_is_of_a_pretrained_model_alone(home: Path, program: warm.Program) -> None:
    for kind in KINDS:
        result = program.run(["predict", f"{kind}.jsonl", "-m", f"{kind}-0", "--top-k", "3"], home)
        assert (result.status, "--top-k is an option of pretraining, not of " in result.err) == (2, True)


@pytest.mark.parametrize("cores", [2], indirect=True)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_what_is_compiled_is_computed_in_one_thread(
    cores: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While torch compiles for one thread, another that calls what is compiled fails."""
    threads, outputs = set(), TASK.outputs

    def seen(*given: Any) -> list[Any]:
        threads.add(get_ident())
        return outputs(*given)

    monkeypatch.setattr(TASK, "outputs", seen)
    monkeypatch.setattr(NETWORK, "is_compiled", is_compiled)
    assert len(list(predict([NETWORK], TASK, encoded(records(200)), choose("cpu", max_tokens=200)))) == 200
    assert (threads == {get_ident()}) == is_compiled

"""What all tasks share: how a text or two become sequences, and losses that are sums."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import toys
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli import tasks
from bertcli.engine.graphs import filled
from bertcli.model.heads import Network
from bertcli.tasks.choice import Choice
from bertcli.tasks.classification import Classification
from bertcli.tasks.regression import Regression
from bertcli.tasks.span import Span
from bertcli.tasks.tagging import Tagging
from bertcli.tasks.task import Example, Task, array, build, headed, readings, sequence

WORDPIECE = models.wordpiece()
LETTERS = [number for number, piece in enumerate(models.PIECES) if piece in models.LETTERS]
SIDE = st.lists(st.sampled_from(LETTERS), max_size=30)
ROOM = st.integers(8, 40)
THREADS = Path("/proc/self/task")


def google(first: list[int], second: list[int], room: int) -> list[int]:
    """Returns what `run_classifier.py` makes of two texts, a token at a time (`_truncate_seq_pair`)."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room - 3:
        (first if len(first) > len(second) else second).pop()
    return [WORDPIECE.cls, *first, WORDPIECE.sep, *second, WORDPIECE.sep]


@given(SIDE, ROOM)
def test_one_text_is_cut_at_its_end(first: list[int], room: int) -> None:
    example, cut = sequence(WORDPIECE, first, None, room)
    assert example["ids"].tolist() == [WORDPIECE.cls, *first[: room - 2], WORDPIECE.sep]
    assert example["segment_b"].tolist() == [-1]
    assert cut == (len(first) + 2 > room)


@given(SIDE, SIDE, ROOM)
def test_two_texts_are_cut_as_google_cuts_them(first: list[int], second: list[int], room: int) -> None:
    example, cut = sequence(WORDPIECE, first, second, room)
    ids = google(first, second, room)
    assert example["ids"].tolist() == ids
    assert example["segment_b"].tolist() == [ids.index(WORDPIECE.sep) + 1]
    assert cut == (len(first) + len(second) + 3 > room)


def transformers_cuts(first: list[int], second: list[int], room: int) -> list[int]:
    """Returns what transformers makes of the same letters under `truncation=True`."""
    texts = (" ".join(models.PIECES[number] for number in side) for side in (first, second))
    ids: list[int] = models.tokenizer()(*texts, truncation=True, max_length=room)["input_ids"]
    return ids


@settings(deadline=None)
@given(SIDE, SIDE.filter(bool), ROOM)  # without a batch, transformers takes an empty second text for none
def test_transformers_cuts_alike_but_for_the_odd_token(first: list[int], second: list[int], room: int) -> None:
    # Where both sides are cut and the room for them is odd, the odd token is the longer side's there, the second's
    # if none is longer; with Google it is the first's.
    ours = sequence(WORDPIECE, first, second, room)[0]["ids"].tolist()
    theirs = transformers_cuts(first, second, room)
    space = room - 3
    are_both_cut = min(len(first), len(second)) > space // 2
    if are_both_cut and space % 2 and len(first) <= len(second):
        half = space // 2
        assert ours == [WORDPIECE.cls, *first[: half + 1], WORDPIECE.sep, *second[:half], WORDPIECE.sep]
        assert theirs == [WORDPIECE.cls, *first[:half], WORDPIECE.sep, *second[: half + 1], WORDPIECE.sep]
    else:
        assert ours == theirs


def test_arrays_are_small() -> None:
    assert array([1, 2]).dtype.itemsize == 4


# -- long texts -----------------------------------------------------------------------------------------------------


@given(st.integers(0, 90), st.integers(-1, 90), st.integers(8, 40))
def test_every_token_of_a_text_or_two_is_read(letters: int, others: int, room: int) -> None:
    first, second = list(range(1000, 1000 + letters)), list(range(2000, 2000 + others)) if others >= 0 else None
    task = Classification(WORDPIECE, room, ["a", "b"])
    examples = readings(task, first, second)
    read = {number for example in examples for number in example["ids"].tolist()}
    assert read - {WORDPIECE.cls, WORDPIECE.sep} == {*first, *(second or [])}
    for example in examples:
        ids, border = example["ids"].tolist(), int(example["segment_b"][0])
        assert len(ids) <= room
        assert (ids[0], ids[-1]) == (WORDPIECE.cls, WORDPIECE.sep)
        assert ids.count(WORDPIECE.sep) == (1 if second is None else 2)
        assert border == (-1 if second is None else ids.index(WORDPIECE.sep) + 1)
    assert task.shortened == 0


@given(SIDE, SIDE, ROOM)
def test_with_cut_there_is_one_sequence(first: list[int], second: list[int], room: int) -> None:
    task = Classification(WORDPIECE, room, ["a", "b"], cut=True)
    (example,) = readings(task, first, second)
    assert example["ids"].tolist() == google(first, second, room)
    assert task.shortened == (len(first) + len(second) + 3 > room)


# -- in use ---------------------------------------------------------------------------------------------------------

IN_USE: list[tuple[Task, dict[str, Any], dict[str, Any]]] = [
    (Classification(WORDPIECE, 32, ["a", "b"]), {"text": "a", "text_pair": "b"}, {"label": 3.5, "labels": "x"}),
    (Regression(WORDPIECE, 32), {"text": "a", "text_pair": "b"}, {"label": "x"}),
    (Tagging(WORDPIECE, 32, ["O", "B"]), {"words": ["a", "xyz"]}, {"labels": ["x", 1, None]}),
    (Span(WORDPIECE, 32), {"question": "a", "context": "b c"}, {"answers": "x"}),
    (Choice(WORDPIECE, 32), {"text": "a", "choices": ["b", "c"]}, {"label": 7}),
]


@pytest.mark.parametrize(("task", "record", "truth"), IN_USE, ids=[task.name for task, _, _ in IN_USE])
def test_the_truth_is_not_needed_nor_looked_at(task: Task, record: dict[str, Any], truth: dict[str, Any]) -> None:
    bare, known = task.encode(record), task.encode(record | truth)
    for one, other in zip(bare, known, strict=True):
        assert {name: each.tolist() for name, each in one.items()} == {n: each.tolist() for n, each in other.items()}
    assert task.collate(known).counts == {}


# -- law 6: a loss is a sum, divided once ---------------------------------------------------------------------------


def several(count: int) -> list[dict[str, Any]]:
    rng = random.Random(1)
    return [
        {"text": models.text(rng, 9), "labels": rng.sample(["a", "b", "c"], rng.randint(0, 3))} for _ in range(count)
    ]


def longer(record: dict[str, Any]) -> dict[str, Any]:
    """Returns a record that does not fit into one window, with the same answer."""
    tail = " of the water" * 12
    longer = {name: record[name] + tail for name in ("text", "context") if name in record}
    if "words" in record:
        longer = {"words": record["words"] + tail.split(), "labels": record["labels"] + ["O"] * len(tail.split())}
    return record | longer


LOSSES: dict[str, tuple[Callable[[], Task], Callable[[int], list[dict[str, Any]]]]] = {
    "classification": (lambda: Classification(WORDPIECE, 32), lambda count: toys.records("classification", count)),
    "weighted": (
        lambda: Classification(WORDPIECE, 32, class_weights={"red": 5.0}),
        lambda count: toys.records("classification", count),
    ),
    "several": (lambda: Classification(WORDPIECE, 32, class_weights="balanced"), several),
    "regression": (lambda: Regression(WORDPIECE, 32), lambda count: toys.records("regression", count)),
    "tagging": (lambda: Tagging(WORDPIECE, 32), lambda count: toys.records("tagging", count)),
    "span": (lambda: Span(WORDPIECE, 32), lambda count: toys.records("span", count)),
    "choice": (lambda: Choice(WORDPIECE, 32), lambda count: toys.records("choice", count)),
}


@cache
def learned(name: str) -> tuple[Task, Network, list[Example]]:
    """Returns a task, a network and examples of one window and of several."""
    make, records = LOSSES[name]
    task = make()
    own = records(12)
    examples = models.learned(task, [*own, *map(longer, own[:4])])
    assert max(len(example.get("sizes", "1")) for example in examples) > 1 or len(examples) > 16
    return task, build(task, models.config(initializer_range=0.3, labels=task.labels)), examples


def passed(task: Task, network: Network, examples: Sequence[Example]) -> tuple[float, float, list[torch.Tensor]]:
    """Returns the sum of a batch's losses, its count, and the gradients of the sum."""
    batch = task.collate(examples)
    loss = task.losses(network, batch)["loss"]
    gradients = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
    known = [torch.zeros_like(p) if g is None else g for p, g in zip(network.parameters(), gradients, strict=True)]
    return float(loss.detach()), batch.counts["loss"], known


def same(one: tuple[float, float, list[torch.Tensor]], other: tuple[float, float, list[torch.Tensor]]) -> None:
    assert one[1] == pytest.approx(other[1]) != 0
    assert one[0] / one[1] == pytest.approx(other[0] / other[1], abs=1e-5)
    for mine, theirs in zip(one[2], other[2], strict=True):
        torch.testing.assert_close(mine / one[1], theirs / other[1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_does_not_hang_on_how_a_batch_is_divided(name: str) -> None:
    task, network, examples = learned(name)
    rng = random.Random(0)
    shuffled = rng.sample(examples, len(examples))
    borders = [0, *sorted(rng.sample(range(1, len(examples)), 4)), len(examples)]
    parts = [passed(task, network, shuffled[start:end]) for start, end in pairwise(borders)]
    losses, counts, gradients = zip(*parts, strict=True)
    summed = [torch.stack(each).sum(0) for each in zip(*gradients, strict=True)]
    same((sum(losses), sum(counts), summed), passed(task, network, examples))


@pytest.mark.parametrize("name", LOSSES)
def test_nothing_is_learned_from_padding(name: str) -> None:
    task, network, examples = learned(name)
    bare = passed(task, network, examples)
    for length in (1, 31):
        padding = task.padding(length)
        assert len(padding["ids"]) == length
        assert padding.keys() == examples[0].keys()
        same(passed(task, network, [*examples, padding]), bare)
        loss, count, gradients = passed(task, network, [padding])
        assert (loss, count) == (0, 0)
        assert all(float(gradient.abs().max()) == 0 for gradient in gradients)


@pytest.mark.skipif(not THREADS.exists(), reason="the system does not tell of threads")
def test_batches_are_put_together_on_one_core() -> None:
    """A step of a small model takes a GPU less time than other cores take to wake up."""
    made = [tasks.new(name, WORDPIECE, 64) for name in toys.TASKS]
    examples = [models.learned(task, toys.records(task.name, 32)) for task in made]
    before = len(list(THREADS.iterdir()))
    torch.set_num_threads(4)
    try:
        for task, own in zip(made, examples, strict=True):
            filled(task, own)
    finally:
        torch.set_num_threads(1)
    assert len(list(THREADS.iterdir())) <= before


# -- networks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_pooler", [True, False])
def test_what_a_folder_fills_is_not_drawn_and_a_head_is_its_seed(has_pooler: bool) -> None:
    kind = Classification if has_pooler else Tagging
    task = kind(WORDPIECE, 64, ("a", "b"))
    config = models.config(labels=("a", "b"), width=64)
    first, again, other = (headed(task, config, seed) for seed in (3, 3, 4))
    own = {name for name, tensor in first.state_dict().items() if not tensor.is_meta}
    pooler = {"bert.pooler.weight", "bert.pooler.bias"} if has_pooler else set()
    assert own == {"heads.classifier.output.weight", "heads.classifier.output.bias", *pooler}
    for name, tensor in first.state_dict().items():
        assert tensor.shape == build(task, config).state_dict()[name].shape
        if name in own:
            assert torch.equal(tensor, again.state_dict()[name])
            assert torch.equal(tensor, other.state_dict()[name]) == name.endswith("bias")
    weight = first.state_dict()["heads.classifier.output.weight"]
    assert 0 < weight.abs().max() <= 2 * config.initializer_range

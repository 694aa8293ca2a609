"""Batches that are filled up, and passes that are recorded: what is learned stays what it was."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import models
import numpy as np
import pytest
import torch
import toys
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from bertcli import tasks
from bertcli.engine import graphs as module
from bertcli.engine.device import choose
from bertcli.engine.graphs import FEWEST, SEQUENCES, SMALLEST, Graphs, filled
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.train import Trainer
from bertcli.model.heads import Network
from bertcli.tasks.left_to_right import LeftToRight
from bertcli.tasks.tagging import Tagging
from bertcli.tasks.task import Batch, Example, Task, build

WORDPIECE = models.wordpiece()
TASKS = (*toys.TASKS, "mlm+nsp", "ltr")

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="CUDA graphs are recorded on a GPU alone")


def learned(name: str, count: int = 12, seed: int = 0) -> tuple[Task, list[Example]]:
    """Returns a task and what one epoch sees of its examples."""
    if name in tasks.PRETRAINING:
        task: Task = tasks.PRETRAINING[name](WORDPIECE, 64, objective=name)
        records = models.pairs(count, seed)
    else:
        task, records = tasks.new(name, WORDPIECE, 64), toys.records(name, count, seed)
    return task, [task.at_epoch(example, 0) for example in models.learned(task, records)]


def network_of(task: Task, device: str = "cpu", dropout: float = 0.0) -> Network:
    own = {"labels": task.labels, "is_decoder": isinstance(task, LeftToRight)}
    config = models.config(initializer_range=0.2, **own).with_dropout(dropout)
    return build(task, config).train().to(device)


# -- sizes ----------------------------------------------------------------------------------------------------------


def sizes(lengths: list[int], longest: int) -> tuple[int, int]:
    """Returns the tokens and the sequences of a batch that was filled up, of a task with sequences that long."""
    task = Tagging(WORDPIECE, longest, ["a", "b"])
    batch = filled(task, [task.padding(length) for length in lengths])
    assert batch.packed.lengths[: len(lengths)] == tuple(lengths)
    assert min(batch.packed.lengths) > 0
    assert max(batch.packed.lengths) <= batch.packed.longest == longest
    return len(batch.packed.ids), len(batch.packed.lengths)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from([1, 2, 4, 32, 512]), st.integers(3, 64), st.sampled_from([64, 100, 512]), st.integers(0, 9))
@example(512, 64, 512, 0)
@example(1, 64, 64, 0)
def test_little_is_padding(count: int, shortest: int, longest: int, seed: int) -> None:
    lengths = np.random.default_rng(seed).integers(shortest, 64, count, endpoint=True).tolist()
    tokens = sum(lengths)
    size, sequences = sizes(lengths, longest)
    apart = max(SMALLEST, tokens / max(FEWEST, count) ** 0.5 / 2)
    assert count < sequences <= count + math.ceil(apart / (longest - 1)) + SEQUENCES
    assert tokens < size < tokens + apart + sequences - count
    assert (size % SMALLEST, sequences % SEQUENCES) == (0, 0)


@pytest.mark.parametrize("count", [8, 32, 512])
@pytest.mark.parametrize("spread", [0.1, 0.5])
def test_sizes_are_few(count: int, spread: float) -> None:
    """So few that most batches have one that came before, also in a run of few steps."""
    rng = np.random.default_rng(0)
    lengths = np.clip(rng.normal(64, 64 * spread, (100, count)).astype(int), 3, 128)
    seen = Counter(sizes(each, 128) for each in lengths.tolist())
    assert len(seen) <= (12 if spread < 0.2 else 24)


@pytest.mark.parametrize("name", TASKS)
def test_padding_comes_last_in_sequences_of_its_own(name: str) -> None:
    task, examples = learned(name)
    plain, batch = task.collate(examples), filled(task, examples)
    assert batch.packed.lengths[: len(plain.packed.lengths)] == plain.packed.lengths
    size = len(plain.packed.ids)
    assert torch.equal(batch.packed.ids[:size], plain.packed.ids)
    assert batch.packed.ids[size:].unique().tolist() == [WORDPIECE.pad]


@pytest.mark.parametrize("name", TASKS)
def test_nothing_is_learned_from_padding(name: str) -> None:
    task, examples = learned(name)
    plain, batch = task.collate(examples), filled(task, examples)
    assert batch.counts == plain.counts
    seen = []
    for each in (plain, batch):
        network = network_of(task)
        loss = torch.stack(list(task.losses(network, each).values())).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        seen.append({"loss": loss, **gradients(network)})
    assert float(seen[0]["loss"].detach()) > 0
    for name, tensor in seen[0].items():
        torch.testing.assert_close(seen[1][name], tensor, atol=1e-5, rtol=1e-4)


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def test_hidden_tokens_are_filled_up_too() -> None:
    """Else no two steps of pre-training would be of one shape."""
    task, examples = learned("mlm+nsp", 640)
    seen = {
        (len(batch.packed.ids), *(len(values) for values in batch.targets.values()))
        for batch in (filled(task, examples[start : start + 32]) for start in range(0, 640, 32))
    }
    assert len(seen) < 10
    batch = filled(task, examples[:600])
    hidden, ids = int(batch.counts["mlm_loss"]), batch.targets["ids"]
    assert hidden == sum(len(example["masked_ids"]) for example in examples[:600])
    assert ids[:hidden].min() >= 0
    assert ids[hidden:].unique().tolist() == [-1]
    assert len(batch.targets["positions"]) == len(ids)


# -- recordings -----------------------------------------------------------------------------------------------------


class Kept(Optimizer):
    """An optimizer that keeps the gradients of its last step."""

    gradients: list[Tensor]

    def step(self, number: int, losses: torch.Tensor | None = None) -> float:
        self.gradients = [p.grad.clone() for p in self._parameters if p.grad is not None]
        return super().step(number, losses)


def trainer(task: Task, *, is_recorded: bool, dropout: float = 0.0) -> Any:
    """Returns a trainer whose weights stay what they are."""
    network = network_of(task, "cuda", dropout)
    made: Any = Trainer(network, task, Kept(network, Schedule(0.0, 100, 0)), choose("cuda", "bf16"))
    assert made._graphs
    if not is_recorded:
        made._graphs = made._stream = None
    return made


@needs_gpu
@pytest.mark.parametrize("name", TASKS)
def test_a_recorded_pass_is_the_unrecorded_one(name: str) -> None:
    """Before it is recorded, when it is, and on other examples of the same shape."""
    task, examples = learned(name, 200)
    batches = [examples[start : start + 8] for start in range(0, len(examples) - 8, 8)] * 2
    recorded, plain = trainer(task, is_recorded=True), trainer(task, is_recorded=False)
    for step, batch in enumerate(batches, 1):
        theirs, _, tokens = plain.step(step, plain.prepare([(0, example) for example in batch]))
        ours, _, same = recorded.step(step, recorded.prepare([(0, example) for example in batch]))
        assert same == tokens
        for loss, value in theirs.items():
            torch.testing.assert_close(ours[loss], value, atol=1e-2, rtol=1e-2)
        whole = torch.stack([gradient.norm() for gradient in plain.optimizer.gradients]).norm()
        for one, other in zip(recorded.optimizer.gradients, plain.optimizer.gradients, strict=True):
            assert (one - other).norm() < 0.05 * other.norm() + 0.01 * whole
    assert sum(count - 1 for count in recorded._graphs._seen.values()) >= len(batches) / 2  # passes that were replayed


@needs_gpu
def test_a_shape_is_recorded_when_it_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    task, examples = learned("classification", 64)
    loop = trainer(task, is_recorded=True)

    def take(count: int) -> int:
        loop.step(1, loop.prepare([(0, example) for example in examples[:count]]))
        return len(loop._graphs._graphs)

    assert [take(4), take(4), take(4)] == [0, 1, 1]
    assert [take(9), take(16)] == [1, 1]
    assert [take(16), take(9)] == [2, 3]
    monkeypatch.setattr(module, "MOST", 3)
    assert [take(30), take(30), take(30), take(9)] == [3, 3, 3, 3]


@needs_gpu
def test_what_memory_has_no_room_for_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    task, examples = learned("classification", 16)
    loop = trainer(task, is_recorded=True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1, 1 << 40))
    for number in range(1, 4):
        loop.step(number, loop.prepare([(0, example) for example in examples]))
    assert not loop._graphs._graphs


@needs_gpu
def test_dropout_is_drawn_anew_by_each_replay() -> None:
    task, examples = learned("classification", 16)
    loop = trainer(task, is_recorded=True, dropout=0.5)
    losses = [float(loop.step(1, loop.prepare([(0, example) for example in examples]))[0]["loss"]) for _ in range(8)]
    assert len(set(losses[3:])) == 5


@needs_gpu
def test_what_a_recording_gives_is_not_overwritten_by_the_next() -> None:
    """All recordings share their memory."""
    device, graphs, scale = choose("cuda", "bf16"), Graphs(), torch.ones(1)
    task = Tagging(WORDPIECE, 64, ["a", "b"])
    batches = [task.collate([task.padding(64)] * count) for count in (1, 2)]

    def own(batch: Batch, scale: Tensor) -> Tensor:
        return (torch.ones_like(batch.packed.ids).sum() * scale)[0]

    with torch.cuda.stream(torch.cuda.Stream(device.device)):  # type: ignore[no-untyped-call]
        for _ in range(3):
            found = [graphs.run(own, batch, number * scale) for number, batch in enumerate(batches, 1)]
        assert [float(each) for each in found] == [64.0, 256.0]
        assert len(graphs._graphs) == 2

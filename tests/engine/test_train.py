"""The training loop: the losses of a plain loop of transformers and PyTorch, however a step is divided."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from torch import nn

from bertcli.engine.device import choose
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.packing import batches
from bertcli.engine.train import Trainer
from bertcli.model.heads import Network
from bertcli.tasks.classification import Classification
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import Example, build
from bertcli.text.mask import MaskRule
from bertcli.weights.folder import open_folder

WORDPIECE = models.wordpiece()
STEPS, BATCH, PEAK, WARMUP = 50, 8, 2e-3, 10


def trainer(task: Any, network: Network, max_tokens: int = 4096, **options: bool) -> Trainer:
    network.train()
    schedule = Schedule(PEAK, STEPS, WARMUP)
    return Trainer(network, task, Optimizer(network, schedule, **options), choose("cpu", max_tokens=max_tokens))


def opened(path: Path, task: Any) -> Network:
    network = build(task, open_folder(path).config.with_dropout(0.0))
    assert models.load(path, network) == []
    return network


def padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def plain_loop(model: Any, inputs: list[dict[str, torch.Tensor]]) -> list[float]:
    """Returns the losses of what anyone would write with transformers and PyTorch."""
    model.train()
    named = list(model.named_parameters())
    plain = ("bias", "LayerNorm.weight")
    adam = torch.optim.AdamW(
        [
            {"params": [p for name, p in named if not name.endswith(plain)], "weight_decay": 0.01},
            {"params": [p for name, p in named if name.endswith(plain)], "weight_decay": 0.0},
        ],
        betas=(0.9, 0.999),
        eps=1e-6,
    )
    losses = []
    for step, batch in enumerate(inputs, 1):
        loss = model(**batch).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in adam.param_groups:
            group["lr"] = PEAK * min(step / WARMUP, (STEPS - step + 1) / (STEPS - WARMUP))
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())
    return losses


def cut(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + BATCH] for start in range(0, len(items), BATCH)]


def test_pretraining_has_the_losses_of_a_plain_loop(tmp_path: Path) -> None:
    model = models.theirs("BertForPreTraining")
    task = Pretraining(WORDPIECE, 64)
    ours = trainer(task, opened(models.save(model, tmp_path / "model"), task))
    records = [task.masked(record) for record in models.pairs(STEPS * BATCH)]
    inputs = []
    for batch in cut(records):
        ids = [WORDPIECE.ids_of(record["tokens"]) for record in batch]
        labels = [[-100] * len(row) for row in ids]
        for row, record in zip(labels, batch, strict=True):
            for place, number in zip(
                record["masked_positions"], WORDPIECE.ids_of(record["masked_tokens"]), strict=True
            ):
                row[place] = number
        segments = [[int(i >= record["segment_b"]) for i in range(len(record["tokens"]))] for record in batch]
        inputs.append(
            {
                "input_ids": padded(ids, 0),
                "attention_mask": padded([[1] * len(row) for row in ids], 0),
                "token_type_ids": padded(segments, 0),
                "labels": padded(labels, -100),
                "next_sentence_label": torch.tensor([int(not record["is_next"]) for record in batch]),
            }
        )
    batches = [[(0, task.encode(record)[0]) for record in batch] for batch in cut(records)]
    steps = [ours.step(step, ours.prepare(batch))[0] for step, batch in enumerate(batches, 1)]
    losses = [sum(map(float, step.values())) for step in steps]
    theirs = plain_loop(model, inputs)
    assert len(losses) == STEPS
    assert losses == pytest.approx(theirs, abs=1e-4)
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("labels", [2, 3])
def test_classification_has_the_losses_of_a_plain_loop(tmp_path: Path, labels: int) -> None:
    model = models.theirs("BertForSequenceClassification", num_labels=labels)
    rng = random.Random(8)
    records = [
        {"text": models.text(rng, rng.randint(1, 30)), "label": f"LABEL_{number % labels}"}
        for number in range(STEPS * BATCH)
    ]
    task = Classification(WORDPIECE, 64, cut=True)
    examples = models.learned(task, records)
    ours = trainer(task, opened(models.save(model, tmp_path / "model"), task))
    inputs = []
    for batch, own in zip(cut(records), cut(examples), strict=True):
        ids = [example["ids"].tolist() for example in own]
        inputs.append(
            {
                "input_ids": padded(ids, 0),
                "attention_mask": padded([[1] * len(row) for row in ids], 0),
                "labels": torch.tensor([int(record["label"][-1]) for record in batch]),
            }
        )
    losses = [
        float(ours.step(step, ours.prepare([(0, example) for example in own]))[0]["loss"])
        for step, own in enumerate(cut(examples), 1)
    ]
    assert losses == pytest.approx(plain_loop(model, inputs), abs=1e-4)


# -- accumulation ---------------------------------------------------------------------------------------------------


class Recorded(Optimizer):
    """An optimizer that keeps the gradients of its last step."""

    gradients: dict[str, torch.Tensor]

    def step(self, number: int, losses: torch.Tensor | None = None) -> float:
        self.gradients = {str(index): p.grad.clone() for index, p in enumerate(self._parameters) if p.grad is not None}
        return super().step(number, losses)


def uneven(task: Pretraining) -> list[Example]:
    """Returns pairs of very different lengths, so that forward passes differ in what is hidden in them."""
    records = models.pairs(4, longest=3) + models.pairs(4, seed=1, longest=25)
    return [task.encode(task.masked(record))[0] for record in records]


@pytest.mark.parametrize("bias_correction", [True, False])
def test_a_divided_step_is_the_undivided_one(bias_correction: bool) -> None:
    task = Pretraining(WORDPIECE, 64, rule=MaskRule(rate=0.3))
    examples = uneven(task)
    lengths = [len(example["ids"]) for example in examples]
    max_tokens = max(lengths)
    groups = batches(lengths, max_tokens)
    assert len(groups) >= 4
    assert len({sum(len(examples[i]["masked_ids"]) for i in group) for group in groups}) > 2
    seen = {}
    for budget in (max_tokens, 10_000):
        network = build(task, models.config(initializer_range=0.2)).train()
        optimizer = Recorded(network, Schedule(1e-4, 10, 1), bias_correction=bias_correction)
        loop = Trainer(network, task, optimizer, choose("cpu", max_tokens=budget))
        losses, rate, tokens = loop.step(1, loop.prepare([(0, example) for example in examples]))
        assert (rate, tokens) == (1e-4, sum(lengths))
        seen[budget] = losses | optimizer.gradients | dict(network.named_parameters())
    divided, whole = seen.values()
    assert divided.keys() == whole.keys()
    for name in divided:
        torch.testing.assert_close(divided[name], whole[name], atol=1e-5, rtol=0)


def test_a_loss_of_nothing_is_zero() -> None:
    task = Pretraining(WORDPIECE, 64)
    tokens = ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    record = {"tokens": tokens, "segment_b": 3, "is_next": True, "masked_positions": [], "masked_tokens": []}
    loop = trainer(task, build(task, models.config()))
    losses, _, _ = loop.step(1, loop.prepare([(0, task.encode(record)[0])]))
    assert float(losses["mlm_loss"]) == 0
    assert float(losses["nsp_loss"]) > 0
    assert all(bool(parameter.isfinite().all()) for parameter in loop.network.parameters())


def test_four_hundred_pairs_are_learned_by_heart() -> None:
    task = Pretraining(WORDPIECE, 64)
    examples = [task.encode(task.masked(record))[0] for record in models.pairs(400)]
    network = build(task, models.config(width=64)).train()
    optimizer = Optimizer(network, Schedule(3e-3, 250, 0.1))
    loop, rng, last = Trainer(network, task, optimizer, choose("cpu")), random.Random(0), []
    for step in range(1, 251):
        losses, _, _ = loop.step(step, loop.prepare([(0, example) for example in rng.sample(examples, 32)]))
        last = [*last[-9:], float(losses["mlm_loss"])]
    assert sum(last) / len(last) < 0.5

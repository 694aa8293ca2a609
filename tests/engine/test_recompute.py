"""Gradient checkpointing: the same numbers bit for bit, from fewer tensors kept between the passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import models
import pytest
import torch
import toys
from program import Result
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from bertcli.engine.device import choose
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.recompute import recompute
from bertcli.engine.train import Trainer
from bertcli.model.heads import Network
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build

TASK = Pretraining(models.wordpiece(), 64)
LAYERS = 4


def network(*, recomputed: bool, dropout: float = 0.1) -> Network:
    config = replace(models.config().with_dropout(dropout), num_hidden_layers=LAYERS)
    made = build(TASK, config, seed=1).train()
    if recomputed:
        recompute(made)
    return made


def learned(*, recomputed: bool, kind: str, device: str = "cpu") -> tuple[list[float], dict[str, Tensor]]:
    """Returns the losses and the weights of some steps of several passes each, with dropout."""
    made, chosen = network(recomputed=recomputed).to(device), choose(device, max_tokens=64)
    optimizer = Optimizer(made, Schedule(1e-3, 6, 0), kind=kind)
    trainer = Trainer(made, TASK, optimizer, replace(chosen, recomputes=recomputed))
    assert not (recomputed and trainer._graphs)
    trainer._graphs = trainer._stream = None  # a recording draws other dropout
    torch.manual_seed(5)
    examples = [(0, TASK.encode(TASK.masked(record))[0]) for record in models.pairs(48)]
    steps = [trainer.prepare(examples[start : start + 8]) for start in range(0, 48, 8)]
    losses = [float(sum(trainer.step(number, step)[0].values())) for number, step in enumerate(steps, 1)]
    return losses, made.state_dict()


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
def test_a_recomputed_run_is_the_plain_one(kind: str) -> None:
    (losses, weights), (theirs, others) = (learned(recomputed=each, kind=kind) for each in (True, False))
    assert losses == theirs
    assert weights.keys() == others.keys()
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_on_a_gpu_the_same_dropout_is_drawn_again() -> None:
    """But for roundings: the kernels there add up in no fixed order."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    losses, theirs = (learned(recomputed=each, kind="adamw", device="cuda")[0] for each in (True, False))
    assert losses == pytest.approx(theirs, rel=1e-3)


def kept(made: Network) -> int:
    """Returns the bytes that a forward pass leaves for the backward pass, its weights left out."""
    sizes: dict[int, int] = {}
    own = {parameter.untyped_storage().data_ptr() for parameter in made.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        held.append(tensor)  # so that no address comes twice
        return tensor

    held: list[Tensor] = []
    batch = TASK.collate([TASK.encode(TASK.masked(record))[0] for record in models.pairs(32)])
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        losses = TASK.losses(made, batch)
    sum(losses.values()).backward()  # type: ignore[union-attr]
    return sum(sizes.values())


def test_fewer_activations_are_kept() -> None:
    plain, recomputed = (kept(network(recomputed=each)) for each in (False, True))
    assert recomputed < 0.3 * plain


def test_in_use_a_recomputed_network_is_a_plain_one() -> None:
    batch = TASK.collate([TASK.encode(TASK.masked(record))[0] for record in models.pairs(4)])
    plain, recomputed = (network(recomputed=each).eval() for each in (False, True))
    with torch.inference_mode():
        assert torch.equal(plain.bert(batch.packed), recomputed.bert(batch.packed))


@pytest.mark.parametrize(
    ("command", "own"), [("pretrain", []), ("pretrain", ["--objective", "ltr"]), ("finetune", [])], ids=str
)
def test_the_option_changes_no_model(
    bertcli: Callable[..., Result], tmp_path: Path, command: str, own: list[str]
) -> None:
    """And a run may go on with it that began without."""
    if command == "pretrain":
        (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in models.PIECES))
        (tmp_path / "train.jsonl").write_bytes(models.lines(models.pairs(40)))
        line: list[Any] = ["pretrain", "train.jsonl", "--preset", "tiny", "--steps", 6, "--max-length", 32]
    else:
        (tmp_path / "train.jsonl").write_bytes(models.lines(toys.records("classification", 48)))
        line = ["finetune", "classification", "train.jsonl", "-m", toys.start(tmp_path / "start"), "--epochs", 1]
    line += [*own, "--batch-size", 8, "--device", "cpu", "--optimizer", "lamb", "--lr", 1e-3]
    for out, option in (("plain", []), ("small", ["--gradient-checkpointing"])):
        result = bertcli(*line, "-o", out, *option)
        assert result.status == 0, result.err
    models_made = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("plain", "small")]
    assert models_made[0] == models_made[1]
    if command == "pretrain":
        assert bertcli(*line, "-o", "resumed", "--stop-at", 3).status == 0
        assert bertcli(*line, "-o", "resumed", "--resume", "--gradient-checkpointing").status == 0
        assert (tmp_path / "resumed" / "model.safetensors").read_bytes() == models_made[0]

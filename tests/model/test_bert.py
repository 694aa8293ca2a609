"""How a fresh network begins."""

from __future__ import annotations

import models
import torch
from torch import nn

from bertcli.model.bert import initialize
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build


def test_weights_are_a_normal_cut_at_two_deviations() -> None:
    network = build(Pretraining(models.wordpiece(), 64), models.config(width=128, initializer_range=0.03))
    for name, parameter in network.named_parameters():
        if parameter.dim() > 1:
            assert parameter.abs().max() <= 0.06
            if parameter.numel() > 4000:  # a normal cut at 2 has 0.88 of its deviation
                assert abs(parameter.std() / 0.03 - 0.8796) < 0.04, name
        else:
            assert torch.equal(parameter, torch.full_like(parameter, float("norm.weight" in name))), name


def test_a_seed_is_a_network() -> None:
    task = Pretraining(models.wordpiece(), 64)
    first, again, other = (build(task, models.config(), seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["bert.pooler.weight"], other["bert.pooler.weight"])


def test_a_deviation_of_nothing_gives_hardly_anything() -> None:
    linear = nn.Linear(4, 4)
    initialize(linear, 0.0)
    assert linear.weight.abs().max() < 1e-29


def test_initialize_leaves_norms_alone() -> None:
    norm = nn.LayerNorm(4)
    nn.init.constant_(norm.weight, 3.0)
    initialize(norm, 0.02)
    assert norm.weight.tolist() == [3.0] * 4

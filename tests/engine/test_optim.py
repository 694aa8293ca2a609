"""Rates and steps against their formulas, and against Google's written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from bertcli.engine.optim import SCHEDULES, Optimizer, Schedule
from bertcli.model.bert import Bert
from bertcli.model.config import of_size

torch.set_num_threads(1)


def rates(kind: str, steps: int, warmup: float) -> list[float]:
    schedule = Schedule(peak=2.0, steps=steps, warmup=warmup, kind=kind)
    return [schedule(step) for step in range(1, steps + 1)]


def test_linear_rises_to_its_peak_and_falls_to_zero() -> None:
    assert rates("linear", 10, 0.2) == pytest.approx([1, 2, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25])
    assert rates("linear", 10, 4) == pytest.approx([0.5, 1, 1.5, 2, 2, 5 / 3, 4 / 3, 1, 2 / 3, 1 / 3])
    assert rates("linear", 4, 0) == pytest.approx([2, 1.5, 1, 0.5])
    assert Schedule(2.0, 10, 0.2)(11) == 0


def test_google_begins_at_zero_and_falls_from_the_start_of_training() -> None:
    assert rates("google", 10, 0.2) == pytest.approx([0, 1, 1.6, 1.4, 1.2, 1, 0.8, 0.6, 0.4, 0.2])
    assert rates("google", 4, 0) == pytest.approx([2, 1.5, 1, 0.5])
    assert rates("google", 5, 3) == pytest.approx([0, 2 / 3, 4 / 3, 0.8, 0.4])


def test_constant_stays_at_its_peak() -> None:
    assert rates("constant", 5, 2) == pytest.approx([1, 2, 2, 2, 2])
    assert rates("constant", 3, 0.5) == pytest.approx([2, 2, 2])


@given(
    st.sampled_from(SCHEDULES),
    st.integers(1, 200),
    st.one_of(st.floats(0, 0.999), st.integers(0, 400).map(float)),
)
def test_no_rate_is_above_the_peak_or_below_zero(kind: str, steps: int, warmup: float) -> None:
    all_rates = rates(kind, steps, warmup)
    assert all(0 <= rate <= 2 for rate in all_rates)
    count = max(1, int(warmup * steps if warmup < 1 else warmup))
    assert all_rates[: count - 1] == sorted(all_rates[: count - 1])
    assert all_rates[count:] == sorted(all_rates[count:], reverse=True)


def test_linear_is_the_schedule_of_transformers_a_step_earlier() -> None:
    """Theirs gives the first step the rate zero, which teaches nothing."""
    transformers = pytest.importorskip("transformers")
    adam = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler = transformers.get_linear_schedule_with_warmup(adam, 5, 20)
    theirs = []
    for _ in range(21):
        theirs.append(adam.param_groups[0]["lr"])
        adam.step()
        scheduler.step()
    assert rates("linear", 20, 5)[:5] == pytest.approx(theirs[1:6])
    assert rates("linear", 20, 5)[5:] == pytest.approx(theirs[5:20])


def trained(
    network: nn.Module, gradients: list[list[torch.Tensor]], schedule: str = "linear", **options: Any
) -> list[float]:
    optimizer = Optimizer(network, Schedule(0.01, len(gradients), 0.3, schedule), **options)
    taken = []
    for step, own in enumerate(gradients, 1):
        for parameter, gradient in zip(network.parameters(), own, strict=True):
            parameter.grad = gradient.clone()
        taken.append(optimizer.step(step))
        assert not any(parameter.grad.any() for parameter in network.parameters() if parameter.grad is not None)
    return taken


def network_and_gradients(steps: int = 25) -> tuple[nn.Module, list[list[torch.Tensor]]]:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4)).double()
    gradients = [[torch.randn_like(p) * 0.1 * (step % 5) for p in network.parameters()] for step in range(steps)]
    return network, gradients


def test_without_bias_correction_a_step_is_googles() -> None:
    network, gradients = network_and_gradients()
    weights = [p.detach().clone() for p in network.parameters()]
    first, second = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    rates = trained(network, gradients, bias_correction=False)
    for rate, step in zip(rates, gradients, strict=True):  # google-research/bert, optimization.py
        norm = torch.sqrt(sum((g**2).sum() for g in step))
        clipped = [g * min(1.0, 1.0 / float(norm)) if norm > 0 else g for g in step]
        for index, g in enumerate(clipped):
            first[index] = 0.9 * first[index] + 0.1 * g
            second[index] = 0.999 * second[index] + 0.001 * g**2
            update = first[index] / (second[index].sqrt() + 1e-6)
            if weights[index].dim() > 1:  # its list: no LayerNorm, no bias
                update = update + 0.01 * weights[index]
            weights[index] = weights[index] - rate * update
    for parameter, weight in zip(network.parameters(), weights, strict=True):
        torch.testing.assert_close(parameter.detach(), weight, atol=1e-6, rtol=0)


def test_with_bias_correction_a_step_is_pytorchs() -> None:
    network, gradients = network_and_gradients()
    peer = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4)).double()
    peer.load_state_dict(network.state_dict())
    named = dict(peer.named_parameters())
    groups = [
        {"params": [named["0.weight"]], "weight_decay": 0.01},
        {"params": [named[name] for name in ("0.bias", "1.weight", "1.bias")], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=0.01, eps=1e-6)
    for rate, step in zip(trained(network, gradients), gradients, strict=True):
        for parameter, gradient in zip(peer.parameters(), step, strict=True):
            parameter.grad = gradient.clone()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
    for ours, theirs in zip(network.parameters(), peer.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-8, rtol=0)  # the norm is cut by a float32


# -- LAMB -----------------------------------------------------------------------------------------------------------


def cut(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    norm = float(torch.sqrt(sum((g**2).sum() for g in gradients)))
    return [g / max(1.0, norm + 1e-6) for g in gradients]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bias_correction", [True, False])
def test_a_step_of_lamb_is_the_papers(bias_correction: bool, schedule: str) -> None:
    """Algorithm 2 with the identity for phi; biases and norms as in apex and in Google's code."""
    network, gradients = network_and_gradients()
    nn.init.zeros_(network[0].weight[1:2].detach())  # type: ignore[index]
    weights = [p.detach().clone() for p in network.parameters()]
    first, second = [torch.zeros_like(w) for w in weights], [torch.zeros_like(w) for w in weights]
    rates = trained(network, gradients, schedule, kind="lamb", bias_correction=bias_correction)
    for step, (rate, own) in enumerate(zip(rates, gradients, strict=True), 1):
        for index, g in enumerate(cut(own)):
            first[index] = 0.9 * first[index] + 0.1 * g
            second[index] = 0.999 * second[index] + 0.001 * g**2
            m = first[index] / (1 - 0.9**step if bias_correction else 1)
            v = second[index] / (1 - 0.999**step if bias_correction else 1)
            update = m / (v.sqrt() + 1e-6)
            if weights[index].dim() > 1:
                update = update + 0.01 * weights[index]
                length, change = weights[index].norm(), update.norm()
                update = update * (length / change if length > 0 and change > 0 else 1)
            weights[index] = weights[index] - rate * update
    for parameter, weight in zip(network.parameters(), weights, strict=True):
        torch.testing.assert_close(parameter.detach(), weight, atol=1e-7, rtol=0)


def test_lamb_leaves_what_has_no_gradient_and_moves_what_is_zero() -> None:
    network = nn.ParameterList([torch.ones(3, 3), torch.zeros(3, 3), torch.ones(3)])
    trained(nn.ParameterList(network[1:]), [[torch.ones(3, 3), torch.ones(3)]] * 4, kind="lamb")
    assert torch.equal(network[0], torch.ones(3, 3))
    assert bool((network[1] < 0).all())
    optimizer = Optimizer(network, Schedule(0.01, 4, 0), kind="lamb")
    network[2].grad = torch.ones(3)
    before = network[2].detach().clone()
    optimizer.step(1)
    assert torch.equal(network[0], torch.ones(3, 3))
    assert not torch.equal(network[2], before)


# -- steps that cannot be taken ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_from_the_first_step_that_is_no_number_on_nothing_changes(kind: str, where: str, value: float) -> None:
    network, gradients = network_and_gradients()
    network = network.float()
    optimizer, kept = Optimizer(network, Schedule(0.01, 25, 0.3), kind=kind), {}
    for step, own in enumerate(gradients, 1):
        for parameter, gradient in zip(network.parameters(), own, strict=True):
            parameter.grad = gradient.float()
        if step == 10:
            states = [tensor for state in optimizer.adam.state.values() for tensor in state.values()]
            kept = {index: tensor.clone() for index, tensor in enumerate([*network.parameters(), *states])}
            assert len(kept) == 4 * 4
            if where == "gradient":
                network[0].bias.grad[0] = value  # type: ignore[index]
        optimizer.step(step, torch.tensor([1.0, value if step == 10 and where == "loss" else 1.0]))
        assert bool(optimizer.norm.isfinite()) == (step != 10 or where == "loss")
    states = [tensor for state in optimizer.adam.state.values() for tensor in state.values()]
    assert all(torch.equal(kept[index], tensor) for index, tensor in enumerate([*network.parameters(), *states]))


# -- on a GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["adamw", "lamb"])
def test_a_step_on_a_gpu_is_few_kernels_and_waits_for_none(kind: str) -> None:
    """Fewer than there are tensors, where a loop over them takes a dozen each."""
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    network = Bert(of_size(12, 64, 2, vocab_size=1000)).cuda()
    optimizer, losses = Optimizer(network, Schedule(1e-3, 10, 0), kind=kind), torch.ones(2, device="cuda")
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(1, losses)  # which makes the moments
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            optimizer.step(2, losses)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert 0 < len(profile.events()) < len(list(network.parameters()))

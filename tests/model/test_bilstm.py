"""A BiLSTM reads packed sequences as torch's reads each of them alone, and a mix of layers is ELMo's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bertcli.model.bilstm import BiLSTM, LayerMix, in_steps
from bertcli.model.packed import Packed, pack

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=7).map(tuple)


def packed(lengths: tuple[int, ...]) -> Packed:
    return pack([np.zeros(length) for length in lengths], [None] * len(lengths))


def reader(dropout: float = 0.0) -> BiLSTM:
    torch.manual_seed(0)
    return BiLSTM(5, 3, dropout).eval()


@settings(max_examples=20)
@given(LENGTHS)
def test_sequences_side_by_side_are_read_as_each_alone(lengths: tuple[int, ...]) -> None:
    model, vectors = reader(), torch.randn(sum(lengths), 5)
    states = model(vectors, packed(lengths))
    ends = model.ends(states, packed(lengths))
    for own, read, end in zip(vectors.split(lengths), states.split(lengths), ends, strict=True):
        alone, (last, _) = model.lstm(own)
        torch.testing.assert_close(read, alone, atol=1e-6, rtol=0)
        torch.testing.assert_close(end, last[-2:].flatten(), atol=1e-6, rtol=0)  # the upper layer's


@settings(max_examples=20)
@given(LENGTHS)
def test_gradients_are_those_of_each_alone(lengths: tuple[int, ...]) -> None:
    model, vectors = reader(), torch.randn(sum(lengths), 5, requires_grad=True)
    whole = torch.autograd.grad(model(vectors, packed(lengths)).square().sum(), [vectors, *model.parameters()])
    apart = sum(model.lstm(own)[0].square().sum() for own in vectors.split(lengths))
    for one, other in zip(whole, torch.autograd.grad(apart, [vectors, *model.parameters()]), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@given(LENGTHS)
def test_steps_take_every_token_once_the_first_ones_first(lengths: tuple[int, ...]) -> None:
    order, sizes = in_steps(lengths)
    assert sorted(order.tolist()) == list(range(sum(lengths)))
    assert sizes.tolist() == [sum(length > step for length in lengths) for step in range(max(lengths))]
    positions = packed(lengths).positions[torch.from_numpy(order)]
    assert positions.tolist() == sorted(positions.tolist())


def test_products_have_the_precision_of_the_run_and_gradients_that_of_the_weights() -> None:
    model, vectors = reader(), torch.randn(9, 5)
    with torch.autocast("cpu", torch.bfloat16):
        states = model(vectors, packed((4, 5)))
    assert states.dtype == torch.bfloat16
    torch.testing.assert_close(states.float(), model(vectors, packed((4, 5))), atol=0.02, rtol=0)
    states.float().sum().backward()
    assert {weight.grad.dtype for weight in model.parameters() if weight.grad is not None} == {torch.float32}


def test_dropout_stands_between_the_layers_alone() -> None:
    model, vectors = reader(0.5), torch.randn(9, 5)
    assert torch.equal(model(vectors, packed((4, 5))), model(vectors, packed((4, 5))))
    model.train()
    assert not torch.equal(model(vectors, packed((4, 5))), model(vectors, packed((4, 5))))


def test_a_mix_begins_as_the_mean_and_weighs_by_a_softmax_and_a_scale() -> None:
    mix, vectors = LayerMix(3), torch.randn(4, 3, 5)
    torch.testing.assert_close(mix(vectors), vectors.mean(1))
    mix.weights = nn.Parameter(torch.tensor([1.0, -2.0, 0.5]))
    mix.scale = nn.Parameter(torch.tensor([2.0]))
    shares = torch.tensor([1.0, -2.0, 0.5]).exp()
    wanted = 2 * sum(share * layer for share, layer in zip(shares / shares.sum(), vectors.unbind(1), strict=True))
    torch.testing.assert_close(mix(vectors), wanted)


def test_threads_read_beside_each_other_as_one_alone() -> None:
    model, vectors, lengths = BiLSTM(32, 48, 0.0).eval(), torch.randn(200, 32), (20,) * 10

    @torch.inference_mode()
    def read(_: int) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return model(vectors, packed(lengths))  # type: ignore[no-any-return]

    wanted = read(0)
    with ThreadPoolExecutor(4) as pool:
        assert all(torch.equal(found, wanted) for found in pool.map(read, range(40)))
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}

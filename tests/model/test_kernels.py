"""The kernels beside plain torch: on a GPU as they are, else by Triton's interpreter (conftest.py)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional

triton = pytest.importorskip("triton", reason="triton is not installed")
tl = pytest.importorskip("triton.language")

from bertcli.model.bert import Bert, initialize  # noqa: E402
from bertcli.model.config import of_size  # noqa: E402
from bertcli.model.fused import fuse  # noqa: E402
from bertcli.model.kernels import attention, norm  # noqa: E402
from bertcli.model.kernels.attention import attend  # noqa: E402
from bertcli.model.kernels.gelu import gelu  # noqa: E402
from bertcli.model.kernels.launch import kept, threshold  # noqa: E402
from bertcli.model.kernels.norm import add_norm  # noqa: E402
from bertcli.model.packed import pack  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ATOL = 1e-5 if DEVICE == "cpu" else 2e-2  # a GPU multiplies in TF32
LENGTHS = [20, 1, 37]
HEADS, WIDTH = 2, 16
ROWS = 64  # rows of a mask that a program makes

Function = Callable[..., Tensor]


def drawn(*shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(DEVICE).requires_grad_() for shape in shapes]


def assert_same(ours: Function, plain: Function, inputs: list[Tensor]) -> None:
    out, expected = ours(*inputs), plain(*inputs)
    torch.testing.assert_close(out, expected, atol=ATOL, rtol=ATOL)
    (upstream,) = drawn(tuple(out.shape))
    gradients, wanted = (torch.autograd.grad(each, inputs, upstream.detach()) for each in (out, expected))
    for found, right in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(found, right, atol=10 * ATOL, rtol=10 * ATOL)


@pytest.mark.parametrize("width", [48, 64])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_add_norm(monkeypatch: pytest.MonkeyPatch, width: int, dropout: float) -> None:
    monkeypatch.setattr(norm, "seed_for", lambda like, dropout: seed(5))
    mask = masked(37, 64, 5, dropout)[:, :width]

    def plain(x: Tensor, product: Tensor, bias: Tensor, weight: Tensor, shift: Tensor) -> Tensor:
        return functional.layer_norm(x + (product + bias) * mask, (width,), weight, shift, 1e-12)

    def ours(*inputs: Tensor) -> Tensor:
        return add_norm(*inputs, 1e-12, dropout)

    assert_same(ours, plain, drawn((37, width), (37, width), (width,), (width,), (width,)))


def test_gelu() -> None:
    def plain(product: Tensor, bias: Tensor) -> Tensor:
        return functional.gelu(product + bias)

    assert_same(gelu, plain, drawn((37, 520), (520,)))


def attended(product: Tensor, bias: Tensor, dropout: float = 0.0, causal: bool = False) -> Tensor:
    bounds = torch.tensor([0, *torch.tensor(LENGTHS).cumsum(0)], dtype=torch.int32, device=DEVICE)
    return attend(product + bias.detach(), bias, bounds, HEADS, max(LENGTHS), dropout, causal)


def attended_plainly(product: Tensor, bias: Tensor, masks: Tensor | None = None, causal: bool = False) -> Tensor:
    """By the formula; `masks` (B, heads, longest, longest) scale the probabilities."""
    rows = []
    for number, sequence in enumerate((product + bias).view(-1, 3, HEADS, WIDTH).split(LENGTHS)):
        query, key, value = sequence.permute(1, 2, 0, 3)
        scores = query @ key.transpose(1, 2) / WIDTH**0.5
        hidden = torch.full_like(scores, -torch.inf).triu(1) if causal else torch.zeros_like(scores)
        probabilities = (scores + hidden).softmax(-1)
        if masks is not None:
            probabilities = probabilities * masks[number, :, : len(sequence), : len(sequence)]
        rows.append((probabilities @ value).transpose(0, 1).flatten(1))
    return torch.cat(rows)


def divided(own: int, other: int) -> dict[str, tuple[int, int, int, int]]:
    """Returns kernels whose programs have so many tokens of their own, and go through the others so many at a time."""
    return dict.fromkeys(["FORWARD", "BACKWARD_KEYS", "BACKWARD_QUERIES", "BACKWARD_WHOLE"], (own, other, 4, 1))


@pytest.mark.parametrize(
    ("blocks", "dropout", "causal"),
    [
        ({}, 0.3, False),  # as they are: a program has a whole sequence
        ({}, 0.3, True),
        (divided(32, 16), 0.0, False),
        (divided(32, 16), 0.3, True),
        (divided(16, 32), 0.3, False),
        (divided(16, 32), 0.3, True),
    ],
)
def test_attention(
    monkeypatch: pytest.MonkeyPatch, blocks: dict[str, tuple[int, ...]], dropout: float, causal: bool
) -> None:
    for name, block in blocks.items():
        monkeypatch.setattr(attention, name, block)
    monkeypatch.setattr(attention, "seed_for", lambda like, dropout: seed(5))
    span = triton.next_power_of_2(max(LENGTHS))  # so many rows of the mask has each sequence and head
    mask = masked(len(LENGTHS) * HEADS * span, span, 5, dropout).view(len(LENGTHS), HEADS, span, span)
    assert_same(
        lambda *inputs: attended(*inputs, dropout, causal),
        lambda *inputs: attended_plainly(*inputs, mask, causal),
        drawn((sum(LENGTHS), 3 * HEADS * WIDTH), (3 * HEADS * WIDTH,)),
    )


def test_each_pass_has_another_dropout() -> None:
    inputs = drawn((sum(LENGTHS), 3 * HEADS * WIDTH), (3 * HEADS * WIDTH,))
    torch.manual_seed(5)
    first, second = attended(*inputs, 0.3), attended(*inputs, 0.3)
    assert not torch.allclose(first, second)
    torch.manual_seed(5)
    torch.testing.assert_close(attended(*inputs, 0.3), first, atol=0, rtol=0)


def seed(number: int) -> Tensor:
    return torch.tensor(number, dtype=torch.int32, device=DEVICE)


def masked(rows: int, columns: int, number: int, dropout: float) -> Tensor:
    """Returns what the kernels multiply by under a seed: (rows, columns)."""
    out = torch.empty(rows, columns, device=DEVICE)
    masks[triton.cdiv(rows, ROWS),](out, seed(number), rows, columns, ROWS, threshold(dropout))
    return out


@triton.jit
def masks(out, seed, rows, COLUMNS: tl.constexpr, ROWS: tl.constexpr, THRESHOLD: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    row, column = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None], tl.arange(0, COLUMNS)[None, :]
    tl.store(out + row * COLUMNS + column, kept(tl.load(seed), row, column, THRESHOLD), row < rows)


def test_dropout_leaves_out_its_share_without_a_pattern() -> None:
    drops = []
    for number in (1, 2):
        out = masked(512, 512, number, 0.1)
        assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.9])
        drops.append((out == 0).float() - 0.1)
    first, second = drops
    assert abs(first.mean()) < 0.003  # five standard errors
    for other in (second, first.roll(1, 0), first.roll(1, 1), first.roll(64, 1), first.T):
        assert abs((first * other).mean() / 0.09) < 0.01
    for axis in (0, 1):
        assert float(first.mean(axis).std()) == pytest.approx((0.09 / 512) ** 0.5, rel=0.15)
    for drops in (first, first.T):  # no two rows and no two columns are alike: a correlation's standard error is 0.044
        alike = (drops @ drops.T / 512 / 0.09).fill_diagonal_(0)
        assert alike.abs().max() < 0.35
        assert float(alike.std()) == pytest.approx(512**-0.5, rel=0.05)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("heads", [4, 2])  # of a width that the attention kernel has, and of one that it has not
def test_a_network_of_kernels_is_the_plain_network(activation: str, heads: int) -> None:
    torch.manual_seed(0)
    own = {"hidden_act": activation, "is_decoder": activation == "gelu_new"}
    network = Bert(of_size(2, 48 if heads == 2 else 64, heads, vocab_size=100, **own).with_dropout(0.0))
    initialize(network, 0.1)
    packed = pack([torch.randint(0, 100, (n,)).tolist() for n in LENGTHS], [n // 2 or None for n in LENGTHS])
    network, packed = network.to(DEVICE), packed.to(torch.device(DEVICE))
    plain, wanted = gradients_of(network, packed)
    fuse(network)
    fused, found = gradients_of(network, packed)
    torch.testing.assert_close(fused, plain, atol=ATOL, rtol=ATOL)
    assert found.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(found[name], wanted[name], atol=20 * ATOL, rtol=20 * ATOL)


def gradients_of(network: Bert, packed) -> tuple[Tensor, dict[str, Tensor]]:  # type: ignore[no-untyped-def]
    network.zero_grad()
    hidden = network(packed)
    (hidden * torch.linspace(-1, 1, hidden.shape[1], device=hidden.device)).sum().backward()
    return hidden, {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


@pytest.mark.skipif(DEVICE == "cpu", reason="Triton's interpreter does not multiply in bf16")
@pytest.mark.parametrize("longest", [40, 128, 500])
@pytest.mark.parametrize("causal", [False, True])
def test_in_half_precision_kernels_are_as_near_to_the_truth_as_plain_layers(longest: int, causal: bool) -> None:
    torch.manual_seed(0)
    network = Bert(of_size(2, 256, 4, vocab_size=100, is_decoder=causal).with_dropout(0.0))
    initialize(network, 0.05)
    lengths = [longest, 1, longest // 2, longest]
    packed = pack([torch.randint(0, 100, (n,)).tolist() for n in lengths], [n // 2 or None for n in lengths])
    network, packed = network.cuda(), packed.to(torch.device("cuda"))
    truth, wanted = gradients_of(network, packed)
    with torch.autocast("cuda", torch.bfloat16):
        plain, theirs = gradients_of(network, packed)
        fuse(network)
        fused, ours = gradients_of(network, packed)
    assert distance(fused, truth) < 2 * distance(plain, truth)
    for name, gradient in wanted.items():
        if gradient.norm() > 1e-2:
            assert distance(ours[name], gradient) < 0.01 + 2 * distance(theirs[name], gradient), name
    with torch.inference_mode():
        assert distance(network.to(torch.bfloat16)(packed), truth) < 3 * distance(plain, truth)


def distance(found: Tensor, right: Tensor) -> float:
    return float((found.float() - right.float()).norm() / right.float().norm())

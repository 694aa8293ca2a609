"""A layer by the kernels of `kernels/`, put in the place of its plain forward pass from outside.

Shapes: T tokens in all, H width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import LayerNorm, Linear
from torch.nn.functional import linear

from bertcli.model.attention import has_kernel
from bertcli.model.bert import ACTIVATIONS, Layer
from bertcli.model.kernels import attention
from bertcli.model.kernels.gelu import gelu
from bertcli.model.kernels.norm import add_norm
from bertcli.model.packed import Packed


class _Product(Function):
    """A product, and what went into it once more, for the sum around it.

    The gradients of both uses are added up, and that of the weight is made in fp32, within the products themselves.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        weight = weight.to(x.dtype)
        ctx.save_for_backward(x, weight)
        ctx.set_materialize_grads(False)
        return linear(x, weight, bias), x.view_as(x)

    @staticmethod
    def backward(ctx: Any, d_product: Tensor, d_again: Tensor | None) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        d_x = d_product @ weight if d_again is None else torch.addmm(d_again, d_product, weight)
        if x.dtype == torch.float32:  # as in tests on a CPU, whose products have no `out_dtype`
            return d_x, d_product.T @ x, None
        return d_x, torch.mm(d_product.T, x, out_dtype=torch.float32), None


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Returns x Wᵀ + bias (T, F) and x (T, H) again, both in the precision of products, of (F, H) weights."""
    is_mixed = torch.is_autocast_enabled(x.device.type)
    x = x.to(torch.get_autocast_dtype(x.device.type)) if is_mixed else x
    both: tuple[Tensor, Tensor] = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return both


class FusedLayer(Layer):
    """A layer that computes by kernels what lies between its products, under autocast to half precision."""

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        """Returns what the plain layer does: (T, H) from (T, H)."""
        mixed, x = self._mixed(x, packed)
        x = self._add_norm(x, mixed, self.attended, self.attention_norm)
        inner, x = self._activated(x)
        return self._add_norm(x, inner, self.down, self.output_norm)

    def _mixed(self, x: Tensor, packed: Packed) -> tuple[Tensor, Tensor]:
        dropout = self.attention_dropout if self.training else 0.0
        if not has_kernel(packed.longest, x.shape[1] // self.heads):
            return self.attend(*self.parts(x), packed, dropout, self.is_causal).flatten(1), x
        made, x = _product(x, self.qkv.weight, self.qkv.bias.detach())
        shape = self.heads, packed.longest, dropout, self.is_causal
        return attention.attend(made, self.qkv.bias, packed.boundaries, *shape), x

    def _activated(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.activation is not ACTIVATIONS["gelu"]:
            return self.activation(self.up(x)), x
        made, x = _product(x, self.up.weight)
        return gelu(made, self.up.bias), x

    def _add_norm(self, x: Tensor, inner: Tensor, part: Linear, norm: LayerNorm) -> Tensor:
        dropout = self.dropout.p if self.training else 0.0
        made, _ = _product(inner, part.weight)
        return add_norm(x, made, part.bias, norm.weight, norm.bias, norm.eps, dropout)


def fuse(network: nn.Module) -> None:
    """Let all layers compute by kernels from now on; weights and their names stay."""
    for layer in [part for part in network.modules() if isinstance(part, Layer)]:
        layer.__class__ = FusedLayer

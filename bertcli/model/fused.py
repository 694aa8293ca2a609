"""A layer by the kernels of `kernels/`, put in the place of its plain forward pass from outside.

Shapes: T tokens in all, H width.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from torch import Tensor
from torch.nn import LayerNorm, Linear
from torch.nn.functional import linear

from bertcli.model.attention import attend
from bertcli.model.bert import ACTIVATIONS, Bert, Layer
from bertcli.model.kernels import attention
from bertcli.model.kernels.gelu import gelu
from bertcli.model.kernels.norm import add_norm
from bertcli.model.packed import Packed


def fuse(bert: Bert) -> None:
    """Let all layers compute by kernels from now on: on a GPU, under autocast to half precision."""
    for layer in bert.layers:
        layer.forward = partial(forward, cast(Layer, layer))


def forward(layer: Layer, x: Tensor, packed: Packed) -> Tensor:
    """Returns what `Layer.forward` does: (T, H) from (T, H)."""
    mixed = _attend(layer, x, packed)
    x, again = _add_norm(layer, x, mixed, layer.attended, layer.attention_norm)
    if layer.activation is ACTIVATIONS["gelu"]:
        inner = gelu(linear(x, layer.up.weight), layer.up.bias)
    else:
        inner = layer.activation(layer.up(x))
    return _add_norm(layer, again, inner, layer.down, layer.output_norm)[0]


def _attend(layer: Layer, x: Tensor, packed: Packed) -> Tensor:
    dropout = layer.attention_dropout if layer.training else 0.0
    if packed.longest > attention.LONGEST or x.shape[1] // layer.heads not in attention.WIDTHS:
        mixed: Tensor = attend(*layer.parts(x), packed, dropout).flatten(1)
        return mixed
    product = linear(x, layer.qkv.weight, layer.qkv.bias.detach())
    return attention.attend(product, layer.qkv.bias, packed.boundaries, layer.heads, packed.longest, dropout)


def _add_norm(layer: Layer, x: Tensor, inner: Tensor, product: Linear, norm: LayerNorm) -> tuple[Tensor, Tensor]:
    dropout = layer.dropout.p if layer.training else 0.0
    made = linear(inner, product.weight)
    return add_norm(x, made, product.bias, norm.weight, norm.bias, norm.eps, dropout)

"""A layer by the kernels of `kernels/`, put in the place of its plain forward pass from outside.

Shapes: T tokens in all, H width.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import LayerNorm, Linear
from torch.nn.functional import linear

from bertcli.model.attention import attend
from bertcli.model.bert import ACTIVATIONS, Bert, Layer
from bertcli.model.kernels import attention
from bertcli.model.kernels.gelu import gelu
from bertcli.model.kernels.norm import add_norm
from bertcli.model.packed import Packed


class FusedLayer(Layer):
    """A layer that computes by kernels what lies between its products, under autocast to half precision."""

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        """Returns what the plain layer does: (T, H) from (T, H)."""
        x, again = self._add_norm(x, self._mixed(x, packed), self.attended, self.attention_norm)
        if self.activation is ACTIVATIONS["gelu"]:
            inner = gelu(linear(x, self.up.weight), self.up.bias)
        else:
            inner = self.activation(self.up(x))
        return self._add_norm(again, inner, self.down, self.output_norm)[0]

    def _mixed(self, x: Tensor, packed: Packed) -> Tensor:
        dropout = self.attention_dropout if self.training else 0.0
        if packed.longest > attention.LONGEST or x.shape[1] // self.heads not in attention.WIDTHS:
            mixed: Tensor = attend(*self.parts(x), packed, dropout).flatten(1)
            return mixed
        product = linear(x, self.qkv.weight, self.qkv.bias.detach())
        return attention.attend(product, self.qkv.bias, packed.boundaries, self.heads, packed.longest, dropout)

    def _add_norm(self, x: Tensor, inner: Tensor, product: Linear, norm: LayerNorm) -> tuple[Tensor, Tensor]:
        dropout = self.dropout.p if self.training else 0.0
        made = linear(inner, product.weight)
        return add_norm(x, made, product.bias, norm.weight, norm.bias, norm.eps, dropout)


def fuse(bert: Bert) -> None:
    """Let all layers compute by kernels from now on; weights and their names stay."""
    for layer in bert.layers:
        layer.__class__ = FusedLayer

"""Gradient checkpointing (Chen et al., 2016, "Training deep nets with sublinear memory cost").

Of each layer only the input is kept; what the backward pass needs besides is computed a second time there. A large
model so learns from longer batches, for about a third more time.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bertcli.model.bert import Layer
from bertcli.model.heads import Network


class Recomputes(Layer):
    """A layer that keeps its input alone, and draws the same dropout again when it is computed again."""

    def forward(self, *inputs: Any) -> Tensor:
        """Returns what the layer does: (T, H) from (T, H)."""
        if not self.training:
            return super().forward(*inputs)
        return checkpoint(super().forward, *inputs, use_reentrant=False)  # type: ignore[no-any-return]


def recompute(network: Network) -> None:
    """Make every layer compute its activations anew in the backward pass; weights and their names stay."""
    for layer in [part for part in network.modules() if isinstance(part, Layer)]:
        # Not a wrapper around it, which would change the names of the weights, nor another `forward` of its own,
        # which would be a cycle that keeps the network in memory.
        kind = type(layer)
        layer.__class__ = type("Recomputed" + kind.__name__, (Recomputes, kind), {})

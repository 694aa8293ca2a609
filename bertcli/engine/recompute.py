"""Gradient checkpointing (Chen et al., 2016, "Training deep nets with sublinear memory cost").

Of each layer only the input is kept; what the backward pass needs besides is computed a second time there. A large
model so learns from longer batches, for about a third more time.
"""

from __future__ import annotations

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bertcli.model.bert import Layer
from bertcli.model.heads import Network
from bertcli.model.packed import Packed


class RecomputedLayer(Layer):
    """A layer that keeps its input alone, and draws the same dropout again when it is computed again."""

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        """Returns what the layer does: (T, H) from (T, H)."""
        if not self.training:
            return super().forward(x, packed)
        return checkpoint(super().forward, x, packed, use_reentrant=False)  # type: ignore[no-any-return]


def recompute(network: Network) -> None:
    """Make every layer compute its activations anew in the backward pass; weights and their names stay."""
    for layer in network.bert.layers:
        # Not a wrapper around it, which would change the names of the weights, nor another `forward` of its own,
        # which would be a cycle that keeps the network in memory.
        layer.__class__ = RecomputedLayer

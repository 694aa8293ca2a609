"""A bidirectional LSTM over tokens' vectors, and the weighted sum of layers that it may read (section 5.3, Table 7).

The paper says "768-dimensional", not of what: here, as usual, each direction has so many units. The weighted sum is
ELMo's (Peters et al., 2018): softmax weights and a scale.

Shapes: T tokens in all, B sequences, L layers, H the width of what comes in, W the units of a direction.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertcli.model.packed import Packed

# cuDNN wants weights end to end, and copies them there in less time than a step of the recurrence takes.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")

UNITS, DEPTH = 768, 2  # of a direction, and layers (section 5.3)


class LayerMix(nn.Module):
    """One vector out of those of several layers: their mean at first, then as it is learned."""

    def __init__(self, layers: int) -> None:
        """Make a weight for each layer, and the scale of all."""
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, vectors: Tensor) -> Tensor:
        """Returns the weighted sums: (T, H) from (T, L, H)."""
        return self.scale * torch.einsum("l,tlh->th", self.weights.softmax(0), vectors)


class BiLSTM(nn.Module):
    """Two layers, in each of which one LSTM reads a sequence forwards and another backwards."""

    def __init__(self, width: int, units: int, dropout: float) -> None:
        """Make them for vectors of a width; dropout stands between the layers."""
        super().__init__()
        self.lstm = nn.LSTM(width, units, DEPTH, bidirectional=True, dropout=dropout)

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        """Returns both directions' states at each token: (T, 2W) from (T, H)."""
        kind, dtype = x.device.type, next(self.parameters()).dtype
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        order, sizes = in_steps(packed.lengths)
        places = torch.from_numpy(order).to(x.device, non_blocking=True)
        steps, weights = x.to(dtype).index_select(0, places), [weight.to(dtype) for weight in self.lstm.parameters()]
        start = steps.new_zeros(2 * DEPTH, len(packed.lengths), self.lstm.hidden_size)
        with torch.autocast(kind, enabled=False):  # which knows of LSTMs no other type than fp16
            # Not by calling the module: it has its weights in one type, and other threads may be in it.
            states, *_ = torch.lstm(
                steps,
                torch.from_numpy(sizes),
                (start, start),
                weights,
                has_biases=True,
                num_layers=DEPTH,
                dropout=self.lstm.dropout,
                train=self.training,
                bidirectional=True,
            )
        return torch.empty_like(states).index_copy(0, places, states)

    def ends(self, states: Tensor, packed: Packed) -> Tensor:
        """Returns what each direction has read at its end: (B, 2W) from (T, 2W)."""
        forwards, backwards = states.chunk(2, -1)
        return torch.cat([forwards[packed.ends], backwards[packed.starts]], -1)


def in_steps(lengths: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the order in which an LSTM takes packed tokens: (T,), and how many sequences each step has.

    First come all first tokens, then all second ones, and so on, those of longer sequences before those of shorter.
    """
    sizes = np.array(lengths)
    by_length = np.argsort(-sizes, kind="stable")
    starts = np.cumsum(sizes)[by_length] - sizes[by_length]
    step = np.arange(sizes.max())[:, None]
    is_there = step < sizes[by_length]
    return (starts + step)[is_there], is_there.sum(1)

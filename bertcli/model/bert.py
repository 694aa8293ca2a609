"""BERT (Devlin et al., 2018, section 3; the Transformer encoder of Vaswani et al., 2017, layer norm last).

Shapes: T tokens in all, B sequences, H width; see `packed.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertcli.model.attention import attend
from bertcli.model.config import Config
from bertcli.model.packed import Packed

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,  # the error function, as when the released checkpoints were made
    "gelu_python": functional.gelu,
    "gelu_new": partial(functional.gelu, approximate="tanh"),
    "gelu_fast": partial(functional.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
}
SMALLEST = 1e-30  # deviation of first weights: torch draws none of 0, which a folder's config may have


class Embeddings(nn.Module):
    """Word + position + segment, normalised."""

    def __init__(self, config: Config) -> None:
        """Make the three tables."""
        super().__init__()
        self.word = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.segment = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, packed: Packed) -> Tensor:
        """Returns the vectors that enter the first layer: (T, H)."""
        x = self.word(packed.ids) + self.position(packed.positions) + self.segment(packed.segments)
        return self.dropout(self.norm(x))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """Self-attention, then feed-forward, each added to its input and normalised."""

    attend = staticmethod(attend)

    def __init__(self, config: Config) -> None:
        """Make the four products and two norms."""
        super().__init__()
        width = config.hidden_size
        self.heads, self.attention_dropout = config.num_attention_heads, config.attention_probs_dropout_prob
        self.is_causal = config.is_decoder
        self.qkv = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, config.layer_norm_eps)
        self.up = nn.Linear(width, config.intermediate_size)
        self.down = nn.Linear(config.intermediate_size, width)
        self.output_norm = nn.LayerNorm(width, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.activation = ACTIVATIONS[config.hidden_act]

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns queries, keys and values: (T, heads, width) each."""
        query, key, value = self.qkv(x).unflatten(1, (3, self.heads, -1)).unbind(1)
        return query, key, value

    def forward(self, x: Tensor, packed: Packed) -> Tensor:
        """Returns the next layer's input: (T, H) from (T, H)."""
        dropout = self.attention_dropout if self.training else 0.0
        mixed = self.attend(*self.parts(x), packed, dropout, self.is_causal).flatten(1)
        x = self.attention_norm(x + self.dropout(self.attended(mixed)))
        return self.output_norm(x + self.dropout(self.down(self.activation(self.up(x)))))  # type: ignore[no-any-return]


class Bert(nn.Module):
    """Embeddings, layers, and the pooler over [CLS], or where attention is to the left alone over the last token."""

    def __init__(self, config: Config, *, pooler: bool = True) -> None:
        """Make the network without weights of any meaning; `initialize` gives the paper's."""
        super().__init__()
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if pooler else None
        self.is_causal = config.is_decoder

    def hidden_states(self, packed: Packed) -> list[Tensor]:
        """Returns the embeddings and every layer's output: num_hidden_layers + 1 times (T, H)."""
        states = [self.embeddings(packed)]
        for layer in self.layers:
            states.append(layer(states[-1], packed))
        return states

    def forward(self, packed: Packed) -> Tensor:
        """Returns the last layer's output: (T, H)."""
        x: Tensor = self.embeddings(packed)
        for layer in self.layers:
            x = layer(x, packed)
        return x

    def pool(self, hidden: Tensor, packed: Packed) -> Tensor:
        """Returns tanh(dense(·)) of each sequence's [CLS]: (B, H).

        Of a left-to-right model it is the last [SEP]'s, which has seen all the sequence, as in GPT (Radford et al.,
        2018, section 3.2); [CLS] has seen itself alone. The paper does not say what was read there (section 5.1).
        """
        assert self.pooler is not None
        return torch.tanh(self.pooler(hidden[packed.ends if self.is_causal else packed.starts]))


def initialize(module: nn.Module, deviation: float) -> None:
    """Draw every weight from a normal cut at two deviations; biases 0, norms 1 (Google's `create_initializer`)."""
    deviation = max(deviation, SMALLEST)
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(part.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)

"""What stands on top of BERT, and the network of both. Shapes: M predicted tokens, V pieces, K classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, pad

from bertcli.model.bert import ACTIVATIONS, Bert
from bertcli.model.bilstm import BiLSTM, LayerMix
from bertcli.model.config import Config, FeatureConfig
from bertcli.model.packed import Packed

ROUND = 64  # pieces of which a GPU's products want a multiple: odd numbers take a kernel three times as slow


class MaskedLanguageHead(nn.Module):
    """Scores every piece at a hidden token; its last product is the word embeddings (section 3.1, task 1)."""

    def __init__(self, config: Config) -> None:
        """Make the transform and the pieces' biases; the decoder is tied, so it is handed in."""
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = ACTIVATIONS[config.hidden_act]

    def forward(self, hidden: Tensor, words: Tensor) -> Tensor:
        """Returns logits (M, V) from hidden vectors (M, H) and the word embeddings (V, H)."""
        return linear(self.norm(self.activation(self.dense(hidden))), words, self.bias)

    def loss(self, hidden: Tensor, words: Tensor, ids: Tensor) -> Tensor:
        """Returns the cross-entropy with the ids (M,) of the hidden tokens, summed over those that are not -1."""
        vectors = self.norm(self.activation(self.dense(hidden)))
        logits = linear(vectors, *rounded(words, self.bias, ROUND if hidden.is_cuda else 1))
        return cross_entropy(logits.float(), ids, ignore_index=-1, reduction="sum")


def rounded(words: Tensor, bias: Tensor, multiple: int) -> tuple[Tensor, Tensor]:
    """Returns word embeddings (V, H) and biases (V,) with rows up to a multiple that are never the right ones."""
    rest = -len(words) % multiple
    return pad(words, (0, 0, 0, rest)), pad(bias, (0, rest), value=-torch.inf)


class NextSentenceHead(nn.Linear):
    """Scores a pooled pair: class 0 is "B follows A", 1 is "B is random" (task 2, and Google's code)."""

    def __init__(self, config: Config) -> None:
        """Make the product of two rows."""
        super().__init__(config.hidden_size, 2)


class Classifier(nn.Module):
    """Dropout and one product: on pooled vectors (section 4.1), on choices' (4.4), on tokens' (5.3)."""

    def __init__(self, config: Config | FeatureConfig, outputs: int) -> None:
        """Make a row for each output."""
        super().__init__()
        given = config.classifier_dropout
        self.dropout = nn.Dropout(config.hidden_dropout_prob if given is None else given)
        self.output = nn.Linear(config.head_width, outputs)

    def forward(self, vectors: Tensor) -> Tensor:
        """Returns logits (n, K) from vectors (n, H)."""
        return self.output(self.dropout(vectors))  # type: ignore[no-any-return]


class SpanHead(nn.Linear):
    """Scores each token as the start and as the end of the answer: logits (T, 2) (section 4.2)."""

    def __init__(self, config: Config) -> None:
        """Make the product of two rows."""
        super().__init__(config.head_width, 2)


class Network(nn.Module):
    """BERT and the heads of one task, by name; between them there may be a BiLSTM (section 5.1), and then no pooler."""

    is_compiled = False  # whether torch's compiler, which serves one thread at a time, computes parts of it

    def __init__(self, config: Config, heads: dict[str, nn.Module], *, pooler: bool = True) -> None:
        """Put the parts together."""
        super().__init__()
        self.config = config
        self.bert = Bert(config, pooler=pooler and not config.bilstm)
        self.bilstm = bilstm(config)
        self.heads = nn.ModuleDict(heads)

    def hidden(self, packed: Packed) -> Tensor:
        """Returns the vector of each token that heads read: (T, `head_width`)."""
        hidden = self.bert(packed)
        return hidden if self.bilstm is None else self.bilstm(hidden, packed)  # type: ignore[no-any-return]

    def pooled(self, packed: Packed) -> Tensor:
        """Returns the vector of each sequence that heads read, by BERT's pooler or the BiLSTM's ends: (B, same)."""
        hidden = self.hidden(packed)
        return self.bert.pool(hidden, packed) if self.bilstm is None else self.bilstm.ends(hidden, packed)


def bilstm(config: Config | FeatureConfig) -> BiLSTM | None:
    """Returns the BiLSTM that a config asks for, drawn anew."""
    return BiLSTM(config.hidden_size, config.bilstm, config.hidden_dropout_prob) if config.bilstm else None


class FeatureNetwork(Network):
    """A BiLSTM and the heads of a task on vectors that come with the batch, in the place of BERT (section 5.3)."""

    config: FeatureConfig  # type: ignore[assignment]  # the sizes of what is there

    def __init__(self, config: FeatureConfig, heads: dict[str, nn.Module]) -> None:
        """Put the parts together."""
        nn.Module.__init__(self)
        self.config = config
        self.mix = LayerMix(config.layers) if config.layers else None
        self.bilstm = bilstm(config)
        self.heads = nn.ModuleDict(heads)

    def read(self, vectors: Tensor, packed: Packed) -> Tensor:
        """Returns what `hidden` does, of the words' vectors (T, H), or (T, L, H) where layers are kept apart."""
        assert self.bilstm is not None
        vectors = vectors.to(next(self.parameters()).dtype)
        return self.bilstm(vectors if self.mix is None else self.mix(vectors), packed)  # type: ignore[no-any-return]

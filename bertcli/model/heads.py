"""What stands on top of BERT, and the network of both. Shapes: M predicted tokens, V pieces, K classes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, pad

from bertcli.model.bert import ACTIVATIONS, Bert
from bertcli.model.config import Config

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

    def __init__(self, config: Config, outputs: int) -> None:
        """Make a row for each output."""
        super().__init__()
        given = config.classifier_dropout
        self.dropout = nn.Dropout(config.hidden_dropout_prob if given is None else given)
        self.output = nn.Linear(config.hidden_size, outputs)

    def forward(self, vectors: Tensor) -> Tensor:
        """Returns logits (n, K) from vectors (n, H)."""
        return self.output(self.dropout(vectors))  # type: ignore[no-any-return]


class SpanHead(nn.Linear):
    """Scores each token as the start and as the end of the answer: logits (T, 2) (section 4.2)."""

    def __init__(self, config: Config) -> None:
        """Make the product of two rows."""
        super().__init__(config.hidden_size, 2)


class Network(nn.Module):
    """BERT and the heads of one task, by name."""

    def __init__(self, config: Config, heads: dict[str, nn.Module], *, pooler: bool = True) -> None:
        """Put the parts together."""
        super().__init__()
        self.config = config
        self.bert = Bert(config, pooler=pooler)
        self.heads = nn.ModuleDict(heads)

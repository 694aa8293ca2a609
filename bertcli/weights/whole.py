"""All that a model consists of, so that nothing of it is lost: beside a task's network, other heads and the pooler."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from bertcli.model.config import Config
from bertcli.model.heads import Classifier, MaskedLanguageHead, Network, NextSentenceHead, SpanHead
from bertcli.weights.folder import ModelFolder
from bertcli.weights.keys import HEADS, POOLER, part_of
from bertcli.weights.tensors import Account

# What makes a head of so many outputs.
MAKE: dict[str, Callable[[Config, int], nn.Module]] = {
    "mlm": lambda config, _: MaskedLanguageHead(config),
    "nsp": lambda config, _: NextSentenceHead(config),
    "classifier": Classifier,
    "span": lambda config, _: SpanHead(config),
}


def whole(model: ModelFolder, network: Network, *, heads: bool = True) -> Account:
    """Give the network of a model's task all that the model has besides, and fill it; raises `BadData` as `fill`.

    Without `heads` it is the pooler alone.
    """
    config, there = network.config, {part_of(name) for name in model.tensors.headers}
    for part, name in HEADS.items():
        if heads and part in there and name not in network.heads:
            network.heads[name] = MAKE[name](config, outputs(model, part))
    if POOLER in there and network.bert.pooler is None:
        network.bert.pooler = nn.Linear(config.hidden_size, config.hidden_size)
    return model.fill(network)


def outputs(model: ModelFolder, part: str) -> int:
    """Returns how many outputs a head has, 1 where its tensors do not say."""
    header = model.tensors.headers.get(f"{part}.weight")
    return header.shape[0] if header and header.shape and header.size else 1


def contents(network: Network) -> str:
    """Returns what a network consists of, one line for people."""
    between = {"pooler": network.bert.pooler, "BiLSTM": network.bilstm}
    parts = ["BERT", *(name for name, part in between.items() if part is not None), *network.heads]
    return f"{sum(each.numel() for each in network.parameters()):,} parameters: {', '.join(parts)}"

"""All that a model folder holds, so that nothing of it is lost: beside a task's network, other heads and the pooler."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping

from torch import nn

from bertcli.errors import BadData
from bertcli.headers import TensorHeader, tensor_headers
from bertcli.model.config import Config
from bertcli.model.heads import Classifier, MaskedLanguageHead, Network, NextSentenceHead, SpanHead
from bertcli.weights.keys import TIED, canonical, theirs
from bertcli.weights.safetensors import ModelFolder, listed

# How a folder's tensors of a head begin, our name of the head, and what makes one of so many outputs.
HEADS: dict[str, tuple[str, Callable[[Config, int], nn.Module]]] = {
    "cls.predictions.": ("mlm", lambda config, _: MaskedLanguageHead(config)),
    "cls.seq_relationship.": ("nsp", lambda config, _: NextSentenceHead(config)),
    "classifier.": ("classifier", Classifier),
    "qa_outputs.": ("span", lambda config, _: SpanHead(config)),
}
POOLER = "bert.pooler."
COUNTED = re.compile(r"\.embeddings\.(position|token_type)_ids$")  # 0, 1, 2, … or zeros, which nobody has learned


def whole(model: ModelFolder, network: Network) -> Network:
    """Returns the network of a folder's task with all that the folder has besides, filled.

    Raises `BadData` as `load` does, and listing the tensors that have no place in it.
    """
    headers = tensor_headers(model.path)
    names = Counter(map(canonical, headers))
    if twice := [name for name, count in names.items() if count > 1]:
        raise BadData(f"tensors that come in two spellings: {listed(twice)}", file=str(model.path))
    complete(network, {canonical(name): header for name, header in headers.items()})
    model.fill(network)
    placed = {name for ours in network.state_dict() for name in theirs(ours)} | TIED.keys()
    if left := [name for name in names if name not in placed and not COUNTED.search(name)]:
        raise BadData(f"tensors that have no place in a BERT: {listed(left)}", file=str(model.path))
    return network


def complete(network: Network, found: Mapping[str, TensorHeader]) -> None:
    """Give a network those heads, and the pooler, that it lacks and of which tensors were found."""
    config = network.config
    for begin, (name, make) in HEADS.items():
        if name not in network.heads and any(each.startswith(begin) for each in found):
            shape = found[f"{begin}weight"].shape if f"{begin}weight" in found else ()
            network.heads[name] = make(config, max(shape[:1], default=1) or 1)
    if network.bert.pooler is None and any(each.startswith(POOLER) for each in found):
        network.bert.pooler = nn.Linear(config.hidden_size, config.hidden_size)


def contents(network: Network) -> str:
    """Returns what a network consists of, one line for people."""
    between = {"pooler": network.bert.pooler, "BiLSTM": network.bilstm}
    parts = ["BERT", *(name for name, part in between.items() if part is not None), *network.heads]
    return f"{sum(each.numel() for each in network.parameters()):,} parameters: {', '.join(parts)}"

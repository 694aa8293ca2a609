"""One two-way table between our names of tensors and those of Hugging Face's BERT.

Ours are `state_dict` keys of `model.heads.Network`; N stands for the number of a layer.
"""

from __future__ import annotations

import re

MODULES = {
    "bert.embeddings.word": "bert.embeddings.word_embeddings",
    "bert.embeddings.position": "bert.embeddings.position_embeddings",
    "bert.embeddings.segment": "bert.embeddings.token_type_embeddings",
    "bert.embeddings.norm": "bert.embeddings.LayerNorm",
    "bert.layers.N.attended": "bert.encoder.layer.N.attention.output.dense",
    "bert.layers.N.attention_norm": "bert.encoder.layer.N.attention.output.LayerNorm",
    "bert.layers.N.up": "bert.encoder.layer.N.intermediate.dense",
    "bert.layers.N.down": "bert.encoder.layer.N.output.dense",
    "bert.layers.N.output_norm": "bert.encoder.layer.N.output.LayerNorm",
    "bert.pooler": "bert.pooler.dense",
    "bilstm.lstm": "bilstm",
    "mix": "mix",
    "heads.mlm.dense": "cls.predictions.transform.dense",
    "heads.mlm.norm": "cls.predictions.transform.LayerNorm",
    "heads.mlm": "cls.predictions",
    "heads.nsp": "cls.seq_relationship",
    "heads.classifier.output": "classifier",
    "heads.span": "qa_outputs",
}
STACKED = {  # one product with us, three with them
    "bert.layers.N.qkv": tuple(f"bert.encoder.layer.N.attention.self.{part}" for part in ("query", "key", "value")),
}
# Their copies of tensors that are tied with us, and what they are copies of.
TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
ENCODER_LAYER = re.compile(r"bert\.encoder\.layer\.(\d{1,6})\.")


def theirs(ours: str) -> tuple[str, ...]:
    """Returns the names under which a folder holds one of our tensors, to be stacked in that order."""
    module, _, parameter = ours.rpartition(".")
    number = re.search(r"\.layers\.(\d+)\.", ours)
    key = re.sub(r"\.layers\.\d+\.", ".layers.N.", module)
    names = STACKED.get(key) or (MODULES[key],)
    return tuple(f"{name.replace('.N.', f'.{number[1]}.') if number else name}.{parameter}" for name in names)


def canonical(name: str) -> str:
    """Returns a folder's own spelling of a tensor's name as the table spells it."""
    name = name.removeprefix("module.")
    name = re.sub(r"(LayerNorm)\.gamma$", r"\1.weight", re.sub(r"(LayerNorm)\.beta$", r"\1.bias", name))
    is_bare = name.startswith(("embeddings.", "encoder.", "pooler."))  # a folder of BertModel alone
    return f"bert.{name}" if is_bare else name

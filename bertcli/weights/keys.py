"""Names of tensors: ours, those of Hugging Face's BERT, into which all spellings are turned, and Google's.

Ours are `state_dict` keys of `model.heads.Network`; N stands for the number of a layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

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
WORDS, BIASES = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"  # a row, and a number, for each piece
TIED = {"cls.predictions.decoder.weight": WORDS, "cls.predictions.decoder.bias": BIASES}
ENCODER_LAYER = re.compile(r"bert\.encoder\.layer\.(\d{1,6})\.")


def theirs(ours: str) -> tuple[str, ...]:
    """Returns the names under which a folder holds one of our tensors, to be stacked in that order."""
    module, _, parameter = ours.rpartition(".")
    number = re.search(r"\.layers\.(\d+)\.", ours)
    key = re.sub(r"\.layers\.\d+\.", ".layers.N.", module)
    names = STACKED.get(key) or (MODULES[key],)
    return tuple(f"{name.replace('.N.', f'.{number[1]}.') if number else name}.{parameter}" for name in names)


# -- parts ----------------------------------------------------------------------------------------------------------

EMBEDDINGS, ENCODER, POOLER, BILSTM, MIX = "bert.embeddings", "bert.encoder", "bert.pooler", "bilstm", "mix"
# How the names of a head's tensors begin, and what we call the head.
HEADS = {"cls.predictions": "mlm", "cls.seq_relationship": "nsp", "classifier": "classifier", "qa_outputs": "span"}
OPTIONAL = (POOLER, BILSTM, MIX, *HEADS)  # what one task has and another has not


def part_of(name: str) -> str | None:
    """Returns the part of a network, one of those above, that a tensor is of; None where it is of none."""
    parts = (EMBEDDINGS, ENCODER, *OPTIONAL)
    return next((part for part in parts if name.startswith(f"{part}.") or name == part), None)


# -- spellings ------------------------------------------------------------------------------------------------------

# Put before all names by DistributedDataParallel, torch.compile, and what holds a model as its `model`.
WRAPPERS = re.compile(r"((module|_orig_mod|model|0\.auto_model)\.)+")
OLDER = {  # parts of names, as older programs spell them
    "LayerNorm.gamma": "LayerNorm.weight",  # TensorFlow's words, up to transformers 2
    "LayerNorm.beta": "LayerNorm.bias",
    ".dense_act.": ".dense.",  # a product with its activation: NVIDIA's BERT
}
COUNTED = re.compile(r"(^|\.)embeddings\.(position|token_type)_ids$")  # 0, 1, 2, … or zeros, which nobody has learned


def canonical(name: str) -> str:
    """Returns a file's own spelling of a tensor's name as the table spells it."""
    name = WRAPPERS.sub("", name, count=1) if WRAPPERS.match(name) else name
    for old, new in OLDER.items():
        name = name.replace(old, new)
    is_bare = name.startswith(("embeddings.", "encoder.", "pooler."))  # a file of BertModel alone
    return f"bert.{name}" if is_bare else name


# How names begin in models that are akin to BERT, and are not BERT.
FAMILIES = {
    "roberta.": "RoBERTa",
    "distilbert.": "DistilBERT",
    "electra.": "ELECTRA",
    "discriminator_predictions.": "ELECTRA",
    "albert.": "ALBERT",
    "bert.encoder.albert_layer_groups.": "ALBERT",
    "bert.encoder.transformer.group_": "ALBERT",
    "bert.encoder.embedding_hidden_mapping_in.": "ALBERT",
    "bert.embeddings.embedding_transformation.": "MobileBERT",
    "transformer.layer.0.rel_attn.": "XLNet",
    "transformer.mask_emb": "XLNet",
    "bert.embeddings_project.": "ELECTRA",
    "deberta.": "DeBERTa",
    "mpnet.": "MPNet",
    "xlm_roberta.": "XLM-RoBERTa",
    "camembert.": "CamemBERT",
    "nezha.": "NEZHA",
    "mobilebert.": "MobileBERT",
    "convbert.": "ConvBERT",
    "layers.": "ModernBERT",
    "bert.transformer.": "DistilBERT",
    "transformer.layer.0.attention.": "DistilBERT",
    "transformer.": "XLNet or GPT",
    "bert.encoder.layer.0.crossattention.": "a BERT with attention to another model",
    "bert.encoder.layer.0.attention.self.distance_embedding.": "a BERT with relative positions",
}


def family(names: Iterable[str]) -> str | None:
    """Returns what sort of model tensors of these names are of, where it is a known one that is not BERT."""
    names = list(names)
    return next((kind for start, kind in FAMILIES.items() if any(name.startswith(start) for name in names)), None)


# -- Google's -------------------------------------------------------------------------------------------------------

GOOGLES = {  # those that no rule gives
    BIASES: "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
}
FROM_GOOGLE = {google: name for name, google in GOOGLES.items()}
TRANSPOSED = "/kernel"  # how the names of products end whose rows are inputs with Google, and outputs with us
# What Google's optimizer, TensorFlow's own, and training keep beside the weights.
SLOTS = re.compile(
    r"(^|/)(adam_[mv]|lamb_[mv]|Adam(_1)?|Momentum|global_step|beta[12]_power|loss_scale\w*|good_steps)$"
    r"|^(save_counter|_CHECKPOINTABLE_OBJECT_GRAPH)|/\.OPTIMIZER_SLOT/"
)


def googles(name: str) -> str:
    """Returns Google's name of a tensor."""
    if name in GOOGLES:
        return GOOGLES[name]
    name = re.sub(r"\blayer\.(\d+)\.", r"layer_\1.", name)
    name = re.sub(r"_embeddings\.weight$", "_embeddings", name)
    name = re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", re.sub(r"LayerNorm\.bias$", "LayerNorm.beta", name))
    return re.sub(r"\.weight$", ".kernel", name).replace(".", "/")


def from_google(name: str) -> str:
    """Returns the name of a tensor that Google calls so."""
    if name in FROM_GOOGLE:
        return FROM_GOOGLE[name]
    name = re.sub(r"/layer_(\d+)/", r"/layer.\1/", name)
    name = re.sub(r"_embeddings$", "_embeddings/weight", name)
    return canonical(re.sub(r"/kernel$", "/weight", name).replace("/", "."))

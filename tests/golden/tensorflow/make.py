"""Three small checkpoints that TensorFlow has written, with what TensorFlow computes from them.

    python tests/golden/tensorflow/make.py

writes them anew beside this file; it needs `tensorflow` (2.21 wrote those that are here), which nothing else does.
The network is that of the paper, in TensorFlow's operations of the first version, and its variables have the names
and shapes that Google's released code gives them. All numbers are drawn from fixed seeds, and far from what a network
begins with: each must find its place. They are the same again on one machine; elsewhere the last bits may differ.

    classifier/   a fine-tuned one of 3 labels, trained for 20 steps: `adam_m` and `adam_v` of all its variables and
                  `global_step` are there, as Google's optimizer leaves them; GELU by erf
    pretraining/  both heads, in two files of numbers, for half of the variables were on another device; GELU by tanh;
                  a config with what those of Google's multilingual model have besides
    squad/        a narrower one with the head for spans; GELU by erf

Each folder has the checkpoint's files, `bert_config.json`, `vocab.txt` and `logits.json`: inputs (`ids`, `segments`,
for pre-training also `positions`) and what comes out. They were computed as one padded batch with its attention mask.

Legend: B sequences a batch; S tokens of the longest; W width; h heads; d width of a head; P positions; C labels.
"""

from __future__ import annotations

import json
import math
import os
import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ |= {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}

import numpy as np
import tensorflow

tf = tensorflow.compat.v1
tf.disable_v2_behavior()

HERE = Path(__file__).parent
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat", "on", "mat", "##s", "##ing", "."]
LETTERS = string.ascii_lowercase
VOCABULARY = [*SPECIAL, *WORDS, *LETTERS, *(f"##{letter}" for letter in LETTERS if letter != "s")]
LABELS, STEPS = 3, 20
LENGTHS = [(9, 5), (16, 16), (1, 0), (7, 0), (3, 4)]  # tokens of each input, by segments

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": lambda x: x * 0.5 * (1 + tf.math.erf(x / math.sqrt(2))),
    "gelu_new": lambda x: x * 0.5 * (1 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


class Bert:
    """The network of one config, in the default graph, on a batch of placeholders."""

    def __init__(self, seed: int, width: int = 16, **config: Any) -> None:
        self.random = np.random.default_rng(seed)
        self.width, self.heads = width, 2
        self.config = {
            "attention_probs_dropout_prob": 0.1,
            "hidden_act": "gelu",
            "hidden_dropout_prob": 0.1,
            "hidden_size": width,
            "initializer_range": 0.02,
            "intermediate_size": 4 * width,
            "max_position_embeddings": 32,
            "num_attention_heads": self.heads,
            "num_hidden_layers": 2,
            "type_vocab_size": 2,
            "vocab_size": len(VOCABULARY),
        } | config
        self.activation = ACTIVATIONS[self.config["hidden_act"]]
        self.ids, self.segments, self.mask = (tf.placeholder(tf.int32, [None, None]) for _ in range(3))  # [B, S]
        self.embedded, x = self.embeddings()
        for layer in range(2):
            x = self.layer(f"bert/encoder/layer_{layer}", x)
        self.hidden = x  # [B, S, W]
        self.pooled = tf.tanh(self.dense("bert/pooler/dense", x[:, 0], width))  # [B, W]

    def variable(self, name: str, *shape: int, around: float = 0) -> Any:
        numbers = self.random.normal(around, 0.3, shape).astype(np.float32)
        return tf.get_variable(name, initializer=tf.constant(numbers))

    def dense(self, name: str, x: Any, width: int) -> Any:
        kernel = self.variable(f"{name}/kernel", x.shape[-1], width)
        return tf.tensordot(x, kernel, 1) + self.variable(f"{name}/bias", width)

    def norm(self, name: str, x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        beta, gamma = self.variable(f"{name}/beta", self.width), self.variable(f"{name}/gamma", self.width, around=1)
        return (x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta

    def embeddings(self) -> tuple[Any, Any]:
        """Returns the table of pieces, and [B, S, W]."""
        words = self.variable("bert/embeddings/word_embeddings", len(VOCABULARY), self.width)
        types = self.variable("bert/embeddings/token_type_embeddings", 2, self.width)
        positions = self.variable("bert/embeddings/position_embeddings", 32, self.width)
        x = tf.gather(words, self.ids) + tf.gather(types, self.segments) + positions[: tf.shape(self.ids)[1]]
        return words, self.norm("bert/embeddings/LayerNorm", x)

    def layer(self, name: str, x: Any) -> Any:
        def split(name: str) -> Any:
            """Returns [B, h, S, d]."""
            shape = [*tf.unstack(tf.shape(x))[:2], self.heads, self.width // self.heads]
            return tf.transpose(tf.reshape(self.dense(name, x, self.width), shape), [0, 2, 1, 3])

        query, key, value = (split(f"{name}/attention/self/{part}") for part in ("query", "key", "value"))
        scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(self.width // self.heads)
        unseen = (1 - tf.cast(self.mask, tf.float32)) * -10000  # [B, S]
        attended = tf.matmul(tf.nn.softmax(scores + unseen[:, None, None]), value)
        joined = tf.reshape(tf.transpose(attended, [0, 2, 1, 3]), tf.shape(x))
        joined.set_shape(x.shape)
        projected = self.dense(f"{name}/attention/output/dense", joined, self.width)
        x = self.norm(f"{name}/attention/output/LayerNorm", x + projected)
        inner = self.activation(self.dense(f"{name}/intermediate/dense", x, 4 * self.width))
        return self.norm(f"{name}/output/LayerNorm", x + self.dense(f"{name}/output/dense", inner, self.width))

    def projected(self, name: str, x: Any, width: int) -> Any:
        """Returns the logits of a head, whose weights Google's code has with the classes first."""
        weights = self.variable(f"{name}output_weights", width, self.width)
        return tf.tensordot(x, weights, [[-1], [1]]) + self.variable(f"{name}output_bias", width)

    def fed(self) -> tuple[list[dict[str, list[int]]], dict[Any, Any]]:
        """Returns inputs, and the same ones as a padded batch."""
        inputs = []
        for first, second in LENGTHS:
            ids = self.random.integers(len(SPECIAL), len(VOCABULARY), first + second)
            ids[0] = VOCABULARY.index("[CLS]")
            ids[first - 1 if first > 1 else 0 :: max(second, 1)][:2] = VOCABULARY.index("[SEP]")
            inputs.append({"ids": ids.tolist(), "segments": [0] * first + [1] * second})
        longest = max(map(sum, LENGTHS))

        def padded(rows: list[list[int]]) -> list[list[int]]:
            return [row + [0] * (longest - len(row)) for row in rows]

        return inputs, {
            self.ids: padded([one["ids"] for one in inputs]),
            self.segments: padded([one["segments"] for one in inputs]),
            self.mask: padded([[1] * len(one["ids"]) for one in inputs]),
        }


def session() -> Any:
    """Returns one that repeats itself, with two devices, and all variables as they begin."""
    one = tf.Session(
        config=tf.ConfigProto(device_count={"CPU": 2}, intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    )
    one.run(tf.global_variables_initializer())
    return one


def train(loss: Any) -> Any:
    """Returns a step of Adam with weight decay, without bias correction, whose moments are variables."""
    steps, variables = tf.train.get_or_create_global_step(), tf.trainable_variables()
    updates = [steps.assign_add(1)]
    gradients = tf.tuple([tf.convert_to_tensor(each) for each in tf.gradients(loss, variables)])  # all before an update
    for variable, gradient in zip(variables, gradients, strict=True):
        name, zeros = variable.op.name, tf.zeros_initializer()
        m = tf.get_variable(f"{name}/adam_m", variable.shape, initializer=zeros, trainable=False)
        v = tf.get_variable(f"{name}/adam_v", variable.shape, initializer=zeros, trainable=False)
        next_m = 0.9 * m + 0.1 * gradient
        next_v = 0.999 * v + 0.001 * gradient**2
        update = next_m / (tf.sqrt(next_v) + 1e-6)
        if not any(part in name for part in ("LayerNorm", "bias")):
            update += 0.01 * variable
        updates += [m.assign(next_m), v.assign(next_v), variable.assign(variable - 1e-3 * update)]
    return tf.group(*updates)


def save(folder: Path, prefix: str, bert: Bert, run: Any, inputs: list[dict[str, Any]], **saver: bool) -> None:
    """Write a folder as Google publishes them, without the graph, which nobody reads."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    step = STEPS if prefix == "model.ckpt" else None
    tf.train.Saver(save_relative_paths=True, **saver).save(
        run, str(folder / prefix), step, write_meta_graph=False, write_state=bool(step)
    )
    (folder / "bert_config.json").write_text(json.dumps(bert.config, indent=2) + "\n")
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in VOCABULARY))
    rows = ",\n".join(json.dumps(one) for one in inputs)
    (folder / "logits.json").write_text(f"[\n{rows}\n]\n")


def numbers(array: Any) -> Any:
    """Returns float32 as lists, each number with the fewest digits that tell it from others."""
    return [numbers(row) for row in array] if array.ndim else float(str(array))


def classifier() -> None:
    bert = Bert(seed=1)
    logits = bert.projected("", bert.pooled, LABELS)  # [B, C]
    inputs, fed = bert.fed()
    labels = [number % LABELS for number in range(len(inputs))]
    step = train(tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)))
    with session() as run:
        for _ in range(STEPS):
            run.run(step, fed)
        for one, row in zip(inputs, run.run(logits, fed), strict=True):
            one["logits"] = numbers(row)
        save(HERE / "classifier", "model.ckpt", bert, run, inputs)


def pretraining() -> None:
    more = {"directionality": "bidi", "pooler_fc_size": 16, "pooler_num_attention_heads": 2, "pooler_num_fc_layers": 3}
    more |= {"pooler_size_per_head": 8, "pooler_type": "first_token_transform"}
    with tf.device(lambda operation: f"/cpu:{len(operation.name) % 2}" if "Variable" in operation.type else "/cpu:0"):
        bert = Bert(seed=2, hidden_act="gelu_new", **more)
        transformed = bert.activation(bert.dense("cls/predictions/transform/dense", bert.hidden, bert.width))
        transformed = bert.norm("cls/predictions/transform/LayerNorm", transformed)
        pieces = tf.tensordot(transformed, bert.embedded, [[-1], [1]])
        pieces += bert.variable("cls/predictions/output_bias", len(VOCABULARY))  # [B, S, vocabulary]
        following = bert.projected("cls/seq_relationship/", bert.pooled, 2)  # [B, 2]
    inputs, fed = bert.fed()
    with session() as run:
        for one, mlm, nsp in zip(inputs, *run.run([pieces, following], fed), strict=True):
            one["positions"] = sorted({0, len(one["ids"]) // 2, len(one["ids"]) - 1})
            one |= {"mlm": numbers(mlm[one["positions"]]), "nsp": numbers(nsp)}
        save(HERE / "pretraining", "bert_model.ckpt", bert, run, inputs, sharded=True)


def squad() -> None:
    bert = Bert(seed=3, width=8)
    logits = bert.projected("cls/squad/", bert.hidden, 2)  # [B, S, 2]
    inputs, fed = bert.fed()
    with session() as run:
        for one, row in zip(inputs, run.run(logits, fed), strict=True):
            start, end = numbers(row[: len(one["ids"])].T)
            one |= {"start": start, "end": end}
        save(HERE / "squad", "model.ckpt", bert, run, inputs)


if __name__ == "__main__":
    for make in (classifier, pretraining, squad):
        tf.reset_default_graph()
        make()

"""Vectors of words, tokens or whole texts (section 5.3): what `embed` adds to a record."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertcli.errors import BadData, BertcliError, UsageError
from bertcli.model.config import Config
from bertcli.model.heads import Network
from bertcli.records import Record, Words, checker
from bertcli.tasks.task import Batch, Example, Task, array, finite, packed, sequence
from bertcli.text.windows import best_window, halves
from bertcli.text.wordpiece import WordPiece

NAMED_LAYERS = {
    "embeddings": (0,),
    "last": (-1,),
    "second-to-last": (-2,),
    "concat4": (-4, -3, -2, -1),
    "weighted4": (-4, -3, -2, -1),
}


@dataclass(frozen=True)
class Layers:
    """Hidden states by index: 0 the embeddings, 1 the first layer, -1 the last; concatenated, or kept apart."""

    indices: tuple[int, ...]
    apart: bool


def parse_layers(text: str, number: int) -> Layers:
    """Returns the layers that a name or a list means in a model of `number` layers; raises `UsageError`."""
    if text == "weighted-all":
        return Layers(tuple(range(1, number + 1)), apart=True)
    try:
        indices = NAMED_LAYERS.get(text) or tuple(int(part) for part in text.split(","))
    except ValueError:
        names = ", ".join([*NAMED_LAYERS, "weighted-all"])
        raise UsageError(f"--layers {text}: neither one of {names} nor a list such as -1,-2") from None
    for index in indices:
        if not -number - 1 <= index <= number:
            raise UsageError(f"--layers {text}: {index} is not one of the model's {number} layers and its embeddings")
    return Layers(indices, apart=text == "weighted4")


class Embedding(Task):
    """Gives each word, token or text its vectors; a long text is read in overlapping windows.

    Every token's vector comes from the window in which it has the most context. A text and its pair are one sequence
    and cut to one window instead.
    """

    name = "embedding"
    architecture = None
    pooler = False

    def __init__(
        self,
        wordpiece: WordPiece,
        max_length: int,
        layers: Layers,
        *,
        pool: str | None = None,
        dtype: str = "float16",
        as_list: bool = False,
    ) -> None:
        """Without a pool, records with words get a row a word and others a row a token."""
        self.wordpiece, self.max_length, self.layers = wordpiece, max_length, layers
        self.pool, self.dtype, self.as_list = pool, np.dtype(dtype).newbyteorder("<"), as_list

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window, with the `rows` that it answers for: their places in it."""
        checker(Words)(record)
        words, pair = record.get("words"), record.get("text_pair")
        pool = self._pool(record)
        if words is None and pair is not None:
            return [self._encode_pair(record["text"], pair, pool)]
        if words is None:
            ids, firsts = self.wordpiece.text_ids(record["text"]), None
        else:
            pieces = self.wordpiece.encode_words(words)
            ids = [number for word in pieces for number in word]
            firsts = set(np.cumsum([0, *map(len, pieces[:-1])]).tolist()) if pieces else set()
        return self._windows(ids, firsts if pool == "words" else None, pool)

    def _pool(self, record: Record) -> str:
        pool = self.pool or ("words" if record.get("words") is not None else "tokens")
        if pool == "words" and record.get("words") is None:
            raise BadData(field="words", found=None, expected="a list of strings, as --pool words asks for")
        return pool

    def _encode_pair(self, text: str, pair: str, pool: str) -> Example:
        first, second = self.wordpiece.text_ids(text), self.wordpiece.text_ids(pair)
        example, cut = sequence(self.wordpiece, first, second, self.max_length)
        self.shortened += cut
        rows = range(1 if pool == "cls" else len(example["ids"]))
        return {**example, "rows": array(rows)}

    def _windows(self, ids: list[int], firsts: set[int] | None, pool: str) -> list[Example]:
        spans = halves(len(ids), self.max_length - 2)[: 1 if pool == "cls" else None]
        owner = best_window(spans, len(ids))
        examples = []
        for number, (start, end) in enumerate(spans):
            rows = [1 + token - start for token in range(start, end) if owner[token] == number]
            if firsts is not None:
                rows = [row for row in rows if row - 1 + start in firsts]
            else:  # the whole text's [CLS] is its first window's, its [SEP] its last one's
                rows = [0] * (number == 0) + rows + [1 + end - start] * (number == len(spans) - 1)
            rows = [0] if pool == "cls" else rows
            example, _ = sequence(self.wordpiece, ids[start:end], None, self.max_length)
            examples.append({**example, "rows": array(rows)})
        return examples

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns a batch whose target `rows` are places among all tokens (R,); `owner` is each one's example (R,)."""
        batch = packed(examples)
        sizes = [len(example["rows"]) for example in examples]
        starts = np.repeat(batch.boundaries.numpy()[:-1].astype(np.int64), sizes)
        rows = torch.from_numpy(np.concatenate([example["rows"] for example in examples]) + starts)
        owner = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
        return Batch(batch, {"rows": rows, "owner": owner}, {})

    # -- head

    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns none: the vectors are the encoder's own."""
        return {}

    # -- loss

    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns none: nothing is trained."""
        return {}

    # -- decode

    def outputs(self, network: Network, batch: Batch) -> list[NDArray[np.float32]]:
        """Returns each example's rows, or their sum for the mean: (rows, width), with layers before it where apart."""
        states = network.bert.hidden_states(batch.packed)
        rows = [states[index].index_select(0, batch.targets["rows"]).float() for index in self.layers.indices]
        vectors = torch.stack(rows) if self.layers.apart else torch.cat(rows, -1)
        count, owner = len(batch.packed.lengths), batch.targets["owner"]
        if self.pool == "mean":  # a window's sum: the mean is over all the windows of a text
            sums = vectors.new_zeros((*vectors.shape[:-2], count, vectors.shape[-1]))
            vectors, bounds = sums.index_add(-2, owner, vectors), list(range(count + 1))
        else:
            bounds = torch.searchsorted(owner, torch.arange(count + 1, device=owner.device)).tolist()
        whole = finite(vectors).cpu().numpy()
        return [whole[..., begin:end, :] for begin, end in pairwise(bounds)]

    def decode(self, record: Record, examples: list[Example], answer: list[NDArray[np.float32]]) -> Record:
        """Returns the record with its vectors, and its tokens where the rows are pieces."""
        vectors = np.concatenate(answer, axis=-2)
        pool = self._pool(record)
        if pool == "mean":
            vectors = vectors.sum(axis=-2, keepdims=True) / sum(len(example["rows"]) for example in examples)
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is told below
            vectors = vectors.astype(self.dtype)
        if not np.isfinite(vectors).all():
            raise BertcliError(f"a vector does not fit {self.dtype.name}: try --dtype float32")
        data = vectors.tolist() if self.as_list else self._compact(vectors)
        if pool != "tokens":
            return {**record, "vectors": data}
        pieces = self.wordpiece.pieces
        tokens = [pieces[number] for example in examples for number in example["ids"][example["rows"]]]
        return {**record, "vectors": data, "tokens": tokens}

    def _compact(self, vectors: NDArray[Any]) -> dict[str, Any]:
        data = base64.b64encode(vectors.tobytes()).decode()
        return {"dtype": self.dtype.name, "shape": list(vectors.shape), "data": data}

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns nothing: vectors have no truth to be held against."""
        return {}

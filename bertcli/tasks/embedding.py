"""Vectors of words, tokens or whole texts (section 5.3): what `embed` adds to a record.

Shapes: R rows, H width of all layers that are concatenated, L layers that are kept apart: (R, H) or (L, R, H).
"""

from __future__ import annotations

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
from bertcli.records import Record
from bertcli.tasks.segments import Segments, segments
from bertcli.tasks.task import Batch, Example, Task, array, finite, packed, sequence
from bertcli.text.windows import Spans, halves, paired, shared
from bertcli.text.wordpiece import WordPiece
from bertcli.vectors import FIELD, compact

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

    name: str
    indices: tuple[int, ...]
    apart: bool


def parse_layers(text: str, number: int) -> Layers:
    """Returns the layers that a name or a list means in a model of `number` layers; raises `UsageError`."""
    if text == "weighted-all":
        return Layers(text, tuple(range(1, number + 1)), apart=True)
    try:
        indices = NAMED_LAYERS.get(text) or tuple(int(part) for part in text.split(","))
    except ValueError:
        names = ", ".join([*NAMED_LAYERS, "weighted-all"])
        raise UsageError(f"--layers {text}: neither one of {names} nor a list such as -1,-2") from None
    for index in indices:
        if not -number - 1 <= index <= number:
            raise UsageError(f"--layers {text}: {index} is not one of the model's {number} layers and its embeddings")
    return Layers(_name_of(text, indices, number), indices, apart=text == "weighted4")


def _name_of(text: str, indices: tuple[int, ...], number: int) -> str:
    """Returns one name for the same layers, however they were asked for."""
    if text in NAMED_LAYERS:
        return text
    counted = tuple(index % -(number + 1) for index in indices)  # from the last layer on, 0 being the embeddings
    return next((name for name, own in NAMED_LAYERS.items() if own == counted), ",".join(map(str, counted)))


class Embedding(Task):
    """Gives each word, token or text its vectors; what is longer than the model is read in overlapping windows.

    Every token's vector comes from the window in which it has the most context.
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
        field: str | None = None,
        model: str = "",
        width: int = 0,
    ) -> None:
        """Without a pool, records with words get a row a word and others a row a token.

        `field` is what is read instead of what a record's type says; `model` is the weights' fingerprint,
        `width` a layer's, by which it is known how much there will be to hold.
        """
        self.wordpiece, self.max_length, self.layers = wordpiece, max_length, layers
        self.pool, self.dtype, self.as_list = pool, dtype, as_list
        self.field, self.model = field, model
        self.held = 0 if pool in ("cls", "mean") else len(layers.indices) * width * np.dtype(dtype).itemsize

    # -- encode

    def encode(self, record: Record) -> list[Example]:
        """Returns a sequence for each window, with the `rows` that it answers for, by their places in it.

        `places` are those rows' own among the record's; where they are summed up it is the place of the sum. Rows of
        pieces have the ids of these, `pieces`, too.
        """
        examples: list[Example] = []
        begun = 0
        for number, own in enumerate(segments(self.wordpiece, record, self.field)):
            if self.pool == "words" and own.words is None:
                name = self.field or "words"
                raise BadData(
                    field=name, found=record.get(name), expected="a list of strings, as --pool words asks for"
                )
            windows = self._windows(own)
            examples += self._pooled(windows, own, number, begun)
            begun += sum(len(window["rows"]) for window in windows)
        return examples

    def _windows(self, own: Segments) -> list[Example]:
        """Returns a sequence's windows, with the rows and places of all its tokens: [CLS] A [SEP] B [SEP]."""
        sides = [side for side in (own.first, own.second) if side is not None]
        lengths = [len(side) for side in sides]
        whole, _ = sequence(self.wordpiece, own.first, own.second, sum(lengths) + 3)
        if len(whole["ids"]) <= self.max_length:
            places = np.arange(len(whole["ids"]), dtype=np.int32)
            return [{**whole, "rows": places, "places": places}]
        spans: Spans = [(span,) for span in halves(len(own.first), self.max_length - 2)]
        if own.second is not None:
            spans = paired(len(own.first), len(own.second), self.max_length - 3)
        return [
            {
                "ids": whole["ids"][places],
                "segment_b": array([-1] if own.second is None else np.searchsorted(places, whole["segment_b"])),
                "rows": rows.astype(np.int32),
                "places": places[rows].astype(np.int32),
            }
            for places, rows in shared(spans, lengths)
        ]

    def _pooled(self, windows: list[Example], own: Segments, number: int, begun: int) -> list[Example]:
        """Returns the windows of a record's sequence of that number, before which so many tokens have begun, pooled."""
        match self.pool or ("tokens" if own.words is None else "words"):
            case "cls":
                return [{**windows[0], "rows": array([0]), "places": array([number])}]
            case "mean":
                return [{**window, "places": array([number])} for window in windows]
            case "tokens":
                return [
                    {**window, "places": window["places"] + begun, "pieces": window["ids"][window["rows"]]}
                    for window in windows
                ]
        assert own.words is not None
        firsts = own.words + 1  # behind [CLS]
        pooled = []
        for window in windows:
            is_first = np.isin(window["places"], firsts)
            words = np.searchsorted(firsts, window["places"][is_first])
            pooled.append({**window, "rows": window["rows"][is_first], "places": words.astype(np.int32)})
        return [window for window in pooled if len(window["rows"])] or pooled[:1]

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

    def outputs(self, network: Network, batch: Batch) -> list[NDArray[Any]]:
        """Returns each example's rows, (R, H) or (L, R, H), or for the mean their sum, (1, H) or (L, 1, H)."""
        states = network.bert.hidden_states(batch.packed)
        rows = [states[index].index_select(0, batch.targets["rows"]) for index in self.layers.indices]
        vectors = finite(torch.stack(rows) if self.layers.apart else torch.cat(rows, -1))
        count, owner = len(batch.packed.lengths), batch.targets["owner"]
        if self.pool == "mean":  # a window's sum: the mean is over all the windows of a text
            sums = vectors.new_zeros((*vectors.shape[:-2], count, vectors.shape[-1]), dtype=torch.float32)
            vectors, bounds = sums.index_add(-2, owner, vectors.float()), list(range(count + 1))
        else:
            vectors = vectors.to(getattr(torch, self.dtype))  # here, so that no more travels than is written
            bounds = torch.searchsorted(owner, torch.arange(count + 1, device=owner.device)).tolist()
        whole = vectors.cpu().numpy()
        return [whole[..., begin:end, :] for begin, end in pairwise(bounds)]

    def decode(self, record: Record, examples: list[Example], answer: list[NDArray[Any]]) -> Record:
        """Returns the record with its vectors, and its tokens where the rows are pieces."""
        places = np.concatenate([example["places"] for example in examples])
        vectors = answer[0] if len(answer) == 1 else np.concatenate(answer, axis=-2)
        if self.pool == "mean":
            vectors = _means(vectors, places, [len(example["rows"]) for example in examples])
        elif len(answer) > 1:
            vectors = vectors[..., np.argsort(places), :]
        with np.errstate(over="ignore"):  # what overflows becomes infinite, and is told below
            vectors = vectors.astype(self.dtype, copy=False)
        if not np.isfinite(vectors).all():
            raise BertcliError(f"a vector does not fit {self.dtype}: try --dtype float32")
        pool = self.pool or ("tokens" if "pieces" in examples[0] else "words")
        source = f"{self.layers.name}/{pool}/{self.model}"
        made = {**record, FIELD: vectors.tolist() if self.as_list else compact(vectors, source)}
        if pool == "tokens":
            pieces = np.concatenate([example["pieces"] for example in examples])[np.argsort(places)]
            made["tokens"] = [self.wordpiece.pieces[number] for number in pieces.tolist()]
        return made

    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns nothing: vectors have no truth to be held against."""
        return {}


def _means(sums: NDArray[np.float32], places: NDArray[np.int32], counts: list[int]) -> NDArray[np.float32]:
    """Returns the means whose sums have come in parts, of so many tokens each."""
    numbers, owned = np.array(counts, np.float32), [places == place for place in range(places[-1] + 1)]
    return np.stack([sums[..., own, :].sum(-2) / numbers[own].sum() for own in owned], axis=-2)

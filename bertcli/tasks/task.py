"""The protocol of a task: what the engine knows of it.

A record is encoded into examples, each one sequence of ids or several, as small arrays of numbers that a spool can
hold. Examples are collated into a batch of packed tokens; a network makes of a batch losses to learn from, or one
output an example. The outputs of a record's examples are combined into its answer, and decoded into the record.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bertcli.errors import Diverged
from bertcli.model.bert import initialize
from bertcli.model.config import Config, FeatureConfig
from bertcli.model.heads import FeatureNetwork, Network, bilstm
from bertcli.model.packed import Packed, pack
from bertcli.records import Record
from bertcli.text.windows import halves, paired
from bertcli.text.wordpiece import WordPiece

# `ids` of one sequence or more, end to end; `segment_b` of each (-1 for none); where there may be several, their
# `sizes`; and whatever the task adds. Every array is flat.
Example = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Batch:
    """Packed sequences and what is to be found in them; `counts` says by what each loss is divided."""

    packed: Packed
    targets: dict[str, Tensor]
    counts: Mapping[str, float]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels from one process to another by way of numpy, for torch's tensors travel slowly."""
        targets = {name: tensor.numpy() for name, tensor in self.targets.items()}
        return _arrived, (self.packed, targets, dict(self.counts))

    def pinned(self) -> Batch:
        """Returns the same batch in memory that a GPU reads while others go on."""
        targets = {name: tensor.pin_memory() for name, tensor in self.targets.items()}
        return replace(self, packed=self.packed.pinned(), targets=targets)

    def to(self, device: torch.device) -> Batch:
        """Returns the same batch on a device."""
        moved = {name: tensor.to(device, non_blocking=True) for name, tensor in self.targets.items()}
        return replace(self, packed=self.packed.to(device), targets=moved)


def _arrived(packed: Packed, targets: dict[str, NDArray[Any]], counts: dict[str, float]) -> Batch:
    return Batch(packed, {name: torch.from_numpy(values) for name, values in targets.items()}, counts)


class Task(ABC):
    """One of the paper's tasks."""

    name: str
    architecture: str | None  # the transformers class that reads the folder, None where there is none
    pooler: bool  # whether the heads stand on the pooled [CLS]
    wordpiece: WordPiece
    max_length: int  # tokens a sequence, specials included
    is_cut: bool = False  # whether of a long text the first window alone is read, as by Google's code
    shortened: int = 0  # records that were encoded shorter than they are
    sequence: str = "window"  # what a record's examples are called
    inputs: str = "vocabularies"  # what `reads` tells of
    held: int = 0  # bytes of what comes in or out for each token, where so many that fewer may be held at a time
    units: str = "records"  # what is shortened, to `room` tokens
    labels: tuple[str, ...] = ()  # of the head's outputs, in the order of their ids
    problem_type: str | None = None  # transformers' word for what the labels of a text are
    criteria: tuple[str, ...] = ()  # metrics; by the first one that there is, one run is better than another
    errors: tuple[str, ...] = ()  # metrics that are better the lower they are

    @property
    def room(self) -> int:
        """Returns the most tokens that what is shortened may have."""
        return self.max_length

    @abstractmethod
    def encode(self, record: Record) -> list[Example]:
        """Returns the examples by which a record is answered; raises `BadData` naming the field at fault."""

    def learn(self, record: Record) -> list[Example]:
        """Returns the examples that a record is to learn from, with their targets; raises `BadData` like `encode`."""
        return self.encode(record)

    def learn_at(self, record: Record, index: int) -> list[Example]:
        """Returns what `learn` does; the index, the record's place in the stream, counts for one without an id."""
        return self.learn(record)

    def gold(self, record: Record) -> Any:
        """Returns the right answer; raises `BadData` where there is none, or an unknown one."""
        return None

    def parts(self, answer: Any) -> Iterable[str]:
        """Returns what an answer, or a right one, consists of: one part, unless it is of several words."""
        return [str(answer)]

    def close(self) -> None:  # noqa: B027  # most tasks have nothing to close
        """Learn no further labels; raises `BadData` where there is nothing to tell apart."""

    @abstractmethod
    def heads(self, config: Config) -> dict[str, nn.Module]:
        """Returns fresh heads by name."""

    def adapt(self, network: Network, labels: Sequence[str] | None) -> None:  # noqa: B027  # as it is, it fits most
        """Make heads fit the records: fresh ones, or kept ones whose outputs stand in the order of `labels`."""

    def at_epoch(self, example: Example, epoch: int) -> Example:
        """Returns what one epoch sees of an example."""
        return example

    def padding(self, length: int) -> Example:
        """Returns an example of so many [PAD] from which nothing is learned."""
        return {"ids": array([self.wordpiece.pad] * length), "segment_b": array([-1])}

    def evened(self, batch: Batch) -> Batch:
        """Returns the batch with what else varies in size, beside tokens and sequences, filled up to what recurs."""
        return batch

    @abstractmethod
    def collate(self, examples: Sequence[Example]) -> Batch:
        """Returns examples as one batch, on the host."""

    @abstractmethod
    def losses(self, network: Network, batch: Batch) -> dict[str, Tensor]:
        """Returns each loss as a sum, by the names of `batch.counts`."""

    @abstractmethod
    def outputs(self, network: Network, batch: Batch) -> list[Any]:
        """Returns what `combine` needs of each example, on the host."""

    def combine(self, examples: list[Example], outputs: list[Any]) -> Any:
        """Returns one answer from those of a record's examples; of several models, the mean of it is the answer."""
        return outputs

    @abstractmethod
    def decode(self, record: Record, examples: list[Example], answer: Any) -> Record:
        """Returns the record with its answer added."""

    def calibrate(self, records: list[Record]) -> list[Record]:
        """Returns answered records, answered anew with whatever of the task is to be fitted to records with truth."""
        return records

    @abstractmethod
    def score(self, records: Iterable[Record]) -> dict[str, Any]:
        """Returns the task's metrics over answered records that hold the truth."""

    def difference(self, other: Task) -> str:
        """Returns in what another task cannot answer beside this one, "" where it can."""
        mine, theirs = (
            {
                "tasks": (task.name, task.problem_type),
                "labels": sorted(task.labels),
                self.inputs: task.reads(),
                "ways of reading": task.options(),
            }
            for task in (self, other)
        )
        return next((name for name, value in mine.items() if value != theirs[name]), "")

    def reads(self) -> dict[str, Any]:
        """Returns by what a record is turned into numbers: the vocabulary, by a hash of it, and its casing."""
        pieces = blake2b("\n".join(self.wordpiece.pieces).encode(), digest_size=4).hexdigest()
        return {"vocabulary": pieces, "casing": str(self.wordpiece.casing)}

    def essence(self, record: Record) -> Record:
        """Returns a record without what, once it is encoded, neither its answer nor its score needs."""
        return record

    def options(self) -> dict[str, Any]:
        """Returns how the task was told to read and weigh records; `--resume` goes on with the same only."""
        return {"max_length": self.max_length, "cut": self.is_cut}

    def join(self, others: Sequence[Any]) -> None:  # noqa: B027  # most tasks fit nothing that folders hold
        """Answer with what is the mean of the task's own and other models' fitted values."""

    def notes(self) -> dict[str, Any]:
        """Returns what `bertcli.json` must hold for the folder to answer as the task does."""
        return {"cut": True} if self.is_cut else {}


def build(task: Task, config: Config | FeatureConfig, seed: int = 0) -> Network:
    """Returns a network for a task, its weights drawn anew; torch's generator goes on from there."""
    torch.manual_seed(seed)
    if isinstance(config, FeatureConfig):
        heads = task.heads(config)  # type: ignore[arg-type]  # a task on vectors, whose heads want no more than a width
        network: Network = FeatureNetwork(config, heads)
    else:
        network = Network(config, task.heads(config), pooler=task.pooler)
    initialize(network, config.initializer_range)
    return network


def headed(task: Task, config: Config | FeatureConfig, seed: int = 0) -> Network:
    """Returns a network for a folder to fill: what stands on BERT is drawn anew, in case the folder has none.

    BERT itself has no numbers yet, on no device (`meta`): to draw them all only to write over them takes seconds.
    """
    if isinstance(config, FeatureConfig):
        return build(task, config, seed)
    torch.manual_seed(seed)
    with torch.device("meta"), _Undrawn():
        network = Network(config, {}, pooler=task.pooler)
    network.heads.update(task.heads(config))
    network.bilstm = bilstm(config)
    if network.bert.pooler is not None:
        network.bert.pooler = nn.Linear(config.hidden_size, config.hidden_size)
    for part in (network.heads, network.bert.pooler):
        if part is not None:
            initialize(part, config.initializer_range)
    return network


class _Undrawn(TorchFunctionMode):
    """Lets modules be made without first numbers: even on no device, to draw some would load torch's compiler."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Returns the tensor that an initializer is given as it is, and of other functions the result."""
        if getattr(function, "__module__", None) == "torch.nn.init":
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


# -- examples -------------------------------------------------------------------------------------------------------


def array(values: Iterable[int]) -> NDArray[np.int32]:
    """Returns numbers as examples hold them."""
    return np.array(list(values), dtype=np.int32)


def sequence(wordpiece: WordPiece, first: list[int], second: list[int] | None, room: int) -> tuple[Example, bool]:
    """Returns `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]` of at most `room` ids, and whether it was cut.

    The longer side is cut from its end, a token at a time (Google's `_truncate_seq_pair`); of equal ones the second.
    """
    if second is None:
        ids = [wordpiece.cls, *first[: room - 2], wordpiece.sep]
        return {"ids": array(ids), "segment_b": array([-1])}, len(first) > room - 2
    space = room - 3
    rest = min(len(second), max(space - len(first), space // 2))
    ids = [wordpiece.cls, *first[: space - rest], wordpiece.sep]
    border = len(ids)
    ids += [*second[:rest], wordpiece.sep]
    return {"ids": array(ids), "segment_b": array([border])}, len(first) + len(second) > space


def texts(task: Task, record: Record) -> list[Example]:
    """Returns the sequences in which a record's `text`, or that and its `text_pair`, is read."""
    first, pair = task.wordpiece.text_ids(record["text"]), record.get("text_pair")
    return readings(task, first, None if pair is None else task.wordpiece.text_ids(pair))


def readings(task: Task, first: list[int], second: list[int] | None) -> list[Example]:
    """Returns the sequences in which a text or two are read: overlapping windows, or one that is cut.

    See `windows.paired` for two texts.
    """
    wordpiece, room = task.wordpiece, task.max_length
    if task.is_cut:
        example, is_shorter = sequence(wordpiece, first, second, room)
        task.shortened += is_shorter
        return [example]
    if second is None:
        spans = halves(len(first), room - 2)
        return [sequence(wordpiece, first[start:end], None, room)[0] for start, end in spans]
    sides = paired(len(first), len(second), room - 3)
    return [sequence(wordpiece, first[a:b], second[c:d], room)[0] for (a, b), (c, d) in sides]


def joined(examples: Sequence[Example], **others: NDArray[Any]) -> Example:
    """Returns one example with the sequences of several, and what else is told of it."""
    whole = {name: np.concatenate([example[name] for example in examples]) for name in ("ids", "segment_b")}
    return {**whole, "sizes": array(len(example["ids"]) for example in examples), **others}


# -- tensors --------------------------------------------------------------------------------------------------------


def grain(total: int, parts: int) -> int:
    """Returns a step for sums of so many parts: half of total/√parts, by which they may well vary, as a power of 2."""
    return 1 << max(0, int(total / math.sqrt(parts) / 2).bit_length() - 1)


def packed(examples: Sequence[Example]) -> Packed:
    """Returns the sequences of some examples end to end."""
    sequences: list[NDArray[Any]] = []
    for example in examples:
        is_one = len(example["segment_b"]) == 1
        sequences += [example["ids"]] if is_one else np.split(example["ids"], np.cumsum(example["sizes"])[:-1])
    borders = np.concatenate([example["segment_b"] for example in examples]).tolist()
    return pack(sequences, [None if border < 0 else border for border in borders])


def owners(examples: Sequence[Example]) -> Tensor:
    """Returns for each sequence of some examples the index of the one that it is of: (S,)."""
    counts = [len(example["segment_b"]) for example in examples]
    return torch.from_numpy(np.repeat(np.arange(len(counts)), counts))


def scores(network: Network, batch: Batch) -> Tensor:
    """Returns what a classifier gives each sequence by its pooled vector: (S, K)."""
    return network.heads["classifier"](network.pooled(batch.packed)).float()  # type: ignore[no-any-return]


def highest(each: Tensor, owner: Tensor, rows: int) -> Tensor:
    """Returns of the scores (S, K) those that are highest among the sequences of each owner: (rows, K)."""
    lowest = each.new_full((rows, each.shape[1]), -torch.inf)
    return lowest.scatter_reduce(0, owner[:, None].expand_as(each), each, "amax")


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns probabilities along the last axis."""
    odds: NDArray[np.float64] = np.exp(scores - scores.max(-1, keepdims=True))
    return odds / odds.sum(-1, keepdims=True)  # type: ignore[no-any-return]


def finite(numbers: Tensor) -> Tensor:
    """Returns the numbers; raises `Diverged` where they are not all finite, as with weights that overflow."""
    if not bool(numbers.isfinite().all()):
        raise Diverged("the model's answer is not a finite number: are its weights whole?")
    return numbers


def reorder(head: nn.Module, old: Sequence[str], new: Sequence[str]) -> None:
    """Give a head's rows, which stand in the order of the old labels, that of the new ones."""
    order = [old.index(label) for label in new]
    for parameter in head.parameters():
        parameter.data = parameter.data[order]

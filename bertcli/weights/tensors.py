"""Tensors in files, not yet read, and a network filled with them.

Each tensor is used, a copy of one that is, or left out by its name: a part that the network does not have, an
optimizer's state. Whatever else is there, or is not there, or has another shape, is an error that lists it, and nothing
is read then. Only a new head may be fresh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertcli.errors import LONGEST_NAME, BadData, many, shortened
from bertcli.headers import TensorHeader
from bertcli.model.config import Config
from bertcli.model.heads import Network
from bertcli.weights.keys import (
    BIASES,
    BILSTM,
    COUNTED,
    ENCODER_LAYER,
    HEADS,
    OPTIONAL,
    POOLER,
    TIED,
    WORDS,
    canonical,
    part_of,
    theirs,
)

FLOATS = ("F64", "F32", "F16", "BF16")
MULTIPLES = (8, 16, 32, 64, 128, 256, 512, 1024)  # to which rows of pieces are filled up, for the speed of products
OPTIMIZERS = "an optimizer's state"  # what an account calls it


@dataclass(frozen=True)
class Tensors:
    """What is in files, by canonical names."""

    path: Path
    headers: dict[str, TensorHeader]
    beside: Counter[str]  # tensors that are not a network's, by what they are
    read_one: Callable[[str], Tensor]

    @classmethod
    def spelled(
        cls,
        path: Path,
        headers: Mapping[str, TensorHeader],
        read: Callable[[str], Tensor],
        beside: Mapping[str, int] | None = None,
    ) -> Tensors:
        """Returns tensors from those by a file's own names; raises `BadData` where one comes in two spellings."""
        own = {canonical(name): name for name in headers}
        if len(own) < len(headers):
            counts = Counter(map(canonical, headers))
            twice = [name for name, count in counts.items() if count > 1]
            raise BadData(f"tensors that come in two spellings: {listed(twice)}", file=str(path))
        found = {name: headers[own[name]] for name in own}
        return cls(path, found, +Counter(beside or {}), lambda name: read(own[name]))

    def read(self, name: str) -> Tensor:
        """Returns a tensor in float32; raises `BadData` where a number of it is not finite there."""
        tensor = self.read_one(name).float()
        # A sum is quick to make, and finite only where each of the numbers is; that of large ones may overflow.
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise BadData(f"{name}: holds numbers that are not finite", file=str(self.headers[name].file))
        return tensor


@dataclass(frozen=True)
class Account:
    """What became of each tensor, and the network's tensors for which there was none."""

    used: int
    tied: int
    left: Counter[str]  # by the part that they are of
    fresh: list[str]  # ours
    rows: int  # beyond the vocabulary, cut off

    def __str__(self) -> str:
        """Returns one line."""
        told = [f"{self.used} used"]
        told += [f"{self.tied} tied"] * (self.tied > 0)
        told += [f"{self.left.total()} left out ({', '.join(self.left)})"] * bool(self.left)
        told += [f"{many(self.rows, 'row')} of filling cut off"] * (self.rows > 0)
        return f"{many(self.used + self.tied + self.left.total(), 'tensor')}: {', '.join(told)}"

    @property
    def figures(self) -> dict[str, Any]:
        """Returns the same for programs, as far as it is not nothing."""
        figures = {"used": self.used, "tied": self.tied, "left": dict(self.left), "rows_cut": self.rows}
        return {name: figure for name, figure in figures.items() if figure}

    @property
    def without(self) -> str:
        """Returns what was left out, "" where nothing was."""
        return f"{', '.join(self.left)} ({many(self.left.total(), 'tensor')})" if self.left else ""


def fill(network: Network, tensors: Tensors, *, new_head: bool = False, keep_head: bool = True) -> Account:
    """Fill a network with a folder's weights, in float32.

    With `new_head` a head, and the pooler as part of it, may be missing in the folder; without `keep_head` its heads
    are not taken even if they are there. Raises `BadData` listing the tensors that are missing, unexpected, or of
    another shape, and where a copy is not the same as what it is tied to here.
    """
    wanted = {ours: theirs(ours) for ours in network.state_dict()}
    fresh = _fresh(wanted, tensors, keep_head=keep_head) if new_head else []
    filled = {ours: names for ours, names in wanted.items() if ours not in fresh}
    shapes = _shapes(network, filled)
    origins = {name: _origin(name, tensors) for name in shapes}
    _check(network, tensors, shapes, origins)
    if any(ours.startswith("heads.mlm.") for ours in filled):
        _check_ties(tensors, shapes)
    state = {
        ours: torch.cat([tensors.read(origins[name])[: shapes[name][0]] for name in names])
        for ours, names in filled.items()
    }
    network.load_state_dict(state, strict=False, assign=True)
    return _account(tensors, shapes, origins, fresh)


def _fresh(wanted: Mapping[str, tuple[str, ...]], tensors: Tensors, *, keep_head: bool) -> list[str]:
    """Returns our tensors of parts of which the folder has none, or of which none is to be taken."""
    there = {part_of(name) for name in tensors.headers}
    parts = {part for part in (POOLER, BILSTM, *HEADS) if part not in there or (part != POOLER and not keep_head)}
    return [ours for ours, names in wanted.items() if part_of(names[0]) in parts]


def _shapes(network: Network, filled: Mapping[str, tuple[str, ...]]) -> dict[str, list[int]]:
    """Returns the shape that each of the folder's tensors must have."""
    state = network.state_dict()
    return {
        name: [state[ours].shape[0] // len(names), *state[ours].shape[1:]]
        for ours, names in filled.items()
        for name in names
    }


def _origin(name: str, tensors: Tensors) -> str:
    """Returns the tensor itself or, where it is not there, a copy of it that is."""
    copies = (copy for copy, original in TIED.items() if original == name and copy in tensors.headers)
    return name if name in tensors.headers else next(copies, name)


def _check(network: Network, tensors: Tensors, shapes: dict[str, list[int]], origins: dict[str, str]) -> None:
    """Raise `BadData` with all that does not fit, found by the headers alone."""
    missing = [name for name, origin in origins.items() if origin not in tensors.headers]
    found = {name: tensors.headers[origin] for name, origin in origins.items() if origin in tensors.headers}
    strange = [name for name in tensors.headers if name not in shapes and not _is_left(name, shapes)]
    layers = network.config.num_hidden_layers if isinstance(network.config, Config) else 0
    numbers = {name: int(layer[1]) for name in strange if (layer := ENCODER_LAYER.match(name))}
    surplus = sorted({number for number in numbers.values() if number >= layers})
    unknown = [name for name in strange if numbers.get(name) not in surplus]
    found |= {copy: tensors.headers[copy] for copy in TIED if copy in tensors.headers and BIASES in shapes}
    own = shapes | {copy: shapes[original] for copy, original in TIED.items() if BIASES in shapes}
    wrong = [problem for name, header in found.items() if (problem := _unfit(name, header, own[name]))]
    told = [f"weights are missing: {listed(missing)}"] * bool(missing)
    told += [f"layers from {surplus[0]} on: the config has {layers} layers only"] if surplus else []
    told += [f"no place in a BERT: {listed(unknown)} (convert --without leaves them out)"] * bool(unknown)
    told += [listed(wrong)] * bool(wrong)
    if told:
        raise BadData("; ".join(told), file=str(tensors.path))


def _is_left(name: str, shapes: dict[str, list[int]]) -> bool:
    """Returns whether a tensor is a copy, a buffer, or of a part that the network does not have."""
    part = part_of(name)
    is_elsewhere = part in OPTIONAL and not any(part_of(own) == part for own in shapes)
    return name in TIED or bool(COUNTED.search(name)) or is_elsewhere


def _unfit(name: str, header: TensorHeader, shape: list[int]) -> str:
    """Returns in what a tensor is not what the network asks for, "" where it is that."""
    found = list(header.shape)
    if found != shape and not (name in (WORDS, BIASES, *TIED) and _is_filled_up(found, shape)):
        return f"{name}: found {found}, the config asks for {shape}"
    is_float = header.dtype in FLOATS
    return "" if is_float else f"{name}: found {header.dtype}, not a floating-point type of 16 bits or more"


def _is_filled_up(found: list[int], shape: list[int]) -> bool:
    """Returns whether rows of pieces are as many as the vocabulary's, filled up to a multiple."""
    is_as_wide = bool(found) and found[1:] == shape[1:]
    return is_as_wide and filled_up(found[0], shape[0])


def filled_up(rows: int, pieces: int) -> bool:
    """Returns whether so many rows are those of a vocabulary, or these filled up to a multiple."""
    return rows == pieces or any(rows == -(-pieces // step) * step for step in MULTIPLES)


def _check_ties(tensors: Tensors, shapes: dict[str, list[int]]) -> None:
    for copy, original in TIED.items():
        if copy in tensors.headers and original in tensors.headers:
            pieces = shapes[original][0]
            if not torch.equal(tensors.read(copy)[:pieces], tensors.read(original)[:pieces]):
                file = str(tensors.headers[copy].file)
                raise BadData(f"{copy} is not the same as {original}: an untied model", file=file)


def _account(tensors: Tensors, shapes: dict[str, list[int]], origins: dict[str, str], fresh: list[str]) -> Account:
    used = set(origins.values())
    tied = [name for name in TIED if name in tensors.headers and name not in used] if BIASES in shapes else []
    left = Counter(
        "buffers" if COUNTED.search(name) else str(part_of(name))
        for name in tensors.headers
        if name not in used and name not in tied
    )
    left += tensors.beside
    rows = tensors.headers[origins[WORDS]].shape[0] - shapes[WORDS][0] if WORDS in shapes else 0
    return Account(len(used), len(tied), left, fresh, rows)


def named(network: Network) -> Iterator[tuple[str, Tensor]]:
    """Yields a network's tensors under the names that a folder has, each in float32, on the host."""
    for ours, tensor in network.state_dict().items():
        names = theirs(ours)
        parts = tensor.detach().float().cpu().chunk(len(names))
        yield from zip(names, parts, strict=True)


def listed(names: list[str], limit: int = 8) -> str:
    """Returns names for a message, the first of them where they are many."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(shortened(name, LONGEST_NAME) for name in names[:limit]) + more

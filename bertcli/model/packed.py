"""The one form that the model takes: sequences end to end, with their boundaries.

Shapes, here and in the files after this one: T tokens in all, B sequences, M predicted tokens, H width, V pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

GROUPING = 16  # sequences whose lengths round up to the same multiple of this are padded together


@dataclass(frozen=True)
class Group:
    """Some sequences of like length, as a rectangle of G rows and L columns."""

    index: Tensor  # (G·L,) the packed token of each place, a padding place repeating its row's last token
    shape: tuple[int, int]  # G, L
    mask: Tensor | None  # (G, 1, 1, L) True at tokens; None where no place is padding


@dataclass(frozen=True)
class Packed:
    """Sequences of token ids end to end."""

    ids: Tensor  # (T,)
    segments: Tensor  # (T,) 0 or 1
    positions: Tensor  # (T,) from 0 in each sequence
    boundaries: Tensor  # (B+1,) int32: where each sequence starts, and T
    lengths: tuple[int, ...]  # B numbers on the host
    longest: int  # no sequence is longer

    @property
    def starts(self) -> Tensor:
        """Returns the index of each sequence's first token, [CLS]: (B,)."""
        return self.boundaries[:-1].long()

    @property
    def ends(self) -> Tensor:
        """Returns the index of each sequence's last token, [SEP]: (B,)."""
        return self.boundaries[1:].long() - 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels from one process to another, both on the host, as what it was made of, which is little."""
        lengths = np.array(self.lengths)
        borders = lengths - np.add.reduceat(self.segments.numpy(), self.boundaries.numpy()[:-1])
        return laid_out, (self.ids.numpy().astype(np.int32), lengths, borders, self.longest)

    def to(self, device: torch.device) -> Packed:
        """Returns the same sequences on a device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pinned(self) -> Packed:
        """Returns the same sequences in memory that a GPU reads while others go on."""
        return self._each(Tensor.pin_memory)

    def _each(self, act: Callable[[Tensor], Tensor]) -> Packed:
        ids, segments, positions, boundaries = map(act, (self.ids, self.segments, self.positions, self.boundaries))
        return replace(self, ids=ids, segments=segments, positions=positions, boundaries=boundaries)

    @cached_property
    def groups(self) -> tuple[list[Group], Tensor]:
        """Returns rectangles that hold all the sequences, and for each packed token its place in them: (T,).

        They are for devices without a kernel for packed tokens; made once a batch, used in every layer.
        """
        by_size: dict[int, list[int]] = {}
        for sequence, length in enumerate(self.lengths):
            by_size.setdefault(-(-length // GROUPING), []).append(sequence)
        starts = self.boundaries.tolist()
        groups, places, filled = [], torch.empty(starts[-1], dtype=torch.long), 0
        for sequences in by_size.values():
            first = torch.tensor([starts[sequence] for sequence in sequences])[:, None]
            ends = torch.tensor([self.lengths[sequence] for sequence in sequences])[:, None]
            column = torch.arange(int(ends.max()))
            is_token = column < ends
            index = first + torch.minimum(column, ends - 1)
            places[index[is_token]] = torch.arange(filled, filled + index.numel()).view_as(index)[is_token]
            filled += index.numel()
            mask = None if bool(is_token.all()) else is_token[:, None, None].to(self.ids.device)
            groups.append(Group(index.flatten().to(self.ids.device), (index.shape[0], index.shape[1]), mask))
        return groups, places.to(self.ids.device)


def pack(sequences: Sequence[ArrayLike], segment_b: Sequence[int | None]) -> Packed:
    """Returns sequences of token ids end to end; `segment_b` is where segment 1 begins in each, None for nowhere."""
    arrays = [np.asarray(sequence) for sequence in sequences]
    lengths = np.array([len(each) for each in arrays])
    borders = np.array([length if b is None else b for length, b in zip(lengths, segment_b, strict=True)])
    return laid_out(np.concatenate(arrays), lengths, borders, int(lengths.max()))


def laid_out(ids: NDArray[Any], lengths: NDArray[np.int64], borders: NDArray[np.int64], longest: int) -> Packed:
    """Returns sequences whose ids (T,) are end to end already; each has its length (B,), and where segment 1 begins."""
    boundaries = np.concatenate([[0], np.cumsum(lengths)])
    # By numpy: torch's repeat_interleave wakes every core of the machine, which then spin for longer than it takes.
    positions = np.arange(boundaries[-1]) - np.repeat(boundaries[:-1], lengths)
    return Packed(
        ids=torch.from_numpy(ids.astype(np.int64)),
        segments=torch.from_numpy((positions >= np.repeat(borders, lengths)).astype(np.int64)),
        positions=torch.from_numpy(positions),
        boundaries=torch.from_numpy(boundaries.astype(np.int32)),
        lengths=tuple(lengths.tolist()),
        longest=longest,
    )

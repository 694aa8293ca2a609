"""What all kernels share: dropout without masks, and how many programs sum up."""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

WAVES = 16  # programs for each multiprocessor, where each goes through many rows and sums up; fastest on an H100


def threshold(dropout: float) -> int:
    """Returns the share of dropout in 2³² steps."""
    return int(dropout * 2**32)


def seed_for(like: Tensor, dropout: float) -> Tensor:
    """Returns a seed drawn on the device, from the generator that recordings and checkpoints keep."""
    if not dropout:
        return like  # not read
    return torch.randint(0, 2**31 - 1, (), dtype=torch.int32, device=like.device)


def programs_for(like: Tensor, rows: int) -> int:
    """Returns how many programs share the rows."""
    return max(1, min(rows, WAVES * _processors(like.device)))


@cache  # it is asked for hundreds of times a step
def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count) if device.type == "cuda" else 1


@triton.jit
def _mixed(number, seed):
    """Returns 32 bits in which every bit depends on all of a number and a seed (the last steps of murmur3)."""
    x = (number.to(tl.uint32) * 0x9E3779B1) ^ seed
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def kept(seed, row, column, THRESHOLD: tl.constexpr):
    """Returns what dropout leaves of ones, as a hash of seed, row and column decides.

    Rows and columns are mixed by themselves. What is left to do for each pair of them, of which attention has hundreds
    a token, is one exclusive or and one product, whose high bits depend on all of both.
    """
    seed = seed.to(tl.uint32)
    r, c = _mixed(row, seed), _mixed(column, ~seed)
    return tl.where((r ^ c) * (r | 1) >= THRESHOLD, 1.0 / (1.0 - THRESHOLD / 4294967296.0), 0.0)

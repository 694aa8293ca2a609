"""What all kernels share: dropout without masks, and how many programs sum up."""

from __future__ import annotations

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
    processors = torch.cuda.get_device_properties(like.device).multi_processor_count if like.is_cuda else 1
    return max(1, min(rows, WAVES * processors))


@triton.jit
def kept(seed, row, column, THRESHOLD: tl.constexpr):
    """Returns what dropout leaves of ones, as a hash of seed, row and column decides.

    The row is mixed as by murmur3's last steps, each number of it by two rounds of a multiplication and a shift.
    """
    r = (row.to(tl.uint32) * 0x9E3779B1) ^ seed.to(tl.uint32)
    r = (r ^ (r >> 16)) * 0x85EBCA6B
    r = (r ^ (r >> 13)) * 0xC2B2AE35
    x = (r ^ (r >> 16)) + column.to(tl.uint32) * 0x27D4EB2F
    x = (x ^ (x >> 15)) * 0x2C1B3C6D
    x = (x ^ (x >> 12)) * 0x297A2D39
    return tl.where(x >= THRESHOLD, 1.0 / (1.0 - THRESHOLD / 4294967296.0), 0.0)

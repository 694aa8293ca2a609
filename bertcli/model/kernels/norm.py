"""norm(x + dropout(product + bias)), the end of both halves of a layer."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from bertcli.model.kernels.launch import kept, programs_for, seed_for, threshold

TILE = 4096  # numbers that a program normalises; fastest on an H100


@triton.jit(do_not_specialize=["rows"])
def _add_norm_forward(
    x, product, bias, weight, shift, seed, out, means, rstds, rows, eps,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, THRESHOLD: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < WIDTH)
    place = row.to(tl.int64) * WIDTH + column
    h = tl.load(product + place, inside, 0.0).to(tl.float32) + tl.load(bias + column, column < WIDTH, 0.0)
    if THRESHOLD > 0:
        h *= kept(tl.load(seed), row, column, THRESHOLD)
    h += tl.load(x + place, inside, 0.0).to(tl.float32)
    mean = tl.sum(h, 1, keep_dims=True) / WIDTH
    centred = tl.where(inside, h - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, 1, keep_dims=True) / WIDTH + eps)
    scaled = centred * rstd * tl.load(weight + column, column < WIDTH, 0.0)
    scaled += tl.load(shift + column, column < WIDTH, 0.0)
    tl.store(out + place, scaled.to(out.dtype.element_ty), inside)
    tl.store(means + row, mean, row < rows)
    tl.store(rstds + row, rstd, row < rows)


@triton.jit(do_not_specialize=["rows"])
def _add_norm_backward(
    d_out, x, product, bias, weight, seed, means, rstds, d_x, d_product, sums, rows,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, THRESHOLD: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    b, w = tl.load(bias + column, inside, 0.0), tl.load(weight + column, inside, 0.0)
    d_weight, d_shift, d_bias = tl.zeros_like(w), tl.zeros_like(w), tl.zeros_like(w)
    for number in range(tl.program_id(0), rows, tl.num_programs(0)):
        row = number + tl.zeros((), tl.int32)
        place = row.to(tl.int64) * WIDTH + column
        d = tl.load(d_out + place, inside, 0.0).to(tl.float32)
        h = tl.load(product + place, inside, 0.0).to(tl.float32) + b
        residual = tl.load(x + place, inside, 0.0).to(tl.float32)
        mean, rstd = tl.load(means + row), tl.load(rstds + row)
        share = 1.0
        if THRESHOLD > 0:
            share = kept(tl.load(seed), row, column, THRESHOLD)
        normal = (h * share + residual - mean) * rstd
        d_weight += d * normal
        d_shift += d
        d *= w
        d_h = (d - (normal * tl.sum(d * normal, 0) + tl.sum(d, 0)) / WIDTH) * rstd
        tl.store(d_x + place, d_h.to(d_x.dtype.element_ty), inside)
        d_h *= share
        d_bias += d_h
        if THRESHOLD > 0:
            tl.store(d_product + place, d_h.to(d_product.dtype.element_ty), inside)
    place = tl.program_id(0) * WIDTH + column
    step = tl.num_programs(0) * WIDTH
    tl.store(sums + place, d_bias, inside)
    tl.store(sums + step + place, d_weight, inside)
    tl.store(sums + 2 * step + place, d_shift, inside)


class _AddNorm(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, product: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float, dropout: float
    ) -> Tensor:
        rows, width = product.shape
        seed = seed_for(product, dropout)
        out = torch.empty_like(product)
        # Two tensors, not one: where a row of one begins would depend on their number, and so would the code for it.
        means, rstds = (product.new_empty(rows, dtype=torch.float32) for _ in range(2))
        ctx.save_for_backward(x, product, bias, weight, seed, means, rstds)
        ctx.threshold = threshold(dropout)
        block = triton.next_power_of_2(width)
        each = max(1, TILE // block)  # rows a program
        _add_norm_forward[triton.cdiv(rows, each),](
            x, product, bias, weight, shift, seed, out, means, rstds, rows, eps,
            WIDTH=width, BLOCK=block, ROWS=each, THRESHOLD=ctx.threshold, num_warps=4,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        x, product, bias, weight, seed, means, rstds = ctx.saved_tensors
        rows, width = product.shape
        block, programs = triton.next_power_of_2(width), programs_for(product, rows)
        d_x = torch.empty_like(x)
        d_product = torch.empty_like(product) if ctx.threshold else d_x
        sums = product.new_empty((3, programs, width), dtype=torch.float32)
        _add_norm_backward[programs,](
            d_out.contiguous(), x, product, bias, weight, seed, means, rstds, d_x, d_product, sums, rows,
            WIDTH=width, BLOCK=block, THRESHOLD=ctx.threshold, num_warps=max(1, block // 1024),
        )  # fmt: skip
        return d_x, d_product.to(product.dtype), *sums.sum(1), None, None


def add_norm(
    x: Tensor, product: Tensor, bias: Tensor, weight: Tensor, shift: Tensor, eps: float, dropout: float
) -> Tensor:
    """Returns norm(x + dropout(product + bias)): (T, H) from x and product of that shape, weights (H,)."""
    normalised: Tensor = _AddNorm.apply(x, product, bias, weight, shift, eps, dropout)
    return normalised

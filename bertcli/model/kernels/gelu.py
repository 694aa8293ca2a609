"""gelu(product + bias), by the error function: the middle of the feed-forward."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from bertcli.model.kernels.launch import programs_for

ROWS, COLUMNS = 8, 256  # of a program's tile; fastest on an H100


@triton.jit
def _normal_distribution(x):
    """Returns Φ(x) and φ(x); Φ by Abramowitz and Stegun 7.1.26, within 1e-7, as it shares φ's exponential."""
    density = tl.exp(-0.5 * x * x)
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(x))
    tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    half = 0.5 * tail * density
    return tl.where(x < 0, half, 1.0 - half), density * 0.3989422804014327


@triton.jit(do_not_specialize=["rows"])
def _gelu_forward(product, bias, out, rows, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    inside = (row < rows) & (column < WIDTH)
    place = row.to(tl.int64) * WIDTH + column
    h = tl.load(product + place, inside, 0.0).to(tl.float32) + tl.load(bias + column, column < WIDTH, 0.0)
    below, _ = _normal_distribution(h)
    tl.store(out + place, (h * below).to(out.dtype.element_ty), inside)


@triton.jit(do_not_specialize=["rows"])
def _gelu_backward(
    d_out, product, bias, d_product, sums, rows, WIDTH: tl.constexpr, COLUMNS: tl.constexpr, ROWS: tl.constexpr
):
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    b = tl.load(bias + column, column < WIDTH, 0.0)
    d_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        row = (first + tl.arange(0, ROWS))[:, None]
        inside = (row < rows) & (column < WIDTH)
        place = row.to(tl.int64) * WIDTH + column
        h = tl.load(product + place, inside, 0.0).to(tl.float32) + b
        below, density = _normal_distribution(h)
        d = tl.load(d_out + place, inside, 0.0).to(tl.float32) * (below + h * density)
        d_bias += d
        tl.store(d_product + place, d.to(d_product.dtype.element_ty), inside)
    place = tl.program_id(0) * WIDTH + column
    tl.store(sums + place, tl.sum(d_bias, 0, keep_dims=True), column < WIDTH)


class _Gelu(Function):
    @staticmethod
    def forward(ctx: Any, product: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(product, bias)
        rows, width = product.shape
        out = torch.empty_like(product)
        _gelu_forward[triton.cdiv(rows, ROWS), triton.cdiv(width, COLUMNS)](
            product, bias, out, rows, WIDTH=width, COLUMNS=COLUMNS, ROWS=ROWS, num_warps=4
        )
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor, ...]:
        product, bias = ctx.saved_tensors
        rows, width = product.shape
        columns = triton.cdiv(width, COLUMNS)
        programs = max(1, programs_for(product, rows) // columns)
        d_product = torch.empty_like(product)
        sums = product.new_empty((programs, width), dtype=torch.float32)
        _gelu_backward[programs, columns](
            d_out.contiguous(),
            product,
            bias,
            d_product,
            sums,
            rows,
            WIDTH=width,
            COLUMNS=COLUMNS,
            ROWS=ROWS,
            num_warps=4,
        )
        return d_product, sums.sum(0)


def gelu(product: Tensor, bias: Tensor) -> Tensor:
    """Returns gelu(product + bias): (T, F) from that shape and (F,)."""
    activated: Tensor = _Gelu.apply(product, bias)
    return activated

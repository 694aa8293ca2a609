"""Attention within each of the packed sequences, with dropout on the probabilities (Dao, 2023, FlashAttention-2)."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd import Function

from bertcli.model.kernels.launch import kept, seed_for, threshold

LONGEST = 512  # tokens of a sequence
WIDTHS = (16, 32, 64, 128)  # of a head
# What was fastest on an H100: tokens of a program's own block, tokens of those that it goes through, warps, stages.
FORWARD = (64, 64, 4, 3)
BACKWARD = (64, 32, 4, 1)
BACKWARD_WHOLE = (128, 32, 4, 2)  # where one block is the whole sequence


@triton.jit
def _own(bounds, HEADS: tl.constexpr, BLOCKS: tl.constexpr):
    """Returns what a program works on: the number of its sequence and head, that head, a block of its tokens.

    Then where the sequence begins, and its length.
    """
    number, block = tl.program_id(0) // BLOCKS, tl.program_id(0) % BLOCKS
    start, end = tl.load(bounds + number // HEADS), tl.load(bounds + number // HEADS + 1)
    return number, number % HEADS, block, start, end - start


@triton.jit
def _place(rows, part, head, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Returns where the queries (part 0), keys (1) or values (2) of some tokens are, for one head."""
    return rows[:, None] * (3 * HEADS * WIDTH) + (part * HEADS + head) * WIDTH + tl.arange(0, WIDTH)[None, :]


@triton.jit
def _attend_forward(
    product, bounds, seed, out, sizes, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCKS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, THRESHOLD: tl.constexpr,
):  # fmt: skip
    number, head, block, start, length = _own(bounds, HEADS, BLOCKS)
    token = block * QUERIES + tl.arange(0, QUERIES)
    rows, inside = (start + token).to(tl.int64), token < length
    query = tl.load(product + _place(rows, 0, head, HEADS, WIDTH), inside[:, None], 0.0)
    highest = tl.full((QUERIES,), -1e30, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, WIDTH), tl.float32)
    for first in range(0, tl.where(block * QUERIES < length, length, 0), KEYS):
        other = first + tl.arange(0, KEYS)
        places, exists = (start + other).to(tl.int64), other < length
        key = tl.load(product + _place(places, 1, head, HEADS, WIDTH), exists[:, None], 0.0)
        value = tl.load(product + _place(places, 2, head, HEADS, WIDTH), exists[:, None], 0.0)
        scores = tl.where(exists[None, :], tl.dot(query, tl.trans(key)) * (scale * 1.4426950408889634), -1e30)
        higher = tl.maximum(highest, tl.max(scores, 1))
        odds, shrunk = tl.exp2(scores - higher[:, None]), tl.exp2(highest - higher)
        total = total * shrunk + tl.sum(odds, 1)
        if THRESHOLD > 0:
            row = number * SPAN + token
            odds *= kept(tl.load(seed), row[:, None], other[None, :], THRESHOLD)
        mixed = mixed * shrunk[:, None] + tl.dot(odds.to(value.dtype), value)
        highest = higher
    total = tl.maximum(total, 1.0)  # it is more than that but where there is no token
    place = rows[:, None] * (HEADS * WIDTH) + head * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out + place, (mixed / total[:, None]).to(query.dtype), inside[:, None])
    tl.store(sizes + rows * HEADS + head, highest + tl.log2(total), inside)


@triton.jit
def _attend_backward(
    d_out, product, bounds, seed, out, sizes, d_product, sums, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCKS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, THRESHOLD: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of keys and values, and where it is all of them also those of the queries."""
    number, head, block, start, length = _own(bounds, HEADS, BLOCKS)
    width = tl.arange(0, WIDTH)
    other = block * KEYS + tl.arange(0, KEYS)
    places, exists = (start + other).to(tl.int64), other < length
    key = tl.load(product + _place(places, 1, head, HEADS, WIDTH), exists[:, None], 0.0)
    value = tl.load(product + _place(places, 2, head, HEADS, WIDTH), exists[:, None], 0.0)
    d_key, d_value = tl.zeros((KEYS, WIDTH), tl.float32), tl.zeros((KEYS, WIDTH), tl.float32)
    total = tl.zeros((WIDTH,), tl.float32)
    for first in range(0, tl.where(block * KEYS < length, length, 0), QUERIES):
        token = first + tl.arange(0, QUERIES)
        rows, inside = (start + token).to(tl.int64), token < length
        query = tl.load(product + _place(rows, 0, head, HEADS, WIDTH), inside[:, None], 0.0)
        place = rows[:, None] * (HEADS * WIDTH) + head * WIDTH + width[None, :]
        d = tl.load(d_out + place, inside[:, None], 0.0)
        along = tl.sum(d.to(tl.float32) * tl.load(out + place, inside[:, None], 0.0).to(tl.float32), 1)
        size = tl.load(sizes + rows * HEADS + head, inside, float("inf"))
        # Keys down, queries across: most of the products then take what was computed as it lies.
        scores = tl.dot(key, tl.trans(query)) * (scale * 1.4426950408889634)
        odds = tl.where(exists[:, None], tl.exp2(scores - size[None, :]), 0.0)
        share = 1.0
        if THRESHOLD > 0:
            row = number * SPAN + token
            share = kept(tl.load(seed), row[None, :], other[:, None], THRESHOLD)
        d_value += tl.dot((odds * share).to(d.dtype), d)
        d_scores = (odds * (tl.dot(value, tl.trans(d)) * share - along[None, :])).to(d.dtype)
        d_key += tl.dot(d_scores, query)
        if BLOCKS == 1:
            d_query = tl.dot(tl.trans(d_scores), key) * scale
            tl.store(d_product + _place(rows, 0, head, HEADS, WIDTH), d_query.to(d.dtype), inside[:, None])
            total += tl.sum(d_query, 0)
    d_key *= scale
    tl.store(d_product + _place(places, 1, head, HEADS, WIDTH), d_key.to(key.dtype), exists[:, None])
    tl.store(d_product + _place(places, 2, head, HEADS, WIDTH), d_value.to(key.dtype), exists[:, None])
    place = ((number // HEADS * BLOCKS + block) * 3 * HEADS + head) * WIDTH + width
    if BLOCKS == 1:
        tl.store(sums + place, total)
    tl.store(sums + place + HEADS * WIDTH, tl.sum(d_key, 0))
    tl.store(sums + place + 2 * HEADS * WIDTH, tl.sum(d_value, 0))


@triton.jit
def _attend_backward_queries(
    d_out, product, bounds, seed, out, sizes, d_product, sums, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCKS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, THRESHOLD: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of queries."""
    number, head, block, start, length = _own(bounds, HEADS, BLOCKS)
    width = tl.arange(0, WIDTH)
    token = block * QUERIES + tl.arange(0, QUERIES)
    rows, inside = (start + token).to(tl.int64), token < length
    query = tl.load(product + _place(rows, 0, head, HEADS, WIDTH), inside[:, None], 0.0)
    place = rows[:, None] * (HEADS * WIDTH) + head * WIDTH + width[None, :]
    d = tl.load(d_out + place, inside[:, None], 0.0)
    along = tl.sum(d.to(tl.float32) * tl.load(out + place, inside[:, None], 0.0).to(tl.float32), 1)
    size = tl.load(sizes + rows * HEADS + head, inside, float("inf"))
    d_query = tl.zeros((QUERIES, WIDTH), tl.float32)
    for first in range(0, tl.where(block * QUERIES < length, length, 0), KEYS):
        other = first + tl.arange(0, KEYS)
        places, exists = (start + other).to(tl.int64), other < length
        key = tl.load(product + _place(places, 1, head, HEADS, WIDTH), exists[:, None], 0.0)
        value = tl.load(product + _place(places, 2, head, HEADS, WIDTH), exists[:, None], 0.0)
        scores = tl.dot(query, tl.trans(key)) * (scale * 1.4426950408889634)
        odds = tl.where(exists[None, :], tl.exp2(scores - size[:, None]), 0.0)
        share = 1.0
        if THRESHOLD > 0:
            row = number * SPAN + token
            share = kept(tl.load(seed), row[:, None], other[None, :], THRESHOLD)
        d_scores = odds * (tl.dot(d, tl.trans(value)) * share - along[:, None])
        d_query += tl.dot(d_scores.to(key.dtype), key)
    d_query *= scale
    tl.store(d_product + _place(rows, 0, head, HEADS, WIDTH), d_query.to(query.dtype), inside[:, None])
    tl.store(sums + ((number // HEADS * BLOCKS + block) * 3 * HEADS + head) * WIDTH + width, tl.sum(d_query, 0))


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, product: Tensor, bias: Tensor, bounds: Tensor, heads: int, longest: int, dropout: float
    ) -> Tensor:
        width = product.shape[1] // (3 * heads)
        seed = seed_for(product, dropout)
        out = product.new_empty((len(product), heads * width))
        sizes = product.new_empty((len(product), heads), dtype=torch.float32)
        ctx.save_for_backward(product, bounds, seed, out, sizes)
        span = max(16, triton.next_power_of_2(longest))
        ctx.heads, ctx.sequences = heads, len(bounds) - 1
        ctx.shape = {"HEADS": heads, "WIDTH": width, "SPAN": span, "THRESHOLD": threshold(dropout)}
        own, other, warps, stages = FORWARD
        own, other, blocks = min(span, own), min(span, other), triton.cdiv(span, own)
        _attend_forward[ctx.sequences * heads * blocks,](
            product, bounds, seed, out, sizes, width**-0.5,
            **ctx.shape, BLOCKS=blocks, QUERIES=own, KEYS=other, num_warps=warps, num_stages=stages,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        product, bounds, seed, out, sizes = ctx.saved_tensors
        span = ctx.shape["SPAN"]
        own, other, warps, stages = BACKWARD_WHOLE if span <= BACKWARD_WHOLE[0] else BACKWARD
        own, other, blocks = min(span, own), min(span, other), triton.cdiv(span, min(span, own))
        d_product = torch.empty_like(product)
        sums = product.new_empty((ctx.sequences * blocks, product.shape[1]), dtype=torch.float32)
        given = (d_out.contiguous(), product, bounds, seed, out, sizes, d_product, sums, ctx.shape["WIDTH"] ** -0.5)
        shape = {**ctx.shape, "BLOCKS": blocks, "num_warps": warps, "num_stages": stages}
        programs = ctx.sequences * ctx.heads * blocks
        _attend_backward[programs,](*given, **shape, QUERIES=other, KEYS=own)
        if blocks > 1:
            _attend_backward_queries[programs,](*given, **shape, QUERIES=own, KEYS=other)
        return d_product, sums.sum(0), None, None, None, None


def attend(product: Tensor, bias: Tensor, boundaries: Tensor, heads: int, longest: int, dropout: float) -> Tensor:
    """Returns softmax(QKᵀ/√D)V within each sequence: (T, H) from queries, keys and values, (T, 3H).

    `boundaries` are (B+1,) int32, no sequence longer than `longest`. The bias (3H,) is in the product already; it is
    taken for the sake of its gradient, which autograd then need not sum up.
    """
    mixed: Tensor = _Attend.apply(product, bias, boundaries, heads, longest, dropout)
    return mixed

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
LOG2E = tl.constexpr(1.4426950408889634)  # exponentials here are of 2
# What was fastest on an H200: tokens of a program's own block, tokens of those that it goes through, warps, stages.
FORWARD = (64, 64, 4, 3)
BACKWARD_KEYS = (128, 32, 4, 1)
BACKWARD_QUERIES = (64, 32, 4, 3)
BACKWARD_WHOLE = (128, 32, 4, 3)  # where one block of keys is the whole sequence


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
def _seen(block, length, QUERIES: tl.constexpr, CAUSAL: tl.constexpr):
    """Returns up to where a block of queries sees keys: to the sequence's end, or no further than to its own."""
    end = tl.minimum(length, (block + 1) * QUERIES) if CAUSAL else length
    return tl.where(block * QUERIES < length, end, 0)


@triton.jit
def _visible(token, other, exists, CAUSAL: tl.constexpr):
    """Returns which keys each query sees: all that there are, or those up to itself."""
    return exists & (other <= token) if CAUSAL else exists


@triton.jit
def _delta(d_o, out, place, inside):
    """Returns what the gradient is along each token's output: the part of it that softmax takes away."""
    return tl.sum(d_o.to(tl.float32) * tl.load(out + place, inside[:, None], 0.0).to(tl.float32), 1)


@triton.jit
def _attend_forward(
    product, bounds, seed, out, lse, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCKS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, THRESHOLD: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    number, head, block, start, length = _own(bounds, HEADS, BLOCKS)
    token = block * QUERIES + tl.arange(0, QUERIES)
    rows, inside = (start + token).to(tl.int64), token < length
    q = tl.load(product + _place(rows, 0, head, HEADS, WIDTH), inside[:, None], 0.0)
    scale *= LOG2E
    m = tl.full((QUERIES,), -1e30, tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, WIDTH), tl.float32)
    for first in range(0, _seen(block, length, QUERIES, CAUSAL), KEYS):
        other = first + tl.arange(0, KEYS)
        places, exists = (start + other).to(tl.int64), other < length
        k = tl.load(product + _place(places, 1, head, HEADS, WIDTH), exists[:, None], 0.0)
        v = tl.load(product + _place(places, 2, head, HEADS, WIDTH), exists[:, None], 0.0)
        seen = _visible(token[:, None], other[None, :], exists[None, :], CAUSAL)
        s = tl.where(seen, tl.dot(q, tl.trans(k)), -1e30)
        higher = tl.maximum(m, tl.max(s, 1) * scale)
        p, alpha = tl.exp2(s * scale - higher[:, None]), tl.exp2(m - higher)
        total = total * alpha + tl.sum(p, 1)
        if THRESHOLD > 0:
            p *= kept(tl.load(seed), (number * SPAN + token)[:, None], other[None, :], THRESHOLD)
        mixed = mixed * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m = higher
    total = tl.maximum(total, 1.0)  # it is more than that but where there is no token
    place = rows[:, None] * (HEADS * WIDTH) + head * WIDTH + tl.arange(0, WIDTH)[None, :]
    tl.store(out + place, (mixed / total[:, None]).to(q.dtype), inside[:, None])
    tl.store(lse + rows * HEADS + head, m + tl.log2(total), inside)


@triton.jit
def _attend_backward_queries(
    d_out, product, bounds, seed, out, lse, d_product, deltas, sums, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCKS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, THRESHOLD: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of queries, and the deltas that those of the keys need."""
    number, head, block, start, length = _own(bounds, HEADS, BLOCKS)
    width = tl.arange(0, WIDTH)
    token = block * QUERIES + tl.arange(0, QUERIES)
    rows, inside = (start + token).to(tl.int64), token < length
    q = tl.load(product + _place(rows, 0, head, HEADS, WIDTH), inside[:, None], 0.0)
    place = rows[:, None] * (HEADS * WIDTH) + head * WIDTH + width[None, :]
    d_o = tl.load(d_out + place, inside[:, None], 0.0)
    delta = _delta(d_o, out, place, inside)
    tl.store(deltas + rows * HEADS + head, delta, inside)
    size = tl.load(lse + rows * HEADS + head, inside, float("inf"))
    d_q = tl.zeros((QUERIES, WIDTH), tl.float32)
    for first in range(0, _seen(block, length, QUERIES, CAUSAL), KEYS):
        other = first + tl.arange(0, KEYS)
        places, exists = (start + other).to(tl.int64), other < length
        k = tl.load(product + _place(places, 1, head, HEADS, WIDTH), exists[:, None], 0.0)
        v = tl.load(product + _place(places, 2, head, HEADS, WIDTH), exists[:, None], 0.0)
        s = tl.dot(q, tl.trans(k)) * (scale * LOG2E)
        seen = _visible(token[:, None], other[None, :], exists[None, :], CAUSAL)
        p = tl.where(seen, tl.exp2(s - size[:, None]), 0.0)
        d_p = tl.dot(d_o, tl.trans(v))
        if THRESHOLD > 0:
            d_p *= kept(tl.load(seed), (number * SPAN + token)[:, None], other[None, :], THRESHOLD)
        d_q += tl.dot((p * (d_p - delta[:, None])).to(k.dtype), k)
    d_q *= scale
    tl.store(d_product + _place(rows, 0, head, HEADS, WIDTH), d_q.to(q.dtype), inside[:, None])
    tl.store(sums + ((number // HEADS * BLOCKS + block) * HEADS + head) * WIDTH + width, tl.sum(d_q, 0))


@triton.jit
def _attend_backward_keys(
    d_out, product, bounds, seed, out, lse, d_product, deltas, sums, scale, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    SPAN: tl.constexpr, BLOCKS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, THRESHOLD: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of keys and values, and where it is all of them also those of the queries."""
    number, head, block, start, length = _own(bounds, HEADS, BLOCKS)
    width = tl.arange(0, WIDTH)
    other = block * KEYS + tl.arange(0, KEYS)
    places, exists = (start + other).to(tl.int64), other < length
    k = tl.load(product + _place(places, 1, head, HEADS, WIDTH), exists[:, None], 0.0)
    v = tl.load(product + _place(places, 2, head, HEADS, WIDTH), exists[:, None], 0.0)
    d_k, d_v = tl.zeros((KEYS, WIDTH), tl.float32), tl.zeros((KEYS, WIDTH), tl.float32)
    total = tl.zeros((WIDTH,), tl.float32)
    begin = block * KEYS // QUERIES * QUERIES if CAUSAL else 0  # the first queries that see any of the keys
    for first in range(begin, tl.where(block * KEYS < length, length, 0), QUERIES):
        token = first + tl.arange(0, QUERIES)
        rows, inside = (start + token).to(tl.int64), token < length
        q = tl.load(product + _place(rows, 0, head, HEADS, WIDTH), inside[:, None], 0.0)
        place = rows[:, None] * (HEADS * WIDTH) + head * WIDTH + width[None, :]
        d_o = tl.load(d_out + place, inside[:, None], 0.0)
        delta = _delta(d_o, out, place, inside) if BLOCKS == 1 else tl.load(deltas + rows * HEADS + head, inside, 0.0)
        size = tl.load(lse + rows * HEADS + head, inside, float("inf"))
        # Keys down, queries across: most of the products then take what was computed as it lies.
        s = tl.dot(k, tl.trans(q)) * (scale * LOG2E)
        seen = _visible(token[None, :], other[:, None], exists[:, None], CAUSAL)
        p = tl.where(seen, tl.exp2(s - size[None, :]), 0.0)
        d_p, p_kept = tl.dot(v, tl.trans(d_o)), p
        if THRESHOLD > 0:
            share = kept(tl.load(seed), (number * SPAN + token)[None, :], other[:, None], THRESHOLD)
            d_p, p_kept = d_p * share, p * share
        d_v += tl.dot(p_kept.to(d_o.dtype), d_o)
        d_s = (p * (d_p - delta[None, :])).to(q.dtype)
        d_k += tl.dot(d_s, q)
        if BLOCKS == 1:
            d_q = tl.dot(tl.trans(d_s), k) * scale
            tl.store(d_product + _place(rows, 0, head, HEADS, WIDTH), d_q.to(q.dtype), inside[:, None])
            total += tl.sum(d_q, 0)
    d_k *= scale
    tl.store(d_product + _place(places, 1, head, HEADS, WIDTH), d_k.to(k.dtype), exists[:, None])
    tl.store(d_product + _place(places, 2, head, HEADS, WIDTH), d_v.to(k.dtype), exists[:, None])
    place = ((number // HEADS * BLOCKS + block) * 3 * HEADS + head) * WIDTH + width
    if BLOCKS == 1:
        tl.store(sums + place, total)
    tl.store(sums + place + HEADS * WIDTH, tl.sum(d_k, 0))
    tl.store(sums + place + 2 * HEADS * WIDTH, tl.sum(d_v, 0))


class _Attend(Function):
    @staticmethod
    def forward(
        ctx: Any, product: Tensor, bias: Tensor, bounds: Tensor, heads: int, longest: int, dropout: float, causal: bool
    ) -> Tensor:
        width = product.shape[1] // (3 * heads)
        seed = seed_for(product, dropout)
        out = product.new_empty((len(product), heads * width))
        lse = product.new_empty((len(product), heads), dtype=torch.float32)  # of each token's scores, by 2
        ctx.save_for_backward(product, bounds, seed, out, lse)
        span = max(16, triton.next_power_of_2(longest))
        ctx.sequences = len(bounds) - 1
        ctx.shape = {"HEADS": heads, "WIDTH": width, "SPAN": span, "THRESHOLD": threshold(dropout), "CAUSAL": causal}
        own, other, blocks, launch = _divided(span, FORWARD)
        _attend_forward[ctx.sequences * heads * blocks,](
            product, bounds, seed, out, lse, width**-0.5,
            **ctx.shape, **launch, BLOCKS=blocks, QUERIES=own, KEYS=other,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        product, bounds, seed, out, lse = ctx.saved_tensors
        shape, programs, span = ctx.shape, ctx.sequences * ctx.shape["HEADS"], ctx.shape["SPAN"]
        is_whole = span <= BACKWARD_WHOLE[0]
        keys, queries, blocks, launch = _divided(span, BACKWARD_WHOLE if is_whole else BACKWARD_KEYS)
        d_product = torch.empty_like(product)
        deltas = torch.empty_like(lse)
        sums = product.new_empty((ctx.sequences * blocks, product.shape[1]), dtype=torch.float32)
        given = (d_out.contiguous(), product, bounds, seed, out, lse, d_product, deltas)
        scale = shape["WIDTH"] ** -0.5
        if not is_whole:
            own, other, parts, its_launch = _divided(span, BACKWARD_QUERIES)
            query_sums = product.new_empty((ctx.sequences * parts, out.shape[1]), dtype=torch.float32)
            _attend_backward_queries[programs * parts,](
                *given, query_sums, scale, **shape, **its_launch, BLOCKS=parts, QUERIES=own, KEYS=other
            )
        _attend_backward_keys[programs * blocks,](
            *given, sums, scale, **shape, **launch, BLOCKS=blocks, QUERIES=queries, KEYS=keys
        )
        d_bias = sums.sum(0)
        if not is_whole:
            d_bias[: out.shape[1]] = query_sums.sum(0)
        return d_product, d_bias, None, None, None, None, None


def _divided(span: int, fastest: tuple[int, int, int, int]) -> tuple[int, int, int, dict[str, int]]:
    """Returns the tokens of a program's own block, of others, the blocks of a sequence, and how it is launched."""
    own, other, warps, stages = fastest
    own, other = min(span, own), min(span, other)
    return own, other, triton.cdiv(span, own), {"num_warps": warps, "num_stages": stages}


def attend(
    product: Tensor,
    bias: Tensor,
    boundaries: Tensor,
    heads: int,
    longest: int,
    dropout: float,
    causal: bool = False,
) -> Tensor:
    """Returns softmax(QKᵀ/√D)V within each sequence: (T, H) from queries, keys and values, (T, 3H).

    `boundaries` are (B+1,) int32, no sequence longer than `longest`; `causal`: no token sees those after it. The bias
    (3H,) is in the product already; it is taken for the sake of its gradient, which autograd then need not sum up.
    """
    mixed: Tensor = _Attend.apply(product, bias, boundaries, heads, longest, dropout, causal)
    return mixed

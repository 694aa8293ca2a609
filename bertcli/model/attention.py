"""Attention within each of the packed sequences: the one place that knows which kernels there are, and for what."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from bertcli.model.packed import Packed


def attend(query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, causal: bool = False) -> Tensor:
    """Returns softmax(QKᵀ/√width)V over each token's own sequence: (T, heads, width) from three of that shape.

    `dropout` falls on the probabilities, as in the paper; give 0 outside of training. `causal`: no token sees those
    that come after it.
    """
    if has_packed_kernel(query.device, query.dtype, query.shape[-1]):
        return _packed(query, key, value, packed, dropout, causal)
    return _grouped(query, key, value, packed, dropout, causal)


def has_packed_kernel(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Returns whether FlashAttention is there: on a GPU from Ampere on, in half precision, for widths in steps of 8."""
    return (
        device.type == "cuda"
        and dtype in (torch.bfloat16, torch.float16)
        and width % 8 == 0
        and width <= 256
        and torch.cuda.get_device_capability(device) >= (8, 0)
        and _is_as_known()
    )


def has_kernel(longest: int, width: int) -> bool:
    """Returns whether our own kernel takes sequences of that length, and heads of that width, from a fused layer."""
    from bertcli.model.kernels import attention  # Triton is not there everywhere

    return longest <= attention.LONGEST and width in attention.WIDTHS


@cache
def _is_as_known() -> bool:
    """The operator is torch's own affair: it is used only while its arguments are those that it is given here."""
    known = ["query", "key", "value", "cum_seq_q", "cum_seq_k", "max_q", "max_k"]
    known += ["dropout_p", "is_causal", "return_debug_mask"]
    operator = getattr(torch.ops.aten, "_flash_attention_forward", None)
    return operator is not None and [argument.name for argument in operator.default._schema.arguments[:10]] == known


def _packed(query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, causal: bool) -> Tensor:
    # torch.nn.attention.varlen has no dropout argument; the operator under it has.
    bounds, longest = packed.boundaries, packed.longest
    attended: Tensor = torch.ops.aten._flash_attention_forward(
        query, key, value, bounds, bounds, longest, longest, dropout, causal, False
    )[0]
    return attended


def _grouped(query: Tensor, key: Tensor, value: Tensor, packed: Packed, dropout: float, causal: bool) -> Tensor:
    groups, places = packed.groups
    rows = []
    for group in groups:
        q, k, v = (
            x.index_select(0, group.index).view(*group.shape, *x.shape[1:]).transpose(1, 2) for x in (query, key, value)
        )  # (G, heads, L, width)
        mask = None if causal else group.mask  # padding comes after all tokens, none of which then sees it
        attended = scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        rows.append(attended.transpose(1, 2).flatten(0, 1))
    return torch.cat(rows).index_select(0, places)

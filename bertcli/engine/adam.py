"""AdamW (Loshchilov and Hutter, 2019), torch's own, without the seconds that its first use takes."""

from __future__ import annotations

from inspect import unwrap

import torch


class AdamW(torch.optim.AdamW):
    """AdamW whose methods are not wrapped in what keeps torch's compiler out.

    The wrappers load that compiler to tell it so, which takes longer than many a fine-tuning run. Nobody compiles an
    optimizer here: its kernels are fused already.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # nobody here has a closure
        """Take one step."""
        _step(self)


_step = unwrap(torch.optim.AdamW.step)

"""LAMB (You et al., 2019, "Large batch optimization for deep learning: training BERT in 76 minutes", algorithm 2)."""

from __future__ import annotations

import torch

from bertcli.engine.adam import AdamW


class Lamb(AdamW):
    """AdamW, the change of each weight matrix brought to the length of the rate times that of the matrix itself.

    Of two groups of parameters the first holds the matrices. The second, biases and norms, has neither decay nor a
    length of its own, as in Google's code and in NVIDIA's apex (`use_nvlamb=False`); both also take a change as it is
    where it or the matrix is zero. Query, key and value are one matrix here. A group's `rate` is what its `lr` is with
    bias correction. State and options are AdamW's, which must be fused and have `found_inf`.
    """

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # as AdamW's
        """Take one step, or none where `found_inf` is 1, without making the host wait."""
        group = self.param_groups[0]
        matrices = [parameter for parameter in group["params"] if parameter.grad is not None]
        if not matrices:
            super().step()
            return
        old = torch._foreach_mul(matrices, 1.0)  # a copy, in one kernel
        torch._foreach_zero_(matrices)
        super().step()
        # What stands in their place now is Adam's change, without the rounding of a difference; its decay is missing.
        torch._foreach_add_(matrices, old, alpha=-group["lr"] * group["weight_decay"])
        lengths, changes = (torch.stack(torch._foreach_norm(tensors)) for tensors in (old, matrices))
        trusted = torch.where((lengths > 0) & (changes > 0), group["rate"] * lengths / changes, 1.0)
        torch._foreach_mul_(matrices, list(trusted * (1 - self.found_inf)))  # type: ignore[attr-defined]
        torch._foreach_add_(matrices, old)

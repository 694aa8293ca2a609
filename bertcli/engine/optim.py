"""The optimizer and its schedules (section A.2; Google's `optimization.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm

from bertcli.engine.adam import AdamW
from bertcli.engine.lamb import Lamb

BETAS, EPSILON, WEIGHT_DECAY, LARGEST_NORM = (0.9, 0.999), 1e-6, 0.01, 1.0
SCHEDULES = ("linear", "google", "constant")
OPTIMIZERS = {"adamw": AdamW, "lamb": Lamb}


@dataclass(frozen=True)
class Schedule:
    """A learning rate for each step, from 1 to `steps`; `warmup` below 1 is a share of them."""

    peak: float
    steps: int
    warmup: float
    kind: str = "linear"

    def __call__(self, step: int) -> float:
        """Returns the rate of a step.

        `linear` rises to its peak and falls to zero after the last step. `google` is Google's: its first step has the
        rate zero, and after the warm-up it falls from the start of training, not from the peak.
        """
        warmup = int(self.warmup * self.steps if self.warmup < 1 else self.warmup)
        if self.kind == "google":
            done = step - 1
            return self.peak * (done / warmup if done < warmup else 1 - done / self.steps)
        rising = step / max(1, warmup)
        falling = (self.steps - step + 1) / max(1, self.steps - warmup) if self.kind == "linear" else 1.0
        return self.peak * min(1.0, rising, max(0.0, falling))


class Optimizer:
    """AdamW or LAMB with decay on weights alone, the global gradient norm cut at 1, and a rate for each step.

    A step whose losses or gradient norm are not finite is not taken, nor is any after it: weights and moments stay
    those of the last good step. The device alone decides, so that the host need not wait for it; `norm`, the last
    gradient's before it was cut, tells the host later.
    """

    def __init__(
        self, network: nn.Module, schedule: Schedule, *, kind: str = "adamw", bias_correction: bool = True
    ) -> None:
        """Take the network's parameters, on their device; AdamW without bias correction is Google's optimizer."""
        self.schedule, self.bias_correction = schedule, bias_correction
        self._parameters = [p for p in network.parameters() if p.requires_grad]
        # Biases and norms have one dimension; they are not decayed.
        decayed = [p for p in self._parameters if p.dim() > 1]
        others = [p for p in self._parameters if p.dim() == 1]
        groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": others, "weight_decay": 0.0}]
        self.adam = OPTIMIZERS[kind](groups, lr=schedule.peak, betas=BETAS, eps=EPSILON, fused=True)
        self.keeps_gradients = False  # in their place, where recorded passes or all ranks add them up
        self.norm = torch.zeros((), device=self._parameters[0].device)
        self._is_spoiled = torch.zeros_like(self.norm)  # 1 from the first step on that was not taken

    def step(self, number: int, losses: Tensor | None = None) -> float:
        """Take step `number`, from 1, with the gradients at hand, and clear them; returns its learning rate.

        `losses` are those that the gradients are of, in any shape.
        """
        self.norm = get_total_norm([p.grad for p in self._parameters if p.grad is not None]).float()
        checked = self.norm if losses is None else self.norm + losses.sum()
        self._is_spoiled = torch.maximum(self._is_spoiled, 1 - checked.isfinite().float())
        # As GradScaler does: the fused kernels divide gradients by the one, and change nothing where the other is 1.
        cut = (self.norm + 1e-6).clamp(min=LARGEST_NORM) / LARGEST_NORM
        self.adam.grad_scale, self.adam.found_inf = cut, self._is_spoiled  # type: ignore[attr-defined]
        rate = self.schedule(number)
        for group, decay in zip(self.adam.param_groups, (WEIGHT_DECAY, 0.0), strict=True):
            group.update({"lr": rate} if self.bias_correction else _uncorrected(rate, decay, number), rate=rate)
        self.adam.step()
        self.adam.zero_grad(set_to_none=not self.keeps_gradients)
        return rate


def _uncorrected(rate: float, decay: float, step: int) -> dict[str, float]:
    """Returns settings under which AdamW's own bias correction cancels out: m / (√v + ε), as Google's code has it."""
    first, second = 1 - BETAS[0] ** step, (1 - BETAS[1] ** step) ** 0.5
    return {"lr": rate * first / second, "eps": EPSILON / second, "weight_decay": decay * second / first}

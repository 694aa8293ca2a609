"""Where the numbers are computed, and in which precision: applied from outside, so that the model stays plain."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from bertcli.engine.distributed import ALONE, Ranks
from bertcli.errors import UsageError

# Tokens of one forward pass where `--max-tokens` is not given: they fill the device without filling its memory.
TOKENS = {"cuda": 32_768, "cpu": 4_096}
WORKERS = 6  # processes that keep a GPU busy, with some to spare; a CPU's cores are busy with the network itself


@dataclass(frozen=True)
class Device:
    """A device and the precision of its products."""

    device: torch.device
    precision: str  # fp32 or bf16
    max_tokens: int
    workers: int = 1  # while training: processes, this one among them, that get batches ready
    ranks: Ranks = ALONE  # while training: the processes that share the work, each on a device of its own
    recomputes: bool = False  # while training: layers anew in the backward pass, instead of keeping their activations

    def autocast(self) -> AbstractContextManager[object]:
        """Returns the context in which the network runs forward."""
        if self.precision == "bf16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()


def choose(device: str = "auto", precision: str = "auto", max_tokens: int | None = None) -> Device:
    """Returns the device asked for: auto is a GPU where there is one, and bf16 where it has that.

    Of several GPUs each process that `torchrun` has started gets its own, unless one is asked for by its number. fp32
    means fp32: TF32 stays off. Raises `UsageError` where the device is not there.
    """
    try:
        chosen = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
        if chosen.type == "cuda":
            number = chosen.index if chosen.index is not None else int(os.environ.get("LOCAL_RANK", "0"))
            chosen = torch.device("cuda", number)
            torch.cuda.set_device(chosen)
        torch.ones(1, device=chosen).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"--device {device}: {str(error).splitlines()[0]}") from None
    if precision == "auto":
        precision = "bf16" if chosen.type == "cuda" and torch.cuda.is_bf16_supported(False) else "fp32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    workers = min(WORKERS * gpus, len(os.sched_getaffinity(0))) if chosen.type == "cuda" else 1
    return Device(chosen, precision, max_tokens or TOKENS.get(chosen.type, TOKENS["cpu"]), workers)

"""The device and the precision that are chosen."""

from __future__ import annotations

import click
import pytest
import torch

from bertcli.cli import group
from bertcli.engine.device import TOKENS, WORKERS, choose
from bertcli.errors import UsageError


def test_the_cpu_computes_in_fp32_unless_told() -> None:
    device = choose("cpu")
    assert (device.device.type, device.precision, device.max_tokens) == ("cpu", "fp32", TOKENS["cpu"])
    assert choose("cpu", max_tokens=7).max_tokens == 7
    product = torch.nn.functional.linear
    with device.autocast():
        assert product(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32
    with choose("cpu", "bf16").autocast():
        assert product(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16


@pytest.mark.parametrize("name", ["nothing", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match=f"--device {name}: "):
        choose(name)


@pytest.mark.parametrize("name", ["pretrain", "finetune", "predict", "embed"])
def test_the_help_says_how_many_processes_there_are(name: str) -> None:
    """It does so without torch, and so by hand."""
    command = group.get_command(click.Context(group), name)
    assert command
    (workers,) = [each for each in command.params if each.name == "workers"]
    assert f"GPU {WORKERS}, as far as there are cores" in str(workers.help)  # type: ignore[attr-defined]
    assert choose("cpu").workers == 1

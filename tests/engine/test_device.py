"""The device and the precision that are chosen."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import click
import models
import pytest
import torch

from bertcli.cli import group
from bertcli.engine import device as module
from bertcli.engine.device import LARGE, TOKENS, WORKERS, Device, choose
from bertcli.engine.distributed import Ranks
from bertcli.engine.run import Run
from bertcli.engine.settings import Output, Settings
from bertcli.errors import UsageError
from bertcli.model.config import PRESETS, of_size
from bertcli.model.heads import Network
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build


def test_the_cpu_computes_in_fp32_unless_told() -> None:
    device = choose("cpu")
    assert (device.device.type, device.precision, device.max_tokens) == ("cpu", "fp32", TOKENS["cpu"])
    assert choose("cpu", max_tokens=7).max_tokens == 7
    product = torch.nn.functional.linear
    with device.autocast():
        assert product(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float32
    with choose("cpu", "bf16").autocast():
        assert product(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16


GIB = 1 << 30


@pytest.mark.parametrize(
    ("preset", "memory", "kernels", "precision", "recomputes", "low", "high"),
    [
        # What was measured on GPUs of 80 GiB: 62,600 tokens of BERT-base took 19.6 GiB, of BERT-large 51.4.
        ("base", 80, True, "bf16", False, 65_536, 65_536),
        ("large", 80, True, "bf16", False, 65_536, 65_536),
        ("large", 80, False, "fp32", False, 12_000, 25_000),
        ("base", 24, True, "bf16", False, 32_768, 65_536),
        ("large", 24, True, "bf16", False, 12_000, 20_000),
        ("large", 24, True, "bf16", True, 60_000, 65_536),
        ("base", 15, False, "fp32", False, 5_000, 12_000),
        ("large", 6, False, "fp32", False, 1, 1),
    ],
)
def test_passes_have_room_in_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    preset: str,
    memory: int,
    kernels: bool,
    precision: str,
    recomputes: bool,
    low: int,
    high: int,
) -> None:
    gpu = SimpleNamespace(total_memory=memory * GIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: gpu)
    config = of_size(*PRESETS[preset], vocab_size=30_522)
    with torch.device("meta"):
        network = Network(config, {})
    device = Device(torch.device("cuda"), precision, 65_536, kernels=kernels, recomputes=recomputes)
    assert low <= device.fitted(network, 65_536).max_tokens <= high
    assert replace(device, is_sized=True).fitted(network, 65_536).max_tokens == 65_536
    assert choose("cpu").fitted(network, 65_536) == choose("cpu")


@pytest.mark.parametrize(
    ("preset", "most", "max_tokens", "expected"),
    [
        # As measured on an H200: 2.4 and 1.13 times as fast, and 3% slower.
        ("small", 32_768, 65_536, True),
        ("base", 65_536, 32_768, True),
        ("base", 65_536, 65_536, False),
        ("large", 65_536, 65_536, False),
        ("large", 32 * 512, 65_536, True),
    ],
)
def test_small_passes_are_recorded(preset: str, most: int, max_tokens: int, expected: bool) -> None:
    with torch.device("meta"):
        network = Network(of_size(*PRESETS[preset], vocab_size=30_522), {})
    device = Device(torch.device("cuda"), "bf16", max_tokens, is_sized=True)
    assert device.fitted(network, most).graphs == expected
    assert not replace(device, graphs=False).fitted(network, most).graphs


@pytest.mark.parametrize(("ranks", "most"), [(1, 512), (2, 256)])
def test_a_run_tells_the_most_tokens_of_a_ranks_share(
    ranks: int, most: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[int] = []
    monkeypatch.setattr(Device, "fitted", lambda device, network, most: told.append(most))
    task = Pretraining(models.wordpiece(), 64)
    settings = Settings(
        lr=1e-3, warmup=0, schedule="linear", bias_correction=True, batch_size=8, dropout=0, seed=0, steps=1
    )
    one = Run(task, settings, Output(tmp_path), replace(choose("cpu"), ranks=Ranks(size=ranks)), {})
    with pytest.raises(AttributeError):  # of the device, which has been told all
        next(one.train(build(task, models.config())))
    assert told == [most]


@pytest.mark.parametrize(
    ("has_kernel", "precision", "own", "expected"),
    [
        (True, "bf16", {}, True),
        (False, "bf16", {}, False),
        (True, "fp32", {}, False),
        (True, "bf16", {"graphs": False}, False),
        (True, "bf16", {"recomputes": True}, False),
    ],
)
def test_what_is_recorded(
    monkeypatch: pytest.MonkeyPatch, has_kernel: bool, precision: str, own: dict[str, bool], expected: bool
) -> None:
    monkeypatch.setattr(module, "has_packed_kernel", lambda *_: has_kernel)
    with torch.device("meta"):
        network = Network(of_size(2, 16, 2, vocab_size=30), {})
    assert Device(torch.device("cuda"), precision, 64, **own).is_recorded(network) == expected


@pytest.mark.parametrize("name", ["nothing", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match=f"--device {name}: "):
        choose(name)


@pytest.mark.parametrize("name", ["pretrain", "finetune", "predict", "embed"])
def test_the_help_says_what_is_usual(name: str) -> None:
    """It does so without torch, and so by hand."""
    command = group.get_command(click.Context(group), name)
    assert command
    told = {each.name: str(getattr(each, "help", "")) for each in command.params}
    assert f"GPU {WORKERS}, as far as there are cores" in told["workers"]
    assert f"on a CPU {TOKENS['cpu']}, on a GPU {TOKENS['cuda']} or {LARGE[1]};" in told["max_tokens"]
    assert choose("cpu").workers == 1


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, "expandable_segments:True"),
        ({"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}, "max_split_size_mb:64"),
        ({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, None),
    ],
)
def test_how_memory_is_taken_is_said_where_nobody_has(
    own: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        monkeypatch.setenv(name, "")  # so that it will be put back
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    choose("cpu")
    assert os.environ.get("PYTORCH_ALLOC_CONF") == expected

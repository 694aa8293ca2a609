"""Eight bits beside our fp32 on a CPU: tokens a second, and what is lost of the scores.

python tests/bench/int8.py SST2_MODEL STSB_MODEL --glue DIR [--turns 2]

The folders hold models fine-tuned for SST-2 and STS-B, DIR the GLUE data with a folder a task. Each dev set goes
through `predict`'s loop, without reading and WordPiece, on all cores that it is given (`taskset` says which), by turns:
fp32, our own; torch int8, our own with the layers' products by torch's dynamic ones (oneDNN, weights per row), which
bertcli does not have; ONNX fp32 and ONNX int8, the files of `weights/onnx.py` in onnxruntime, each pass a rectangle.
Prints a line for each: tokens a second; the median ratio to fp32, of parts of the set in turn, by the clock and by the
time of the cores, which others on the machine disturb less; the scores; the seconds to make it.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from bertcli.commands.inference import network_of
from bertcli.engine.device import choose
from bertcli.engine.predict import predict
from bertcli.model.bert import Layer
from bertcli.model.heads import Network
from bertcli.model.packed import Packed
from bertcli.tasks import of_folder
from bertcli.weights.onnx import quantize, save_onnx
from bertcli.weights.safetensors import open_folder

METRICS = ("accuracy", "pearson", "spearman")
PART = 200  # records that each way answers before the next: a machine is not the same from one minute to the next


class Product(nn.Module):
    """A product of 8 bits by torch, the scale of what comes in found for all of it together."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, bias = linear.weight.detach(), linear.bias.detach()
        scales, zeros = weight.abs().amax(1).double() / 127, torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():  # of tensors of this kind, which are to go: why it is not in bertcli
            warnings.simplefilter("ignore")
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed, True)
        return made


class OnRuntime(Network):
    """A file of ONNX in the place of a network: what is pooled are the logits already."""

    def __init__(self, file: Path, cores: int) -> None:
        nn.Module.__init__(self)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = cores
        self.session = onnxruntime.InferenceSession(file, options)
        self.heads = nn.ModuleDict({"classifier": nn.Identity()})
        self.dummy = nn.Parameter(torch.zeros(1))  # the loop asks for the type of one

    def pooled(self, packed: Packed) -> Tensor:
        """Returns logits (B, K)."""
        shape = len(packed.lengths), max(packed.lengths)
        rows, columns = torch.repeat_interleave(torch.tensor(packed.lengths)), packed.positions
        filled = {"input_ids": packed.ids, "attention_mask": torch.ones_like(packed.ids)}
        inputs = {}
        for name, values in {**filled, "token_type_ids": packed.segments}.items():
            inputs[name] = np.zeros(shape, np.int64)
            inputs[name][rows, columns] = values
        return torch.from_numpy(self.session.run(None, inputs)[0])


def in_eight_bits(network: Network) -> Network:
    """Returns a copy whose layers' products are torch's of 8 bits."""
    torch.backends.quantized.engine = "onednn"
    network = copy.deepcopy(network)
    for layer in [part for part in network.modules() if isinstance(part, Layer)]:
        for name in ("qkv", "attended", "up", "down"):
            setattr(layer, name, Product(getattr(layer, name)))
    return network


def timed(make: Callable[[], Network]) -> tuple[Network, float]:
    """Returns what is made, and the seconds that it takes."""
    begun = time.perf_counter()
    return make(), time.perf_counter() - begun


def compare(model: Path, name: str, file: Path, turns: int) -> None:
    """Print a line for each way in which a model answers a file of GLUE."""
    folder = open_folder(model)
    task, device = of_folder(folder, folder.max_length), choose("cpu")
    network = network_of(folder, task).eval()
    encoded = [(record, task.encode(record)) for record in read(name, file)]
    tokens = sum(len(example["ids"]) for _, examples in encoded for example in examples)
    # The loop has as many passes under way as there are cores, up to 8.
    cores = max(1, torch.get_num_threads() // 8)
    with TemporaryDirectory() as home:
        exported = Path(home) / "model.onnx"

        def on_runtime() -> Network:
            save_onnx(exported, network, folder.architecture)
            return OnRuntime(exported, cores)

        def on_runtime_in_eight_bits() -> Network:
            quantize(exported)
            return OnRuntime(exported, cores)

        makers: dict[str, Callable[[], Network]] = {
            "fp32": lambda: network,
            "torch int8": lambda: in_eight_bits(network),
            "ONNX fp32": on_runtime,
            "ONNX int8": on_runtime_in_eight_bits,
        }
        made = {way: timed(make) for way, make in makers.items()}
    parts = [encoded[start : start + PART] for start in range(0, len(encoded), PART)]
    seconds: dict[str, list[float]] = {way: [] for way in made}
    busy: dict[str, list[float]] = {way: [] for way in made}
    answers: dict[str, list[Any]] = {way: [] for way in made}
    for part in [parts[0], *parts * turns]:
        for way, (own, _) in made.items():
            begun, used = time.perf_counter(), time.process_time()
            answers[way] += predict([own], task, part, device)
            seconds[way].append(time.perf_counter() - begun)
            busy[way].append(time.process_time() - used)
    scores = {way: task.score(own[-len(encoded) :]) for way, own in answers.items()}
    print(f"{name}, {tokens} tokens, {len(os.sched_getaffinity(0))} cores, {turns} turns")
    for way, (_, making) in made.items():
        faster, thriftier = (
            median(first / own for first, own in zip(each["fp32"][1:], each[way][1:], strict=True))
            for each in (seconds, busy)  # the first part is a warm-up
        )
        rate, found = turns * tokens / sum(seconds[way][1:]), scores[way]
        told = ", ".join(f"{key} {found[key]:.4f}" for key in METRICS if key in found)
        print(
            f"{way:<11}{rate:8,.0f} tokens/s, {faster:.2f} times fp32, by cores' time {thriftier:.2f}; {told}; "
            f"made in {making:.1f} s",
            flush=True,
        )


def read(name: str, file: Path) -> list[dict[str, Any]]:
    """Returns the records of a file of GLUE."""

    words = [sys.executable, "-m", "bertcli", "read", name, str(file), "--plain"]
    lines = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def main() -> None:
    """Compare both models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sst2", metavar="SST2_MODEL", type=Path)
    parser.add_argument("stsb", metavar="STSB_MODEL", type=Path)
    parser.add_argument("--glue", metavar="DIR", type=Path, required=True)
    parser.add_argument("--turns", type=int, default=2)
    asked = parser.parse_args()
    compare(asked.sst2, "glue-sst-2", next((asked.glue / "SST-2").glob("dev.tsv*")), asked.turns)
    compare(asked.stsb, "glue-sts-b", next((asked.glue / "STS-B").glob("dev.tsv*")), asked.turns)


if __name__ == "__main__":
    main()

"""What checkpoints cost: how long a save holds up the training, and what its writing takes beside it.

python tests/bench/checkpoint.py [--preset base] [--device auto] [--times 4] [--folder DIR]

For each save, the first of which has to take its memory: the time until `save` returns, on a GPU that of the copies
there, and the time until the checkpoint is on the disk of DIR; while it is written, the longest time for which a loop
in Python, as training is, does not get its turn, and the share of the time that goes in stops longer than 1 ms. Other
work on the machine stops it too: alone it tells how much.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bertcli.engine import checkpoint
from bertcli.engine.device import choose
from bertcli.engine.optim import Optimizer, Schedule
from bertcli.engine.saver import Saver
from bertcli.model.bert import Bert, initialize
from bertcli.model.config import of_size, shape

IDLE = 2  # seconds of the loop with nothing beside it
STOP = 1e-3  # seconds; a shorter one does not count


def learned(preset: str, device: torch.device) -> tuple[Bert, Optimizer]:
    """Returns a network and its optimizer after a step."""
    network = Bert(of_size(*shape(preset), vocab_size=30_522)).to(device)
    initialize(network, 0.02)
    optimizer = Optimizer(network, Schedule(1e-4, 1_000_000, 0.01))
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step(1)
    return network, optimizer


def stops(is_over: Callable[[], bool]) -> str:
    """Returns what a loop tells of its stops until something is over."""
    begun = last = time.perf_counter()
    found = [0.0]
    while not is_over():
        now = time.perf_counter()
        if now - last > STOP:
            found.append(now - last)
        last = now
    return f"the loop stops for {1e3 * max(found):.1f} ms at most, {sum(found) / (last - begun):.1%} of the time"


def measure(saver: Saver, step: int, network: Bert) -> str:
    """Returns what a save has cost."""
    ended: list[float] = []
    is_gpu = next(network.parameters()).is_cuda
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if is_gpu else []
    begun = time.perf_counter()
    for mark in marks[:1]:
        mark.record()
    saver.save({"step": step}, [checkpoint.random_states(network)], then=lambda: ended.append(time.perf_counter()))
    for mark in marks[1:]:
        mark.record()
    held = time.perf_counter() - begun

    def is_over() -> bool:
        saver.poll()
        return bool(ended)

    stopped = stops(is_over)
    copies = f", the copies {marks[0].elapsed_time(marks[1]):.1f} ms" if marks else ""
    return f"save {1e3 * held:.1f} ms{copies}, on disk after {ended[0] - begun:.2f} s; {stopped}"


def main() -> None:
    """Measure some saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="base")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    device = choose(given.device).device
    network, optimizer = learned(given.preset, device)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder, Saver(Path(folder), network, optimizer) as saver:
        ends = time.perf_counter() + IDLE
        name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
        print(f"{name}, {given.preset}: alone, {stops(lambda: time.perf_counter() > ends)}")
        for step in range(1, given.times + 1):
            print(measure(saver, step, network), flush=True)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        print(f"a checkpoint takes {size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()

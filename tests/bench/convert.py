"""Seconds and memory that `convert` takes for a BERT-base of 440 MB, from each form and to each.

python tests/bench/convert.py [PRESET]: makes a random model with a vocabulary of 30,522 pieces (tiny, base, large …),
converts it, each time in a process of its own, and prints seconds, the most memory, and what came out.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

from bertcli.folder import SPECIAL, Casing
from bertcli.headers import FILE
from bertcli.model.config import of_size, shape
from bertcli.tasks.pretraining import Pretraining
from bertcli.tasks.task import build
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.folder import save_folder

STEPS = {  # what is made of what
    "safetensors to the same": ("model", "copy", []),
    "safetensors to TensorFlow": ("model", "google", ["--to", "tensorflow"]),
    "TensorFlow to safetensors": ("google", "back", []),
    "pickle to safetensors": ("pickled", "again", []),
}


def main(preset: str) -> None:
    """Print the table."""
    pieces = [*SPECIAL, *(f"w{number}" for number in range(30_522 - len(SPECIAL)))]
    task = Pretraining(WordPiece(pieces, Casing(lowercase=True, strip_accents=True)), 512)
    with tempfile.TemporaryDirectory() as temporary:
        os.chdir(temporary)
        network = build(task, of_size(*shape(preset), vocab_size=len(pieces)))
        save_folder(Path("model"), network, task.architecture, task.wordpiece, 512, {})
        os.mkdir("pickled")
        for name in ("config.json", "vocab.txt"):
            os.link(f"model/{name}", f"pickled/{name}")
        weights = load_file(f"model/{FILE}")
        torch.save(weights, "pickled/pytorch_model.bin")
        numbers = sum(tensor.numel() for tensor in weights.values())
        print(f"{numbers:,} parameters, {os.stat(f'model/{FILE}').st_size:,} bytes")
        for what, (source, made, options) in STEPS.items():
            line = [sys.executable, "-m", "bertcli", "convert", source, "-o", made, "--quiet", *options]
            begun = time.perf_counter()
            child = os.posix_spawn(sys.executable, line, os.environ)
            _, status, used = os.wait4(child, 0)
            assert status == 0, what
            told = f"{time.perf_counter() - begun:.1f} s, {used.ru_maxrss / 1024:.0f} MiB"
            if (Path(made) / FILE).exists():
                after = load_file(Path(made) / FILE)
                told += f", equal: {all(torch.equal(after[name], tensor) for name, tensor in weights.items())}"
            print(f"{what}: {told}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "base")

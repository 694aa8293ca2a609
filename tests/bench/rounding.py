"""How far two programs in fp32 are from fp64, and from each other, on the same weights.

python tests/bench/rounding.py MODEL: prints, for prose and for one word a hundred times, the largest difference of any
hidden state between ours and transformers in fp32, and of each from transformers in fp64.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer

from bertcli.model.packed import pack
from bertcli.tasks.embedding import Embedding, parse_layers
from bertcli.tasks.task import build
from bertcli.weights.folder import open_folder

TEXTS = {
    "prose": "Call me Ishmael. Some years ago I thought I would see the watery part of the world.",
    "a x 100": "a " * 100,
}


@torch.inference_mode()
def main(path: str) -> None:
    """Print the table."""
    folder = open_folder(Path(path))
    network = build(Embedding(folder.wordpiece, 512, parse_layers("last", 1)), folder.config).eval()
    folder.fill(network)
    tokenizer, single = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).float().eval()
    double = AutoModel.from_pretrained(path).double().eval()
    for name, text in TEXTS.items():
        inputs = tokenizer(text, return_tensors="pt")
        ours = torch.stack(network.bert.hidden_states(pack([inputs["input_ids"][0].tolist()], [None])))
        theirs, exact = (
            torch.stack(model(**inputs, output_hidden_states=True).hidden_states)[:, 0] for model in (single, double)
        )
        gaps = [
            (one.double() - other.double()).abs().max()
            for one, other in ((ours, theirs), (ours, exact), (theirs, exact))
        ]
        print(f"{name}: ours from theirs {gaps[0]:.2e}, ours from fp64 {gaps[1]:.2e}, theirs from fp64 {gaps[2]:.2e}")


if __name__ == "__main__":
    main(sys.argv[1])

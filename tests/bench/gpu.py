"""What a GPU makes of the same network: agreement with the CPU, fine-tuning on SST-2 and the speed of `embed`.

python tests/bench/gpu.py [TEXT TRAIN.tsv DEV.tsv MODEL]: prints the largest difference of bf16 and fp32 on the GPU from
fp32 on the CPU, and with a model folder the accuracy and time of SST-2 and the speed of `embed` on TEXT's lines. The
speed of pre-training is engine.py's.
"""

from __future__ import annotations

import subprocess
import sys
import time

import torch

from bertcli.model.bert import Bert, initialize
from bertcli.model.config import of_size
from bertcli.model.packed import pack


def shell(line: str) -> str:
    """Returns what a pipeline printed, having shown it and its time."""
    begun = time.monotonic()
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=False)
    print(f"$ {line}\n{done.stderr[-1500:]}{done.stdout[-1500:]}[{time.monotonic() - begun:.1f} s]\n", flush=True)
    assert done.returncode == 0
    return done.stdout


def agreement() -> None:
    """Print how far the packed and the padded kernel are from the CPU, for one batch of mixed lengths."""
    for width, heads in ((768, 12), (768, 3)):
        torch.manual_seed(0)
        network = Bert(of_size(4, width, heads, vocab_size=1000)).eval()
        initialize(network, 0.02)
        lengths = [5, 128, 128, 64, 512, 1, 17, 300]
        packed = pack([torch.randint(0, 1000, (n,)).tolist() for n in lengths], [n // 2 or None for n in lengths])
        with torch.inference_mode():
            reference = network(packed)
            network, packed = network.cuda(), packed.to(torch.device("cuda"))
            single = network(packed).cpu()
            with torch.autocast("cuda", torch.bfloat16):
                half = network(packed).float().cpu()
        gap = (single - reference).abs().max(), (half - reference).abs().max(), reference.abs().max()
        print(f"head width {width // heads}: fp32 differs by {gap[0]:.1e}, bf16 by {gap[1]:.1e}, of up to {gap[2]:.1f}")


def main(text: str = "", train: str = "", dev: str = "", model: str = "") -> None:
    """Run everything that there are files for."""
    print(torch.cuda.get_device_name(), torch.__version__)
    agreement()
    if model:
        shell(f"bertcli read glue-sst-2 {dev} > /tmp/dev.jsonl.zst")
        learn = f"-m {model} -o /tmp/sst2 --force --dev /tmp/dev.jsonl.zst --epochs 2 --lr 5e-5"
        shell(f"bertcli read glue-sst-2 {train} --plain > /tmp/train.jsonl")
        shell(f"head -20000 /tmp/train.jsonl | bertcli finetune classification {learn}")
        shell(f"bertcli embed {text} -m {model} --pool mean --text > /tmp/vectors.jsonl.zst")


if __name__ == "__main__":
    main(*sys.argv[1:])

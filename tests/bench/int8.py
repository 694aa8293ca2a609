"""Eight bits beside our fp32 on a CPU: tokens a second, and what is lost of the scores.

python tests/bench/int8.py [MODEL ...] [--glue DIR] [--sizes 6x384x12,base] [--cores 2] [--turns 3]

Of folders fine-tuned for SST-2 or STS-B each answers that dev set of GLUE, DIR having a folder a task; models of random
weights answer texts of 5 to 60 pieces. By turns, each time in a process of its own, for what one library's threads wait
for would be the other's: fp32, our own; torch int8, our own with the layers' products by torch's dynamic ones (oneDNN,
weights by row), which bertcli does not have; ONNX fp32 and ONNX int8, the files that `convert --to onnx` writes, in
onnxruntime, 32 texts of like length a pass. Reading, WordPiece and loading are not counted. Prints for each the median
of tokens a second, by how much that is more than fp32's and ONNX fp32's, and the scores. With --profile it is one turn
of the ONNX files, and prints the seconds of their products and of all else, as onnxruntime has measured them.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bertcli.commands.inference import network_of
from bertcli.engine.device import choose
from bertcli.engine.predict import placed, predict
from bertcli.folder import SPECIAL, Casing
from bertcli.model.bert import Layer
from bertcli.model.config import of_size, shape
from bertcli.model.heads import Network
from bertcli.tasks import of_folder
from bertcli.tasks.classification import Classification
from bertcli.tasks.task import build
from bertcli.text.wordpiece import WordPiece
from bertcli.weights.folder import open_folder, save_folder

WAYS = ("fp32", "torch int8", "ONNX fp32", "ONNX int8")
METRICS = ("accuracy", "pearson", "spearman")
FILES = {"classification": ("glue-sst-2", "SST-2"), "regression": ("glue-sts-b", "STS-B")}
PRODUCTS = ("Gemm", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulInteger")  # with weights
TEXTS, BATCH = 300, 32


class Product(nn.Module):
    """A product of 8 bits by torch, the scale of what comes in found for all of it together."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight, bias = linear.weight.detach(), linear.bias.detach()
        scales, zeros = weight.abs().amax(1).double() / 127, torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings(action="ignore"):  # of tensors that are to go: why it is not in bertcli
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed, True)
        return made


def in_eight_bits(network: Network) -> Network:
    """Returns a copy whose layers' products are torch's of 8 bits."""
    torch.backends.quantized.engine = "onednn"
    network = copy.deepcopy(network)
    for layer in [part for part in network.modules() if isinstance(part, Layer)]:
        for name in ("qkv", "attended", "up", "down"):
            setattr(layer, name, Product(getattr(layer, name)))
    return network


# -- one way, in a process of its own -------------------------------------------------------------------------------


def answered(model: Path, records: list[dict[str, Any]], way: str) -> dict[str, Any]:
    """Returns the seconds of one way through all records, its tokens, and the scores of its answers."""
    folder = open_folder(model)
    task, device = of_folder(folder, folder.max_length), choose("cpu")
    examples = [task.encode(record) for record in records]
    assert all(len(own) == 1 for own in examples), "a text longer than the model's window"
    tokens = sum(len(own[0]["ids"]) for own in examples)
    if way.startswith("ONNX"):
        seconds, outputs = on_runtime(model / ("model-int8.onnx" if "int8" in way else "model.onnx"), examples)
        rows = zip(records, examples, outputs, strict=True)
        found = [task.decode(record, own, task.combine(own, [output])) for record, own, output in rows]
    else:
        network = placed(network_of(folder, task), device)
        network = in_eight_bits(network) if "int8" in way else network
        list(predict([network], task, zip(records[:BATCH], examples, strict=False), device))
        begun = time.perf_counter()
        found = list(predict([network], task, zip(records, examples, strict=True), device))
        seconds = time.perf_counter() - begun
    scores = task.score(found) if "label" in records[0] else {}
    return {"seconds": seconds, "tokens": tokens, **{name: scores[name] for name in METRICS if name in scores}}


def on_runtime(file: Path, examples: list[Any]) -> tuple[float, list[Any]]:
    """Returns the seconds that onnxruntime takes, and its outputs as our network gives them."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    options.enable_profiling = "PROFILE" in os.environ
    if options.enable_profiling:
        options.profile_file_prefix = os.environ["PROFILE"]
    session = onnxruntime.InferenceSession(file, options)
    order = sorted(range(len(examples)), key=lambda index: len(examples[index][0]["ids"]))
    logits: dict[int, Any] = {}

    def run(chosen: list[int]) -> None:
        own = [examples[index][0] for index in chosen]
        ids, mask, segments = np.zeros((3, len(own), max(len(each["ids"]) for each in own)), np.int64)
        for row, each in enumerate(own):
            ids[row, : len(each["ids"])], mask[row, : len(each["ids"])] = each["ids"], 1
            if each["segment_b"][0] >= 0:
                segments[row, each["segment_b"][0] : len(each["ids"])] = 1
        made = session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments})[0]
        logits.update(zip(chosen, made, strict=True))

    run(order[:BATCH])
    begun = time.perf_counter()
    for start in range(0, len(order), BATCH):
        run(order[start : start + BATCH])
    seconds = time.perf_counter() - begun
    if options.enable_profiling:
        session.end_profiling()
    return seconds, [logits[index] for index in range(len(examples))]


# -- all of them, by turns ------------------------------------------------------------------------------------------


def prepared(room: Path, model: Path) -> Path:
    """Returns a copy of a model folder, by links, with its ONNX files."""
    home = room / model.name
    home.mkdir()
    for file in model.iterdir():
        if file.is_file():
            os.symlink(file.resolve(), home / file.name)
    for options, name in (([], "model.onnx"), (["--precision", "int8"], "model-int8.onnx")):
        made = room / f"{model.name}-{name}"
        line = ["convert", str(model), "--to", "onnx", "-o", str(made), "--quiet", *options]
        subprocess.run([sys.executable, "-m", "bertcli", *line], check=True, stdout=subprocess.DEVNULL)
        (made / "model.onnx").rename(home / name)
    return home


def random_model(room: Path, size: str) -> Path:
    """Returns the folder of a classifier of random weights."""
    pieces = [*SPECIAL, *(f"w{number}" for number in range(30_000))]
    task = Classification(WordPiece(pieces, Casing(lowercase=True, strip_accents=True)), 128, ("a", "b"))
    config = of_size(*shape(size), vocab_size=len(pieces), labels=("a", "b"))
    save_folder(room / size, build(task, config), task.architecture, task.wordpiece, 128, {})
    return room / size


def random_records() -> list[dict[str, Any]]:
    """Returns texts of 5 to 60 pieces with those of the frame."""
    draw = np.random.default_rng(0)
    texts = [draw.integers(30_000, size=draw.integers(3, 59)) for _ in range(TEXTS)]
    return [{"text": " ".join(f"w{word}" for word in text)} for text in texts]


def compare(name: str, home: Path, records: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    """Print a line for each way."""
    cores, turns = asked.cores, asked.turns
    (home / "records.json").write_text(json.dumps(records))
    rows: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way in WAYS:
            line = ["taskset", "-c", f"0-{cores - 1}", sys.executable, __file__, str(home), "--way", way]
            rows[way].append(json.loads(subprocess.run(line, stdout=subprocess.PIPE, check=True).stdout))
    rates = {way: median(row["tokens"] / row["seconds"] for row in own) for way, own in rows.items()}
    print(f"{name}, {rows['fp32'][0]['tokens']:,} tokens, {cores} cores, {turns} turns", flush=True)
    for way, rate in rates.items():
        scores = ", ".join(f"{key} {rows[way][0][key]:.4f}" for key in METRICS if key in rows[way][0])
        beside = f"{rate / rates['fp32']:.2f} times fp32, {rate / rates['ONNX fp32']:.2f} times ONNX fp32"
        print(f"  {way:<11}{rate:8,.0f} tokens/s, {beside}{'; ' * bool(scores)}{scores}", flush=True)


def profile(name: str, home: Path, records: list[dict[str, Any]], asked: argparse.Namespace) -> None:
    """Print what each ONNX file spends on its products of weights, and on all else."""
    (home / "records.json").write_text(json.dumps(records))
    for way in WAYS[2:]:
        line = ["taskset", "-c", f"0-{asked.cores - 1}", sys.executable, __file__, str(home), "--way", way]
        environment = {**os.environ, "PROFILE": str(home / way.replace(" ", "-"))}
        subprocess.run(line, stdout=subprocess.DEVNULL, check=True, env=environment)
        (file,) = home.glob(f"{way.replace(' ', '-')}*.json")
        events = [each for each in json.loads(file.read_text()) if each["name"].endswith("kernel_time")]
        products = sum(each["dur"] for each in events if each["args"]["op_name"] in PRODUCTS) / 1e6
        rest = sum(each["dur"] for each in events) / 1e6 - products
        print(f"{name}, {way}: products {products:.2f} s, all else {rest:.2f} s", flush=True)


def main() -> None:
    """Compare all that is asked for; or, with --way, be one of the processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", metavar="MODEL", type=Path, nargs="*")
    parser.add_argument("--glue", metavar="DIR", type=Path)
    parser.add_argument("--sizes", default="")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--profile", action="store_true")
    asked = parser.parse_args()
    if asked.way:
        (home,) = asked.models
        print(json.dumps(answered(home, json.loads((home / "records.json").read_text()), asked.way)))
        return
    show = profile if asked.profile else compare
    with tempfile.TemporaryDirectory() as temporary:
        room = Path(temporary)
        for model in asked.models:
            form, task = FILES[str(open_folder(model).notes["task"])]
            (dev,) = (asked.glue / task).glob("dev.tsv*")
            words = [sys.executable, "-m", "bertcli", "read", form, str(dev), "--plain"]
            lines = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.splitlines()
            show(f"{model}, {task} dev", prepared(room, model), [json.loads(line) for line in lines], asked)
        for size in filter(None, asked.sizes.split(",")):
            (made := room / "random").mkdir(exist_ok=True)
            show(f"{size}, random weights", prepared(room, random_model(made, size)), random_records(), asked)


if __name__ == "__main__":
    main()

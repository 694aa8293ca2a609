"""Fine-tuning against a plain transformers loop: the same weights, data, settings, epochs and seeds, whole processes.

python tests/bench/finetune.py MODEL DATA PEER.py [--rows RTE,MRPC,...] [--seeds 3] [--only ours|theirs] [--gpus 2]

DATA holds `RTE-train.tsv.zst` … `swag-val.csv.zst` as in FILES; PEER.py is a loop that is called as
`MODEL=folder DATA=folder python PEER.py TASK RESTARTS LR EPOCHS BATCH`. Prints for each row both sides' dev scores
after the last epoch, or ours where there is no peer, with means and standard deviations over the seeds 0, 1, …, the
seconds of the processes from start to end (reading, tokenising, training, dev passes), and whether ours is no worse by
more than two standard errors of the difference, and within its limit of time. With several GPUs as many rows run at a
time, or more with --at-once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from typing import NamedTuple

import zstandard


class Row(NamedTuple):
    """One comparison: how our side reads and learns, and in which words the peer is asked for the same."""

    reader: str
    files: tuple[str, str]  # to learn from, to score on
    task: str
    metric: str
    lr: str
    epochs: int
    batch: int = 32
    scale: float = 100.0
    limit: float = 0.5  # of the peer's time; 0: there is no peer
    options: str = ""


def glue(name: str, metric: str, task: str = "classification", epochs: int = 3) -> Row:
    """Returns a row of GLUE; long texts are cut, as by the peer."""
    files = f"{name}-train.tsv", f"{name}-dev.tsv"
    return Row(f"glue-{name.lower()}", files, task, metric, "5e-5", epochs, options="--cut")


CONLL, SQUAD = ("conll-train.txt", "conll-valid.txt"), ("squad-train.json", "squad-dev.json")
SWAG = ("swag-train.csv", "swag-val.csv")
ROWS = {
    "RTE": glue("RTE", "accuracy"),
    "MRPC": glue("MRPC", "f1"),
    "CoLA": glue("CoLA", "matthews"),
    "STS-B": glue("STS-B", "spearman", "regression"),
    "SST-2": glue("SST-2", "accuracy", epochs=2),
    "conll": Row("conll", CONLL, "tagging", "f1", "1e-4", 4, scale=1.0),
    "squad": Row("squad", SQUAD, "span", "f1", "1e-4", 3, scale=1.0),
    "swag": Row("swag", SWAG, "choice", "accuracy", "5e-5", 3, batch=16, options="--cut"),
    # Documents beside sentences, at one rate.
    "conll-2e-4": Row("conll", CONLL, "tagging", "f1", "2e-4", 4, scale=1.0, limit=0),
    "conll-documents": Row(
        "conll --documents",
        CONLL,
        "tagging",
        "f1",
        "2e-4",
        4,
        batch=10,
        scale=1.0,
        limit=0,
        options="--max-length 128",
    ),
}
# The peer wants plain files, GLUE's in folders of their own.
FILES = {f"{name}-{part}.tsv": f"{name}/{part}.tsv" for name in list(ROWS)[:5] for part in ("train", "dev")}
FILES |= {name: name for name in (*CONLL, *SQUAD, *SWAG)}


class Side(NamedTuple):
    """What one side made of a row: dev score over the seeds, and the seconds of its processes."""

    mean: float
    spread: float
    seconds: float


def unpack(data: Path, place: Path) -> None:
    """Write the data as plain files."""
    for packed, plain in FILES.items():
        (place / plain).parent.mkdir(exist_ok=True)
        with (data / f"{packed}.zst").open("rb") as source, (place / plain).open("wb") as target:
            zstandard.ZstdDecompressor().copy_stream(source, target)


def timed(line: str, gpu: int) -> tuple[str, float]:
    """Returns what a shell line printed, and its seconds; shows its messages where it fails."""
    begun = time.monotonic()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu), "TOKENIZERS_PARALLELISM": "true"}
    line = f"set -o pipefail; {line}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, env=environment)
    seconds = time.monotonic() - begun
    if done.returncode:
        print(f"$ {line}\n{done.stderr[-3000:]}", flush=True)
    return done.stdout, seconds


def ours(name: str, row: Row, model: str, place: Path, seeds: int, gpu: int) -> Side:
    """Returns what `bertcli` makes of a row: its restarts in one process."""
    train, dev = (place / FILES[file] for file in row.files)
    out = place / f"ours-{name}"
    runs = f"--restarts {seeds} --dev {out}-dev.jsonl.zst --metric {row.metric} -m {model} -o {out} --force"
    settings = f"--lr {row.lr} --epochs {row.epochs} --batch-size {row.batch} {row.options}"
    line = f"bertcli read {row.reader} {dev} > {out}-dev.jsonl.zst && "
    line += f"bertcli read {row.reader} {train} | bertcli finetune {row.task} {runs} {settings}"
    printed, seconds = timed(line, gpu)
    result = json.loads(printed)
    rows = result.get("runs") or [{"value": result["dev"][row.metric]}]
    scores = [each["value"] * row.scale for each in rows]
    return Side(statistics.fmean(scores), statistics.stdev(scores) if len(scores) > 1 else 0.0, seconds)


def theirs(name: str, row: Row, model: str, place: Path, seeds: int, gpu: int, peer: str) -> Side:
    """Returns what the peer makes of a row, by its own words; its deviation is that of all seeds, not of a sample."""
    program = str(Path(__file__).with_name("choice.py")) if name == "swag" else peer
    arguments = f"{name} {seeds} {row.lr} {row.epochs} {row.batch}"
    printed, seconds = timed(f"MODEL={model} DATA={place} {sys.executable} {program} {arguments}", gpu)
    words = printed.split()
    mean, spread = (float(words[words.index(key) + 1]) for key in ("mean", "sd"))
    return Side(mean, spread * math.sqrt(seeds / max(1, seeds - 1)), seconds)


def compare(name: str, arguments: argparse.Namespace, place: Path, gpus: Queue[int]) -> None:
    """Print both sides of a row, one after the other on one GPU, and whether ours is as good and as fast."""
    gpu, row, seeds = gpus.get(), ROWS[name], arguments.seeds
    sides: dict[str, Side] = {}
    try:
        if arguments.only != "ours" and row.limit:
            sides["theirs"] = theirs(name, row, arguments.model, place, seeds, gpu, arguments.peer)
        if arguments.only != "theirs":
            sides["ours"] = ours(name, row, arguments.model, place, seeds, gpu)
    finally:
        gpus.put(gpu)
    for side, made in sides.items():
        print(f"{name:16} {side:7} mean {made.mean:6.2f}  sd {made.spread:5.2f}  {made.seconds:6.1f} s", flush=True)
    if len(sides) == 2:
        mine, other = sides["ours"], sides["theirs"]
        difference, error = mine.mean - other.mean, math.sqrt((mine.spread**2 + other.spread**2) / seeds)
        share = mine.seconds / other.seconds
        verdict = difference >= -2 * error and share <= row.limit
        told = f"{difference:+.2f} (standard error {error:.2f}), {share:.2f} of the time (at most {row.limit})"
        print(f"{name:16} {told}: {'shown' if verdict else 'SHORT'}", flush=True)


def main() -> None:
    """Run the rows."""
    parser = argparse.ArgumentParser()
    for name in ("model", "data", "peer"):
        parser.add_argument(name)
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1, help="rows on one GPU")
    parser.add_argument("--only", choices=["ours", "theirs"])
    arguments = parser.parse_args()
    gpus: Queue[int] = Queue()
    for gpu in [*range(arguments.gpus)] * arguments.at_once:
        gpus.put(gpu)
    with TemporaryDirectory() as folder, ThreadPoolExecutor(gpus.qsize()) as pool:
        unpack(Path(arguments.data), Path(folder))
        run: Callable[[str], None] = lambda name: compare(name, arguments, Path(folder), gpus)  # noqa: E731
        list(pool.map(run, arguments.rows.split(",")))


if __name__ == "__main__":
    main()

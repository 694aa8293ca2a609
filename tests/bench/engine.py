"""The engine's speed: ours beside transformers, in one call on one machine.

python tests/bench/engine.py --only base128,base512,large128,scale,learn,cpu -v VOCAB -t TEXT [--peer PEER.py]
python tests/bench/engine.py --only finetune -- MODEL DATA PEER.py [--rows RTE,MRPC,…]
python tests/bench/engine.py --only infer [-- --count N]

base128, base512, large128: the real `bertcli pretrain` on masked pairs of TEXT (a sentence a line, a blank line between
documents; plain or compressed; -t as often as there are files), none of which is used twice: real tokens of log.jsonl
over its seconds, after a warm-up. PEER.py is a transformers loop that takes --size, --seq, --tokens and --compile, and
tells its own rate.
scale: torchrun on all GPUs against one, or without GPUs two processes against one.
learn: the held-out loss (of --heldout TEXT) of our variants against that of the same run with everything fast off.
cpu: pre-training a small model beside a plain transformers loop on the same records, by turns; then infer.py's embed.
feed, finetune, infer: feed.py, finetune.py and infer.py with the arguments after --.

--ours="OPTIONS" appends options to our side; where it is given several times, each is a run of its own. --steps,
--warm, --tokens and --preset make a trial short; --no-peer leaves the other side out. Records are kept in --work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from statistics import median

import torch
from rates import pace
from runs import HERE, Ran, Size, last_object, ours, process, theirs
from supply import Supply

SIZES = {
    "base128": Size("base", 128, 65_536),
    "base512": Size("base", 512, 65_536),
    "large128": Size("large", 128, 65_536),
    "scale": Size("base", 128, 65_536),
    "learn": Size("small", 128, 32_768),
    "cpu": Size("mini", 128, 2_048),
}
STEPS = {"learn": 1_450, "cpu": 20}  # beside the warm-up; else 300
WARM = {"cpu": 4}  # else 50
GOALS = {  # tokens a second, and times transformers: eager, compiled
    "base128": "at least 680 k, 2.0 times eager, 1.4 times compiled; aim 900 k",
    "base512": "at least 600 k; aim 800 k",
    "large128": "at least 235 k; aim 300 k",
    "scale": "four GPUs at least 3.7 times one",
    "learn": "within 0.03 nats",
    "cpu": "more than 1; aim 1.5",
}
PLAIN = "--compile off --kernels off --cuda-graphs off"  # everything fast off
LEARNING = "--lr 5e-4 --warmup 0.1"
PROGRAM = f"{sys.executable} -m bertcli"
TORCHRUN = "-m torch.distributed.run --standalone --nproc-per-node"


class Bench:
    """What there is to measure on, and how."""

    def __init__(self, arguments: argparse.Namespace, work: Path) -> None:
        self.arguments, self.work = arguments, work
        self.vocabulary: str = arguments.vocab
        self.variants: list[str] = arguments.ours or [""]
        self.has_failed = False

    @cached_property
    def supply(self) -> Supply:
        """Returns the masked pairs of the texts."""
        return Supply(self.vocabulary, self.arguments.text, self.work, self.arguments.workers)

    def size(self, part: str) -> Size:
        """Returns the size of a part, with what the call has of its own."""
        usual, own = SIZES[part], self.arguments
        return Size(own.preset or usual.preset, usual.length, own.tokens or usual.tokens)

    def warm(self, part: str) -> int:
        return int(self.arguments.warm or WARM.get(part, 50))

    def steps(self, part: str) -> int:
        """Returns the steps of a part with its warm-up."""
        return self.warm(part) + int(self.arguments.steps or STEPS.get(part, 300))

    def runs(self, part: str, *more: str) -> Iterator[tuple[str, Ran]]:
        """Yields each variant's options with its run, before which come other options; one that fails is left out."""
        for options in self.variants:
            try:
                yield options, self.run(part, " ".join([*more, options]))
            except ChildProcessError as error:
                print(f"{part} FAILED: {error}", flush=True)
                self.has_failed = True

    def run(self, part: str, options: str, times: int = 1, launcher: str = "", **environment: str) -> Ran:
        """Returns a run of ours, on `times` as many records, having printed its line."""
        size, steps, warm = self.size(part), self.steps(part), self.warm(part)
        files = " ".join(self.supply.records(size.length, steps * size.batch * times))
        told = f"--preset {size.preset} --max-length {size.length} --batch-size {size.batch * times} --steps {steps}"
        line = f"{files} -v {self.vocabulary} {told} {options}"
        ran = ours(line, self.work / "model", warm, launcher, os.environ | environment)
        ran.show(f"{part}: {named(options)}" + (f", {times} ranks" if times > 1 else ""), size)
        return ran

    def pass_on(self, script: str, *words: str) -> None:
        """Run another file of this folder with words of ours before those of the call."""
        subprocess.run([sys.executable, str(HERE / script), *words, *self.arguments.rest], check=True)

    def heldout_loss(self, dev: Path, name: str, ran: Ran) -> float:
        """Returns the MLM loss in fp32 of the model that a run has just left, having printed it."""
        line = f"{PROGRAM} predict {dev} -m {self.work / 'model'} --precision fp32 | {PROGRAM} score pretraining"
        loss = float(last_object(process(f"bash -o pipefail -c '{line}'"))["mlm_loss"])
        last = [row["mlm_loss"] for row in ran.rows[-100:]]
        told = f"held-out {loss:.4f}, of the last {len(last)} steps {sum(last) / len(last):.4f}"
        print(f"learn: {name}: MLM loss {told}", flush=True)
        return loss


def named(options: str) -> str:
    return f"bertcli {options}".strip()


# -- the parts -------------------------------------------------------------------------------------------------------


def speed(bench: Bench, part: str) -> None:
    """Our variants, then the peer, eager and compiled."""
    rates = {named(options): ran.pace.mean for options, ran in bench.runs(part)}
    if bench.arguments.peer and not bench.arguments.no_peer:
        for compiled in (False, True):
            peer = theirs(bench.arguments.peer, bench.size(part), compiled=compiled)
            for name, rate in rates.items():
                told = "compiled" if compiled else "eager"
                print(f"{part}: {name} : transformers {told} = {rate / peer:.2f}", flush=True)


def scale(bench: Bench, part: str) -> None:
    """All GPUs against one, each with as many sequences a step; or two processes on a CPU."""
    ranks = torch.cuda.device_count() or 2
    alone = {"CUDA_VISIBLE_DEVICES": "0"} if torch.cuda.is_available() else {"OMP_NUM_THREADS": "1"}
    for options in bench.variants:
        one = bench.run(part, options, **alone)
        many = bench.run(part, options, ranks, f"{TORCHRUN} {ranks}")
        told = [sum(row["tokens"] for row in ran.rows) / len(ran.rows) for ran in (one, many)]
        print(f"scale: {told[1] / told[0]:.2f} times the tokens a step, which should be {ranks}")
        print(f"scale: {ranks} ranks : 1 = {many.pace.mean / one.pace.mean:.2f}", flush=True)


def learn(bench: Bench, part: str) -> None:
    """The held-out loss of each variant beside the reference's."""
    heldout = Supply(bench.vocabulary, [bench.arguments.heldout], bench.work, bench.arguments.workers)
    dev = heldout.made(bench.size(part).length, 0, bench.arguments.workers)
    plain = bench.arguments.plain
    reference = bench.heldout_loss(dev, named(plain), bench.run(part, f"{LEARNING} {plain}"))
    for options, ran in bench.runs(part, LEARNING):
        loss = bench.heldout_loss(dev, named(options), ran)
        print(f"learn: {named(options)}: {loss - reference:+.4f} nats against {named(plain)}", flush=True)


def cpu(bench: Bench, part: str) -> None:
    """Pre-training beside a plain loop on the same records, by turns."""
    os.environ.pop("OMP_NUM_THREADS", None)  # both sides have all cores
    size, steps, warm = bench.size(part), bench.steps(part), bench.warm(part)
    files = " ".join(bench.supply.records(size.length, steps * size.batch))
    peer = f"{HERE / 'pretraining_peer.py'} {bench.vocabulary} {size.preset} {size.batch} {steps} {files}"
    rates: dict[str, list[float]] = {}
    for _ in range(bench.arguments.turns):
        for options, ran in bench.runs(part, "--device cpu"):
            rates.setdefault(named(options), []).append(ran.pace.mean)
        if not bench.arguments.no_peer:
            rows = [json.loads(row) for row in process(f"{sys.executable} {peer}").splitlines()]
            rates.setdefault("transformers", []).append(pace(rows, warm).mean)
    for name, turns in rates.items():
        against = f", {median(turns) / median(rates['transformers']):.2f} times" if "transformers" in rates else ""
        told = ", ".join(f"{rate / 1e3:.2f}" for rate in turns)
        print(f"cpu: {name}: {median(turns) / 1e3:.2f} k tokens/s ({told}){against}", flush=True)
    bench.pass_on("infer.py", "cpu")


def feed(bench: Bench, part: str) -> None:
    """The feed alone on the records of base128."""
    size = bench.size("base128")
    bench.pass_on(
        "feed.py", bench.vocabulary, bench.supply.records(size.length, bench.steps("base128") * size.batch)[0]
    )


def infer(bench: Bench, part: str) -> None:
    """Inference, which has a file of its own."""
    bench.pass_on("infer.py", "infer")


def finetune(bench: Bench, part: str) -> None:
    """Fine-tuning, which has a file of its own."""
    bench.pass_on("finetune.py")


PARTS: dict[str, Callable[[Bench, str], None]] = {
    "base128": speed,
    "base512": speed,
    "large128": speed,
    "feed": feed,
    "infer": infer,
    "scale": scale,
    "finetune": finetune,
    "cpu": cpu,
    "learn": learn,
}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="base128,base512,large128")
    parser.add_argument("-v", "--vocab", default="")
    parser.add_argument("-t", "--text", action="append", default=[])
    parser.add_argument("--heldout", default="")
    parser.add_argument("--peer", default="")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--ours", action="append", metavar="OPTIONS")
    parser.add_argument("--plain", default=PLAIN, help="the reference of learn")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    for name in ("steps", "warm", "tokens"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--preset")
    parser.add_argument("--turns", type=int, default=3, help="of cpu")
    parser.add_argument("rest", nargs="*")
    return parser.parse_args()


def main() -> None:
    arguments, failed = parsed(), False
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
    print(
        f"{card}, {arguments.workers} cores, Python {platform.python_version()}, torch {torch.__version__}", flush=True
    )
    with tempfile.TemporaryDirectory() as folder:
        work: Path = arguments.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        for part in arguments.only.split(","):
            print(f"\n{part}" + (f" ({GOALS[part]})" if part in GOALS else ""), flush=True)
            bench = Bench(arguments, work)
            try:
                PARTS[part](bench, part)
            except Exception:  # the other parts are worth having
                print(f"{part} FAILED\n{traceback.format_exc()}", flush=True)
                failed = True
            failed |= bench.has_failed
    sys.exit(failed)


if __name__ == "__main__":
    main()

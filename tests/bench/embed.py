"""`embed` for taggers on features: size and speed beside transformers, memory, and a whole corpus on a GPU.

python tests/bench/embed.py peer|memory|learn|gpu --model DIR --conll FILE [--count 1000] [--repeat 3] [--device auto]

FILE is CoNLL-2003's training set. peer: the first `count` sentences, a row a word of the last four layers, by `bertcli
embed` and by transformers with `json.dumps` of the same numbers at six decimals; of whole processes, by turns, seconds
and the bytes that they write, of each of which ours is to be a fifth. Both compute the same, on the same cores, and
the peer's lines take one core's time whatever there is beside it. memory: the most that all processes of `embed`
together hold for `count` sentences and for eight times as many. learn: the most memory of its own that `finetune
tagging --features` holds while it learns on those for two epochs; of the spool, which is mapped, there is as much
besides as there is room for. gpu: the whole file by `read conll` and `embed`, from file to file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

import zstandard
from text import BERTCLI, POLL, Run, Side, run

from bertcli.vectors import array_of

MEMORY = 8  # times as many sentences hold no more

PEER = """
import json, sys, torch, transformers
model, file, device = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(model)
network = transformers.AutoModel.from_pretrained(model).to(device).eval()
sentences = [json.loads(line)["words"] for line in open(file)]
order = sorted(range(len(sentences)), key=lambda index: -len(sentences[index]))
lines = [""] * len(sentences)
with torch.no_grad():
    for begin in range(0, len(order), 32):
        own = order[begin : begin + 32]
        words = [sentences[index] for index in own]
        inputs = tokenizer(words, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
        states = network(**inputs.to(device), output_hidden_states=True).hidden_states
        vectors = torch.cat(states[-4:], -1).cpu()
        for row, index in enumerate(own):
            ids = inputs.word_ids(row)
            firsts = [place for place, word in enumerate(ids) if word is not None and word != ids[place - 1]]
            numbers = [[round(number, 6) for number in vector] for vector in vectors[row, firsts].tolist()]
            lines[index] = json.dumps({"words": sentences[index], "vectors": numbers}) + "\\n"
sys.stdout.writelines(lines)
"""


class Bench:
    """A model, the sentences, and a folder for what is written."""

    def __init__(self, model: Path, conll: Path, folder: Path, device: str, repeat: int) -> None:
        self.model, self.conll, self.folder, self.repeat = model, conll, folder, repeat
        self.device = device
        self.embed = [*BERTCLI, "embed", "-m", str(model), "--layers", "concat4", "--device", device, "--quiet"]

    def sentences(self, count: int, *fields: str) -> Path:
        """Returns a file of the first sentences' words, and other fields; they come again where they are too few."""
        read, file = self.folder / "read.jsonl", self.folder / f"{count}.jsonl"
        run(Side([[*BERTCLI, "read", "conll", str(self.conll), "--plain"]]), read)
        with read.open() as lines, file.open("w") as words:
            for line in itertools.islice(itertools.cycle(list(lines)), count):
                record = json.loads(line)
                words.write(json.dumps({name: record[name] for name in ("words", *fields)}) + "\n")
        return file

    def peer(self, count: int) -> None:
        """Print size and time of both sides, and the ratios."""
        file = str(self.sentences(count))
        device = "cuda" if self.device == "auto" and _has_card() else "cpu"
        sides = {
            "bertcli": Side([[*self.embed, "--precision", "fp32", file]]),  # as the peer
            "transformers": Side([[sys.executable, "-c", PEER, str(self.model), file, device]]),
        }
        runs: dict[str, list[Run]] = {name: [] for name in sides}
        for _ in range(self.repeat):
            for name, side in sides.items():
                runs[name].append(run(side, self.folder / name))
        seconds = {name: median(each.seconds for each in own) for name, own in runs.items()}
        busy = {name: median(each.busy for each in own) for name, own in runs.items()}
        sizes = {name: (self.folder / name).stat().st_size for name in sides}
        cores = len(os.sched_getaffinity(0))
        for name in sides:
            print(f"{name:<14}{seconds[name]:8.1f} s, cpu {busy[name]:6.1f} s, {sizes[name] / 1e6:8.1f} MB", flush=True)
        slower, busier, larger = (each["transformers"] / each["bertcli"] for each in (seconds, busy, sizes))
        told = f"{slower:.1f} times as fast (cpu {busier:.1f}), {larger:.1f} times as small"
        print(f"{count} sentences, {device}, {cores} cores, medians of {self.repeat}: {told}; {self.difference()}")

    def difference(self) -> str:
        """Returns how far the numbers of both sides are apart, at most."""
        with zstandard.open(self.folder / "bertcli", "rt") as ours, (self.folder / "transformers").open() as theirs:
            pairs = ((array_of(json.loads(line)["vectors"]) for line in lines) for lines in (ours, theirs))
            most = max(float(abs(one - other).max()) for one, other in zip(*pairs, strict=True))
        return f"the numbers differ by {most:.1e} at most"

    def memory(self, count: int) -> None:
        """Print the most megabytes held for so many sentences, and for more."""
        for number in (count, MEMORY * count):
            made = run(Side([[*self.embed, str(self.sentences(number))]]), self.folder / "out")
            print(f"{number} sentences: {made.peaks[0]:.0f} MB at most, {made.seconds:.1f} s", flush=True)

    def learn(self, count: int) -> None:
        """Print the most megabytes of its own that a tagger holds on the vectors of so many sentences, and of more."""
        for number in (count, MEMORY * count):
            features, out = self.folder / "features", self.folder / "tagger"
            run(Side([[*self.embed, str(self.sentences(number, "labels"))]]), features)
            words = ["finetune", "tagging", str(features), "--features", "-o", str(out), "--force", "--quiet"]
            words += ["--epochs", "2", "--bilstm-units", "64", "--device", self.device, "--workers", "1"]
            with subprocess.Popen([*BERTCLI, *words], stdout=subprocess.DEVNULL) as process:
                most = 0.0
                while process.poll() is None:
                    most = max(most, _own(process.pid))
                    time.sleep(POLL)
            vectors = features.stat().st_size / 1e6
            print(f"{number} sentences, vectors of {vectors:.0f} MB: {most:.0f} MB at most of its own", flush=True)

    def gpu(self) -> None:
        """Print the seconds for the whole file, and what came of it."""
        read = [*BERTCLI, "read", "conll", str(self.conll)]
        for _ in range(self.repeat):
            made = run(Side([read, self.embed]), self.folder / "out")
            size = (self.folder / "out").stat().st_size / 1e6
            peaks = " + ".join(f"{peak:.0f}" for peak in made.peaks)
            print(f"read conll | embed: {made.seconds:.1f} s, cpu {made.busy:.1f} s, {size:.0f} MB, {peaks} MB held")


def _own(process: int) -> float:
    """Returns the megabytes that a process holds, without the files that it has mapped."""
    with suppress(OSError, IndexError):  # it has ended
        return int(Path(f"/proc/{process}/status").read_text().split("RssAnon:")[1].split()[0]) / 1000
    return 0


def _has_card() -> bool:
    import torch

    return torch.cuda.is_available()


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=["peer", "memory", "learn", "gpu"])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--conll", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(asked.model, asked.conll, Path(folder), asked.device, asked.repeat)
        bench.gpu() if asked.which == "gpu" else getattr(bench, asked.which)(asked.count)


if __name__ == "__main__":
    main()

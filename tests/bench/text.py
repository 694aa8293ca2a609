"""The text commands beside what one would write without them, in one run: seconds, ratios, memory.

python tests/bench/text.py DATA [--only ids,tokenize,vocab,pairs] [--repeat 3]: prints for each side of a comparison the
median of its runs, ours and the peers' by turns, the fastest and the slowest, megabytes of text a second, the processor
time with loading included, and for each stage of a pipe the peak memory of all its processes; then the ratios, and what
they have to be.

The peers are in peers.py. Each run is a process of its own, so that cold is cold; memory is read in Linux's /proc.
"""

from __future__ import annotations

import argparse
import io
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import NamedTuple

import zstandard

PYTHON, HERE = sys.executable, Path(__file__).parent
BERTCLI = [PYTHON, "-m", "bertcli"]
PEERS = [PYTHON, str(HERE / "peers.py")]
CORES = len(os.sched_getaffinity(0))
ONE_THREAD = {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
POLL = 0.02  # seconds


# -- one run ---------------------------------------------------------------------------------------------------------


class Side(NamedTuple):
    """What runs: the stages of a pipe, and whether `tokenizers` is held to one thread in each."""

    stages: list[list[str]]
    one_thread: bool = False
    prints_seconds: bool = False  # of its own, because what it loads before does not count


class Run(NamedTuple):
    """Seconds of wall time, seconds of all cores together, and the megabytes that each stage held at its peak."""

    seconds: float
    busy: float
    peaks: list[float]


def run(side: Side, out: Path) -> Run:
    """Returns the figures of one run, which writes the file `out`."""
    environment = os.environ | (ONE_THREAD if side.one_thread else {})
    begun, before = time.perf_counter(), busy()
    processes: list[subprocess.Popen[bytes]] = []
    with out.open("wb") as file:
        for number, stage in enumerate(side.stages, 1):
            source = processes[-1].stdout if processes else subprocess.DEVNULL
            sink = file if number == len(side.stages) else subprocess.PIPE
            processes.append(subprocess.Popen(stage, stdin=source, stdout=sink, env=environment))
    for process in processes:
        if process.stdout:
            process.stdout.close()  # the next stage alone reads it
    peaks = [0.0] * len(processes)
    while any(process.poll() is None for process in processes):
        peaks = [max(peak, held(process.pid)) for peak, process in zip(peaks, processes, strict=True)]
        time.sleep(POLL)
    seconds = time.perf_counter() - begun
    if failed := [process.args for process in processes if process.returncode]:
        sys.exit(f"failed: {failed}")
    return Run(float(out.read_text()) if side.prints_seconds else seconds, busy() - before, peaks)


def busy() -> float:
    """Returns the seconds of processor time that all ended processes took."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def held(process: int) -> float:
    """Returns the most megabytes that a process and those it started have held; what they share counts twice."""
    with suppress(OSError, IndexError):  # it has ended
        status = Path(f"/proc/{process}/status").read_text()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        return int(status.split("VmHWM:")[1].split()[0]) / 1000 + sum(held(int(child)) for child in children)
    return 0


# -- side by side ----------------------------------------------------------------------------------------------------


class Bench:
    """The files to measure on, and how often each side runs."""

    def __init__(self, data: Path, folder: Path, repeat: int) -> None:
        self.folder, self.repeat = folder, repeat
        self.vocabulary = str(data / "vocab" / "bert-base-uncased-vocab.txt")
        self.modern, self.books = (data / "corpus" / f"{name}.txt.zst" for name in ("modern", "books"))

    def compare(self, title: str, texts: list[Path], sides: dict[str, Side]) -> dict[str, float]:
        """Print the figures of each side, whose last output stays in `folder / name`; returns its median seconds."""
        megabytes = sum(map(size, texts)) / 1e6
        print(f"\n{title} ({megabytes:.1f} MB of text)")
        runs: dict[str, list[Run]] = {name: [] for name in sides}
        for _ in range(self.repeat):
            for name, side in sides.items():
                runs[name].append(run(side, self.folder / name))
        for name, each in runs.items():
            print(f"  {name:<36}{figures(each, megabytes)}", flush=True)
        return {name: median(one.seconds for one in each) for name, each in runs.items()}


def figures(runs: list[Run], megabytes: float) -> str:
    """Returns the medians of some runs, with the range of their seconds, as a row of the table."""
    seconds = [one.seconds for one in runs]
    middle, spread = median(seconds), f"({min(seconds):.1f}-{max(seconds):.1f})"
    peaks = " + ".join(f"{max(stage):.0f}" for stage in zip(*(one.peaks for one in runs), strict=True))
    cpu = median(one.busy for one in runs)
    return f"{middle:7.2f} s {spread:<14}{megabytes / middle:6.1f} MB/s   cpu {cpu:6.1f} s   peak {peaks} MB"


def ratio(seconds: dict[str, float], slow: str, fast: str, goal: str = "") -> None:
    print(f"  {slow} : {fast} = {seconds[slow] / seconds[fast]:.2f}{goal and f'   ({goal})'}", flush=True)


def contents(path: Path) -> Iterator[bytes]:
    """Yields the pieces of a compressed file."""
    with zstandard.open(path, "rb") as file:
        while piece := file.read(1 << 20):
            yield piece


def size(path: Path) -> int:
    return sum(map(len, contents(path)))


def digest(path: Path) -> str:
    """Returns a hash of what a compressed file holds."""
    found = blake2b()
    for piece in contents(path):
        found.update(piece)
    return found.hexdigest()


# -- the parts -------------------------------------------------------------------------------------------------------


def ids(bench: Bench) -> None:
    """Ids of lines in memory, from cold."""
    script, both = [PYTHON, str(HERE / "ids.py")], [bench.modern, bench.books]

    def side(who: str, workers: int, texts: list[Path]) -> Side:
        stage = [*script, who, str(workers), bench.vocabulary, *map(str, texts)]
        return Side([stage], one_thread=workers == 1, prints_seconds=True)

    one = {"bertcli": side("ours", 1, [bench.modern]), "encode_batch_fast": side("theirs", 1, [bench.modern])}
    seconds = bench.compare("ids, modern", [bench.modern], one)
    ratio(seconds, "encode_batch_fast", "bertcli", "at least 4, aim 8")
    two = {
        "bertcli": side("ours", 1, both),
        "encode_batch_fast": side("theirs", 1, both),
        "bertcli, 2 workers": side("ours", 2, both),
        "encode_batch_fast, all cores": side("theirs", 2, both),
    }
    seconds = bench.compare("ids, modern and books", both, two)
    ratio(seconds, "encode_batch_fast", "bertcli", "at least 5, aim 8")
    ratio(seconds, "bertcli", "bertcli, 2 workers", "at least 1.6")
    ratio(seconds, "encode_batch_fast, all cores", "bertcli, 2 workers")


def tokenize(bench: Bench) -> None:
    """Lines to records with tokens, ids and offsets, from compressed file to compressed file."""
    files = [bench.vocabulary, str(bench.modern)]
    ours = [*BERTCLI, "tokenize", "--quiet", "-v", *files]
    without, whole = [*PEERS, "tokenize_without_offsets", *files], [*PEERS, "tokenize", *files]
    sides = {
        "bertcli tokenize": Side([ours], one_thread=True),
        "bertcli tokenize --workers 2": Side([[*ours, "--workers", "2"]]),
        "encode_batch_fast, no offsets": Side([without], one_thread=True),
        "encode_batch": Side([whole], one_thread=True),
        "encode_batch_fast, all cores": Side([without]),
        "encode_batch, all cores": Side([whole]),
    }
    seconds = bench.compare("tokenize, file to file", [bench.modern], sides)
    ratio(seconds, "encode_batch_fast, no offsets", "bertcli tokenize", "at least 1.5")
    ratio(seconds, "encode_batch", "bertcli tokenize", "at least 1.5")
    ratio(seconds, "encode_batch_fast, all cores", "bertcli tokenize --workers 2")
    ratio(seconds, "encode_batch, all cores", "bertcli tokenize --workers 2")
    outputs = {digest(bench.folder / name) for name in sides if "fast" not in name}
    print(f"  the same records from all that have offsets: {len(outputs) == 1}")
    more = [*ours, str(bench.books)]
    more_sides = {"bertcli tokenize": Side([more]), "bertcli tokenize --workers 2": Side([[*more, "--workers", "2"]])}
    seconds = bench.compare("tokenize, file to file, two workers", [bench.modern, bench.books], more_sides)
    ratio(seconds, "bertcli tokenize", "bertcli tokenize --workers 2", "at least 1.6")


def vocab(bench: Bench) -> None:
    """A vocabulary of 30,000 pieces, both cores for the peer."""
    texts = [bench.modern, bench.books]
    ours, files = [*BERTCLI, "vocab", "--quiet", "--size", "30000"], list(map(str, texts))
    sides = {
        "bertcli vocab --workers 1": Side([[*ours, *files, "--workers", "1"]]),
        "bertcli vocab --workers 2": Side([[*ours, *files, "--workers", "2"]]),
        "BertWordPieceTokenizer": Side([[*PEERS, "vocab", "30000", *files]]),
    }
    seconds = bench.compare("vocab, 30,000 pieces; peak under 1000 MB", texts, sides)
    for name in list(sides)[:2]:
        ratio(seconds, "BertWordPieceTokenizer", name, "more than 1")
    shuffled, other = bench.folder / "shuffled.txt.zst", bench.folder / "vocabulary of shuffled lines"
    run(Side([[*PEERS, "shuffled", *files]]), shuffled)
    run(Side([[*ours, str(shuffled), "--workers", "2"]]), other)
    outputs = {path.read_bytes() for path in (other, *(bench.folder / name for name in list(sides)[:2]))}
    print(f"  the same bytes from 1 and 2 workers and from shuffled lines: {len(outputs) == 1}")


def pairs(bench: Bench) -> None:
    """100 MB of text to masked pairs, and what becomes of memory with twice as much."""
    text, documents = bench.folder / "text.zst", bench.folder / "documents.jsonl.zst"
    cut(bench.books, text, 100_000_000)
    read = [*BERTCLI, "read", "text", "--quiet", str(text)]
    run(Side([read]), documents)
    from_stdin, mask = ([*BERTCLI, name, "--quiet", "-v", bench.vocabulary] for name in ("pairs", "mask"))
    from_file, script = [*from_stdin, str(documents)], "create_pretraining_data in Python"
    sides = {
        "pairs | mask": Side([from_file, mask]),
        "pairs | mask --workers 2": Side([from_file, [*mask, "--workers", "2"]]),
        "read text | pairs | mask": Side([read, from_stdin, mask]),
        script: Side([[*PEERS, "pretraining_data", bench.vocabulary, str(text)]]),
    }
    title = "pairs and masks, file to file: pairs | mask in under 25 s, aim 15; each stage under 600 MB"
    seconds = bench.compare(title, [text], sides)
    ratio(seconds, script, "read text | pairs | mask")
    twice = Side([[*from_file, str(documents)], mask])
    bench.compare("twice the text, for its memory", [text, text], {"pairs | mask, twice": twice})


def cut(source: Path, target: Path, least: int) -> None:
    """Write the first documents of a compressed text, until they make so many bytes."""
    with zstandard.open(source, "rb") as file, zstandard.open(target, "wb") as out:
        written = 0
        for line in io.BufferedReader(file):
            written += out.write(line)
            if written >= least and line == b"\n":
                break


# -- the whole -------------------------------------------------------------------------------------------------------

PARTS = {part.__name__: part for part in (ids, tokenize, vocab, pairs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    packages = (f"{name} {version(name)}" for name in ("tokenizers", "zstandard", "orjson", "numpy"))
    print(f"{CORES} cores, {platform.machine()}, Python {platform.python_version()}, {', '.join(packages)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(arguments.data, Path(folder), arguments.repeat)
        for name in arguments.only.split(","):
            PARTS[name](bench)


if __name__ == "__main__":
    main()

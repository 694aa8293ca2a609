"""The feed alone: from a file of pairs to packed batches on the host, as `pretrain` gets them, without any training.

python tests/bench/feed.py VOCAB PAIRS [PAIRS...] [--workers 1,2,6] [--batch-size 512] [--max-tokens 32768]

For each file and number of workers it prints tokens a second and the processor time of a million tokens: of all
processes, and of the one that trains, in the first epoch (from the stream) and in the second (from the spool). The
others share theirs among the cores that there are; the training process's own is what training has to wait for. Last
come the seconds that it takes to read the file at all, and those in which a resumed run passes over what it has read.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bertcli.commands.streams import Streams
from bertcli.engine.feed import Feed
from bertcli.engine.intake import Intake, Read, Reading
from bertcli.engine.kept import Kept
from bertcli.engine.packing import Step, prepared
from bertcli.engine.settings import Input
from bertcli.engine.spool import Learning, Spool
from bertcli.parallel import Pool
from bertcli.tasks.pretraining import Pretraining
from bertcli.text.wordpiece import WordPiece

Steps = Iterator[tuple[Reading, Step]]


def reading(task: Pretraining, file: str, pool: Pool) -> Read:
    """Returns what reads a file."""
    return Streams((file,), plain=True, quiet=True, on_error="stop", text=False).marked(Learning(task), pool)


def feed(vocab: Path, file: str, workers: int, batch_size: int, max_tokens: int, folder: Path) -> Steps:
    """Returns the steps of a file."""
    task, pool = Pretraining(WordPiece.open(vocab)[0], 512), Pool(workers)
    make = partial(prepared, task, max_tokens=max_tokens)
    return Feed(reading(task, file, pool), Spool(folder), 0, pool).steps(make, batch_size)


def measure_again(vocab: Path, file: str, workers: int, folder: Path) -> None:
    """Print the seconds of reading a file, and of passing over what was read of it."""
    task, known, seconds = Pretraining(WordPiece.open(vocab)[0], 512), Input(), []
    for is_resumed in (False, True):
        begun = time.perf_counter()
        with Pool(workers) as pool:
            spool = Kept(folder / "spool", {}, resume=is_resumed)
            intake = Intake(reading(task, file, pool), spool)
            intake.begin(known, int(is_resumed))
            for _ in intake.arrivals():
                pass
            spool.flush()
        spool.release()
        known, told = intake.reading
        seconds.append(time.perf_counter() - begun)
    assert told.startswith("the same")
    print(f"  read in {seconds[0]:.1f} s, passed over in {seconds[1]:.1f} s, {spool.ends[-1] / 1e6:.0f} MB of spool")


def busy() -> tuple[float, float]:
    """Returns the processor time of this process, and of those that it has started and what they have."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime, sum(map(seconds_of, below(os.getpid())))


def below(process: int) -> list[int]:
    children = list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))
    return children + [each for child in children for each in below(child)]


def seconds_of(process: int) -> float:
    """Returns the processor time of a process and of those of its own that have ended."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def measure(title: str, steps: Steps, examples: int, batch_size: int) -> None:
    """Print the figures of as many steps as so many examples make."""
    tokens, begun, before = 0, time.perf_counter(), busy()
    for _ in range(examples // batch_size):
        tokens += next(steps)[1].tokens
    seconds, after = time.perf_counter() - begun, busy()
    own, others = (1e6 * (late - early) / tokens for early, late in zip(before, after, strict=True))
    rate = f"{tokens / seconds / 1000:8.0f} k tokens/s"
    print(f"  {title:<14}{rate}   a million tokens: {own + others:5.2f} s of all, {own:6.3f} s of the training process")


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocab", type=Path)
    parser.add_argument("pairs", nargs="+")
    parser.add_argument("--workers", default="1,2,6")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--max-tokens", type=int, default=32_768)
    given = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores; 1,000 k tokens/s need less than 1 s of the training process's time")
    for file in given.pairs:
        streams = Streams((file,), plain=True, quiet=True, on_error="stop", text=False)
        count = sum(1 for lines in streams.lines() for _ in lines)
        for workers in map(int, given.workers.split(",")):
            print(f"{file}, {count} pairs, {workers} workers")
            with tempfile.TemporaryDirectory() as folder:
                steps = feed(given.vocab, file, workers, given.batch_size, given.max_tokens, Path(folder))
                for title in ("first epoch", "second epoch"):
                    measure(title, steps, count, given.batch_size)
                del steps
                measure_again(given.vocab, file, workers, Path(folder))


if __name__ == "__main__":
    main()

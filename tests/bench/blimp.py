"""How often a pre-trained model finds the good sentence of BLiMP's pairs likelier, and how fast it tells.

python tests/bench/blimp.py MODEL BLIMP.jsonl.zst [--pairs 1000] [--device auto] [--precision auto] [--max-tokens N]

Takes the first pairs of each paradigm through `read blimp | predict --pseudo-likelihood | score pairs`; BLIMP is one
file with all paradigms. Prints the accuracy of each phenomenon and of all in percent (a coin has 50), and sentences a
second of the three processes from start to end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bertcli.frames import decompressed
from bertcli.stream import loads

PIPE = 'bertcli read blimp "$0" | bertcli predict --pseudo-likelihood --quiet "$@" | bertcli score pairs'


def first(source: Path, file: Path, pairs: int) -> int:
    """Returns how many pairs were written to a file: the first so many of each paradigm."""
    seen: Counter[str] = Counter()
    with source.open("rb") as whole, file.open("wb") as part:
        for line in b"".join(decompressed(whole)).splitlines(keepends=True):
            paradigm = loads(line)["UID"]
            if seen[paradigm] < pairs:
                seen[paradigm] += 1
                part.write(line)
    return seen.total()


def scored(file: Path, options: list[str]) -> tuple[dict[str, Any], float]:
    """Returns the score of the pairs in a file, and the seconds that it took."""
    begun = time.perf_counter()
    line = ["bash", "-o", "pipefail", "-c", PIPE, str(file), *options]
    done = subprocess.run(line, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout), time.perf_counter() - begun


def main() -> None:
    """Score the pairs and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("blimp", type=Path)
    parser.add_argument("--pairs", type=int, default=1000, help="of each paradigm")
    for name in ("--device", "--precision", "--max-tokens"):
        parser.add_argument(name)
    asked = parser.parse_args()
    given = {f"--{name.replace('_', '-')}": getattr(asked, name) for name in ("device", "precision", "max_tokens")}
    options = [word for name, value in given.items() if value is not None for word in (name, value)]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.jsonl"
        count = first(asked.blimp, file, asked.pairs)
        score, seconds = scored(file, ["-m", str(asked.model), *options])
    for name, group in score["phenomena"].items():
        print(f"{name:<26}{100 * group['accuracy']:>6.1f}  of {group['total']:,} pairs")
    print(f"{'all':<26}{100 * score['accuracy']:>6.1f}  of {score['total']:,} pairs")
    print(f"{2 * count / seconds:,.0f} sentences/s, {seconds:.1f} s from start to end")


if __name__ == "__main__":
    main()

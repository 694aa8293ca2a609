"""Masked pairs, enough of them that a run sees none twice."""

from __future__ import annotations

import hashlib
import math
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard

BERTCLI = f"{sys.executable} -m bertcli"


class Supply:
    """Masked pairs of some texts, made as often as needed and kept in a folder."""

    def __init__(self, vocabulary: str, texts: list[str], folder: Path, workers: int) -> None:
        """Take the texts, plain or compressed, a sentence a line; `workers` is the number of processes."""
        self.vocabulary, self.texts, self.folder, self.workers = vocabulary, texts, folder, workers
        sizes = [(name, Path(name).stat().st_size) for name in [vocabulary, *texts]]
        self._told: dict[tuple[int, int], list[str]] = {}
        self._key = hashlib.blake2b(repr(sizes).encode(), digest_size=4).hexdigest()

    def records(self, length: int, needed: int) -> list[str]:
        """Returns files of at least so many masked pairs of at most `length` tokens, and says how many.

        Where one pass over the texts gives too few, they are cut and masked again from other seeds.
        """
        if (length, needed) in self._told:
            return self._told[length, needed]
        files = [self.made(length, 0, self.workers)]
        made = count(files[0])
        passes = math.ceil(needed / max(1, made))
        at_once = max(1, min(passes - 1, self.workers))
        with ThreadPoolExecutor(at_once) as pool:
            files += pool.map(lambda seed: self.made(length, seed, self.workers // at_once), range(1, passes))
        made += sum(map(count, files[1:]))
        while made < needed:  # a pass may give a few less than the first one
            files.append(self.made(length, len(files), self.workers))
            made += count(files[-1])
        again = f", the text {len(files)} times over, each time cut and masked anew" if len(files) > 1 else ""
        print(f"{made:,} records of at most {length} tokens made, {needed:,} used, none twice{again}", flush=True)
        self._told[length, needed] = list(map(str, files))
        return self._told[length, needed]

    def made(self, length: int, seed: int, workers: int) -> Path:
        """Returns the file of one pass over the texts."""
        out = self.folder / f"{self._key}-{length}-{seed}.jsonl.zst"
        if not out.exists():
            own, vocabulary = (
                f"--seed {seed} --workers {max(1, workers // 2)} --quiet",
                f"-v {shlex.quote(self.vocabulary)}",
            )
            line = f"{BERTCLI} read text --quiet {shlex.join(self.texts)}"
            line += f" | {BERTCLI} pairs {own} {vocabulary} --max-length {length} | {BERTCLI} mask {own} {vocabulary}"
            part = out.with_suffix(".part")
            subprocess.run(["bash", "-o", "pipefail", "-c", f"{line} > {shlex.quote(str(part))}"], check=True)
            part.rename(out)
        return out


def count(file: Path) -> int:
    """Returns the number of a compressed file's lines."""
    with zstandard.open(file, "rb") as stream:
        return sum(piece.count(b"\n") for piece in iter(lambda: stream.read(1 << 20), b""))

"""Seconds from text to ids, from cold, ours or theirs: a process of its own for tests/bench/text.py.

python tests/bench/ids.py ours|theirs WORKERS VOCAB FILE...: the vocabulary and the lines of the text are there before.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from peers import batches, lines, open_tokenizer

from bertcli.parallel import Pool
from bertcli.text.batch import BatchEncoder
from bertcli.text.wordpiece import WordPiece


def ours(vocabulary: str, texts: Iterator[str], workers: int) -> Callable[[], Iterator[Any]]:
    encoder = BatchEncoder(WordPiece.open(Path(vocabulary))[0])

    def encode(joined: str) -> Any:  # one string is sent to a worker faster than ten thousand
        encodings = encoder.encode(joined.split("\n"))
        return encodings.ids, encodings.bounds

    joined = ["\n".join(batch) for batch in batches(texts, 10_000)]

    def shared() -> Iterator[Any]:
        with Pool(workers) as pool:
            yield from pool.ordered(encode, joined)

    return shared


def theirs(vocabulary: str, texts: Iterator[str], workers: int) -> Callable[[], Iterator[Any]]:
    encode = partial(open_tokenizer(vocabulary).encode_batch_fast, add_special_tokens=False)
    return partial(map, encode, list(batches(texts, 1000)))


def main(side: str, workers: str, vocabulary: str, *paths: str) -> None:
    """Print the seconds; how many threads the peer has, its environment says."""
    make = {"ours": ours, "theirs": theirs}[side](vocabulary, chain.from_iterable(map(lines, paths)), int(workers))
    begun = time.perf_counter()
    for _ in make():
        pass
    print(time.perf_counter() - begun)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A record's own random numbers: the same on every machine, whatever records came before it."""

from __future__ import annotations

import hashlib
import random


def below(limit: int, rng: random.Random) -> int:
    """Returns a random whole number from 0 to below the limit.

    Made of `random()`, which alone among a generator's methods gives the same numbers in every version of Python.
    """
    return int(rng.random() * limit)


def randomness(seed: int, epoch: int, key: str) -> random.Random:
    """Returns the random numbers of one record in one epoch (or copy), the same on every machine and version.

    They depend on nothing else, so that a record can be made again without replaying the stream.
    """
    digest = hashlib.blake2b(f"{seed} {epoch} {key}".encode(), digest_size=8).digest()
    return random.Random(int.from_bytes(digest, "big"))

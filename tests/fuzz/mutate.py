"""Hostile inputs out of harmless ones: damage to bytes, lines, JSON values, encodings and compressed frames.

Everything is drawn from the generator handed in, so that a seed makes the same inputs again.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import zstandard

Mutation = Callable[[random.Random, bytes], bytes]

DEPTHS = (30, 200, 900, 1020, 100_000)
BOMB = 1 << 22  # bytes of content; what is refused for its size is refused there, see `run.small_bounds`
# JSON as it is written, also where no program would write it so.
VALUES = [
    *("null", "true", "false", "0", "-0", "-0.0", "-1", "1", "2", "0.5", "1e308", "1e400", "-1e400", "1e-400"),
    *("NaN", "Infinity", "-Infinity", "01", "1.", "+1", "0x10", "1_000", "'a'", "undefined", ""),
    *map(str, (2**24, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400)),
    "9" * 5000,
    *('""', '" "', '"a"', '"1"', r'"\n"', r'"\u0000"', r'"\ud800"', r'"\udfff\ud800"', r'"\u001b[31m\u202e"'),
    *(r'"\u0301\u0323"', '"[MASK]"', '"[CLS]"', '"İß\\ufb03"', '"\\ufeff"', '"../../../etc/passwd"', '"/etc/passwd"'),
    *('"O"', '"B-"', '"-"', '"model.safetensors"', '"F32"', '"BertForSequenceClassification"', '"regression"'),
    '"' + "a" * 100_000 + '"',
    '"' + "e\u0301 " * 20_000 + '"',
    *("[]", "{}", "[[]]", "[null]", "[1,2]", '["a","b"]', '[["a"],["b"]]', '[""]', '{"a":1}', '{"text":"a","start":0}'),
    *('{"":""}', '{"a":1,"a":2}', "[0,0]", "[-1]", "[1.5]", "[true]", f"[{'0,' * 5000}0]", f"[{'[],' * 5000}[]]"),
    *("[" * depth + "]" * depth for depth in DEPTHS),
    *('{"a":' * depth + "1" + "}" * depth for depth in DEPTHS),
]
PIECES = [b"\0", b"\n", b"\r", b"\r\n", b"\t", b" ", b'"', b'""', b",", b"\\", b"{", b"}", b"[", b"]", b"\x1b[2J"]
PIECES += [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028\u0085\xa0".encode(), b"\xf0\x9f\x98\x80"]
PIECES += [b"-DOCSTART- -X- O O\n", b"1e400", b"-1", b"nan", b"9" * 5000, b"a" * 70_000, b"\n" * 5000, b"\t" * 5000]
ENCODINGS = ("utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp037")

# -- bytes ----------------------------------------------------------------------------------------------------------


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def drop(rng: random.Random, data: bytes) -> bytes:
    start, end = _slice(rng, data)
    return data[:start] + data[end:]


def repeat(rng: random.Random, data: bytes) -> bytes:
    start, end = _slice(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 2, 50)) + data[end:]


def insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + rng.choice([*PIECES, rng.randbytes(8)]) + data[place:]


def _slice(rng: random.Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 4, 64, 1024)))


# -- lines and encodings --------------------------------------------------------------------------------------------


def shuffle(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def columns(rng: random.Random, data: bytes) -> bytes:
    """Returns the data with a line's columns taken away, added to or put in another order."""
    lines = data.split(b"\n")
    number = rng.randrange(len(lines))
    mark = rng.choice((b"\t", b",", b" "))
    cells = lines[number].split(mark)
    rng.shuffle(cells)
    lines[number] = mark.join(cells[: rng.randrange(len(cells) + 1)] * rng.choice((1, 1, 2, 3000)))
    return b"\n".join(lines)


def ends(rng: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\n", b"\n \n", b"\v")))


def encoded(rng: random.Random, data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")


# -- JSON -----------------------------------------------------------------------------------------------------------

HOLE = "\x00hole\x00"


def value(rng: random.Random, data: bytes) -> bytes:
    """Returns the data with a value of a line, or of the whole, replaced by a hostile one."""
    lines = [data] if rng.random() < 0.5 and _parsed(data) is not None else data.split(b"\n")
    number = rng.randrange(len(lines))
    tree = _parsed(lines[number])
    if tree is None:
        return flip(rng, data)
    place, key = rng.choice([*_places(tree), (None, None)])
    if place is None:
        tree = HOLE
    elif rng.random() < 0.15:
        del place[key]
    elif isinstance(place, dict) and rng.random() < 0.2:
        place[HOLE] = place[key]  # a name that is not expected, or there twice
    else:
        place[key] = HOLE
    text = json.dumps(tree, ensure_ascii=False)
    hole = json.dumps(HOLE, ensure_ascii=False)
    name = json.dumps(rng.choice(list(place))) if isinstance(place, dict) and len(place) else '"a"'
    new = name if f"{hole}:" in text else rng.choice(VALUES)
    lines[number] = text.replace(hole, new).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def _parsed(data: bytes) -> Any:
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict | list) else None


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each list or object in a value, with an index or name in it."""
    waiting = [tree]
    while waiting:
        inner = waiting.pop()
        for key in range(len(inner)) if isinstance(inner, list) else list(inner):
            yield inner, key
            if isinstance(inner[key], dict | list):
                waiting.append(inner[key])


# -- safetensors ----------------------------------------------------------------------------------------------------

LENGTHS = (0, 1, 7, 2**24, 100_000_000, 2**31, 2**63, 2**64 - 1)


def safetensors(rng: random.Random, data: bytes) -> bytes:
    """Returns a file of tensors whose header tells another length, or has a hostile value."""
    length = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + length], data[8 + length :]
    if rng.random() < 0.1:
        return rng.choice(LENGTHS).to_bytes(8, "little") + header + body
    header = value(rng, header)
    return len(header).to_bytes(8, "little") + header + body


# -- frames ---------------------------------------------------------------------------------------------------------


def compressed(rng: random.Random, data: bytes) -> bytes:
    """Returns the data as a frame or two, perhaps after one that is to be skipped, and perhaps damaged."""
    middle = rng.randrange(len(data) + 1)
    parts = [data] if rng.random() < 0.5 else [data[:middle], data[middle:]]
    whole = b"".join(rng.choice((_zstd, _gzip))(part) for part in parts)
    if rng.random() < 0.3:
        size = rng.choice((0, 5, 1 << 31))
        whole = b"\x5a\x2a\x4d\x18" + size.to_bytes(4, "little") + b"12345"[:size] + whole
    return rng.choice((flip, cut, drop, insert, lambda _, same: same))(rng, whole)


def bomb(rng: random.Random, data: bytes) -> bytes:
    """Returns a small frame of much repetition: one line, or very many."""
    unit = rng.choice((b"a", b" ", b"\n", b'"', b"[", b"a\n", b'{"a":1}\n', b"a\tO\n", b",", b"\t"))
    return _zstd(data + unit * (2 * BOMB // (8 if b"\n" in unit else 1) // len(unit)))


def forged(rng: random.Random, data: bytes) -> bytes:
    """Returns a frame whose head tells a window or a size that it does not have."""
    frame = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    whole = bytearray(frame.compress(data) + frame.flush())
    if rng.random() < 0.5:
        whole[5] = rng.randrange(256)  # the window
        return bytes(whole)
    size = rng.choice((0, 1, len(data) + 1, 1 << 27, 1 << 31, 1 << 40, (1 << 64) - 1))
    return bytes(whole[:4]) + b"\xe4" + size.to_bytes(8, "little") + bytes(whole[6:])


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


# -- all ------------------------------------------------------------------------------------------------------------

BYTES: tuple[Mutation, ...] = (flip, cut, drop, repeat, insert)
LINES: tuple[Mutation, ...] = (shuffle, columns, ends, encoded)
FRAMES: tuple[Mutation, ...] = (compressed, forged, bomb)


def mutated(rng: random.Random, data: bytes, kinds: tuple[Mutation, ...]) -> bytes:
    """Returns an input after one to three mutations."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(kinds)(rng, data)
    return data

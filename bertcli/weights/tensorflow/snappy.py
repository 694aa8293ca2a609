"""Snappy, in which TensorFlow may have compressed the blocks of an index; it is only ever read here.

A text is its length and then pieces: bytes as they are, or a copy of what has come before. The format is that of
`format_description.txt` in github.com/google/snappy.
"""

from __future__ import annotations

from bertcli.weights.tensorflow.varint import sliced, varint


def decompressed(data: bytes, limit: int) -> bytes:
    """Returns a text of at most `limit` bytes; raises `ValueError` where it is another, and never makes more."""
    length, at = varint(data, 0)
    if length > limit:
        raise ValueError(f"a block of {length} bytes")
    text = bytearray()
    while at < len(data):
        size, offset, at = _piece(data, at)
        if size > length - len(text) or offset > len(text):
            raise ValueError("a block that is not Snappy's")
        if offset:
            repeated = bytes(text[-offset:][:size])
            text += (repeated * (size // len(repeated) + 1))[:size]  # a copy may reach into itself
        else:
            text += sliced(data, at, size)
            at += size
    if len(text) != length:
        raise ValueError("a block that is cut")
    return bytes(text)


def _piece(data: bytes, at: int) -> tuple[int, int, int]:
    """Returns how long a piece is, how far back what it copies starts (0: its bytes follow) and where its tag ends."""
    tag, at = data[at], at + 1
    if tag & 3 == 0:
        size = tag >> 2
        if size >= 60:
            wide = size - 59
            size = int.from_bytes(sliced(data, at, wide), "little")
            at += wide
        return size + 1, 0, at
    if tag & 3 == 1:
        size, high, wide = (tag >> 2 & 7) + 4, tag >> 5 << 8, 1
    else:
        size, high, wide = (tag >> 2) + 1, 0, 2 if tag & 3 == 2 else 4
    offset = high | int.from_bytes(sliced(data, at, wide), "little")
    if offset == 0:
        raise ValueError("a block that copies from nowhere")
    return size, offset, at + wide

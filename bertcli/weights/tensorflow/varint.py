"""Numbers and parts of a text that nobody has checked, as LevelDB, Snappy and protobuf all write them."""

from __future__ import annotations

LIMIT = 1 << 64


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the number below 2^64 that starts there, seven bits a byte, and where it ends; raises `ValueError`."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        byte, at = data[at], at + 1
        number |= (byte & 127) << shift
        if byte < 128 and number < LIMIT:
            return number, at
    raise ValueError("a number that does not end")


def varints(*numbers: int) -> bytes:
    """Returns numbers as `varint` reads them, one after another."""
    data = bytearray()
    for number in numbers:
        while number > 127:
            data.append(number & 127 | 128)
            number >>= 7
        data.append(number)
    return bytes(data)


def sliced(data: bytes, at: int, size: int) -> bytes:
    """Returns so many bytes from there; raises `ValueError` where there are fewer."""
    if at + size > len(data):
        raise ValueError("a length that leads out of the file")
    return data[at : at + size]

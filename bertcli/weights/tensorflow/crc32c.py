"""CRC32C, the checksum of TensorFlow's files, of hundreds of megabytes a second with numpy alone.

A checksum's register is a polynomial over GF(2), and zeros that pass through it multiply it by a power of x. That is
linear: what becomes of a register is the XOR of what becomes of each of its bytes, and a table of 4 × 256 holds that.
So the register of two texts, joined, is that of the first after as many zeros as the second has bytes, XOR that of the
second; and a text can be folded: its first half, after as many zeros as the second half has bytes, XOR the second half
leaves the same register.

Here a text is rows of `LANES` words, each folded onto the next, so that one step of numpy moves all the lanes; the
last row is folded in halves, down to one word. Zeros before a text leave a register of 0 as it is: they fill up its
first row.

Legend: L lanes; T bytes of a text; a register is a number of 32 bits, the lowest of which is the highest power of x.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # Castagnoli's, reflected (RFC 3720, 12.1)
LANES = 1 << 13  # words of a row: their registers, and the tables below, stay in a core's cache
ONES = 0xFFFFFFFF

Words = NDArray[np.uint32]


def crc32c(data: bytes | NDArray[Any], before: int = 0) -> int:
    """Returns the checksum of a text [T], or of one joined to another whose checksum was `before`."""
    text = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data.reshape(-1).view(np.uint8)
    register = np.array([before ^ ONES], np.uint32)
    for power in range(len(text).bit_length()):
        if len(text) >> power & 1:
            register = _moved(register, _zeros(power))
    return int(register[0]) ^ _folded(text) ^ ONES


def masked(data: bytes | NDArray[Any]) -> int:
    """Returns the checksum as LevelDB stores it, turned and with something added: it may be in a text itself."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & ONES


@cache
def _zeros(power: int) -> Words:
    """Returns [4, 256], what 2^power zero bytes make of each byte of a register; the lowest byte is the first."""
    if power:
        half = _zeros(power - 1)
        return _moved(half.reshape(-1), half).reshape(4, 256)
    byte: Words = np.arange(256, dtype=np.uint32)
    leaves = byte
    for _ in range(8):
        leaves = np.where(leaves & 1, leaves >> 1 ^ POLYNOMIAL, leaves >> 1)
    return np.stack([leaves, byte, byte << 8, byte << 16])


def _moved(registers: Words, table: Words) -> Words:
    """Returns what zeros make of registers, by the table of their number."""
    moved = np.zeros_like(registers)
    for byte, made in enumerate(table):
        moved ^= made[registers >> 8 * byte & 255]
    return moved


@cache
def _row() -> tuple[Words, Words]:
    """Returns 2 × [65536], what a row of zeros makes of a register's lower and upper 16 bits: half the look-ups."""
    first, second, third, fourth = _zeros((4 * LANES).bit_length() - 1)
    return (second[:, None] ^ first).reshape(-1), (fourth[:, None] ^ third).reshape(-1)


def _folded(text: NDArray[np.uint8]) -> int:
    """Returns the register, 0 at first, that a text [T] leaves."""
    head = len(text) % (4 * LANES)
    lanes = np.frombuffer(bytes(4 * LANES - head) + text[:head].tobytes(), "<u4").astype(np.uint32)
    lower, upper = _row()
    low, high = np.empty(LANES, np.uint32), np.empty(LANES, np.uint32)
    for row in text[head:].view("<u4").reshape(-1, LANES):
        np.take(lower, lanes & 0xFFFF, out=low, mode="clip")
        np.take(upper, lanes >> 16, out=high, mode="clip")
        np.bitwise_xor(low, high, out=lanes)
        lanes ^= row
    while len(lanes) > 1:
        left, right = np.split(lanes, 2)
        lanes = _moved(left, _zeros((4 * len(right)).bit_length() - 1)) ^ right
    return int(_moved(lanes, _zeros(2))[0])

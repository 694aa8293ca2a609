"""The table of an index, as LevelDB has them (its `doc/table_format.md`): keys that ascend, each with a value.

    table    blocks of rows, a block of metadata, a block of handles, footer
    footer   handle of the block of metadata, handle of the block of handles, zeros up to 40 bytes, MAGIC
    handle   varint offset, varint size, of a block's content
    block    content, 1 byte (0 as it is, 1 Snappy), 4 bytes of a masked CRC32C of both
    content  rows, u32 offset of each restart, u32 how many restarts
    row      varint shared, varint unshared, varint size, the unshared end of the key, the value

A key begins with as many bytes as it shares with the one before it; at a restart it shares none. The block of handles
has a row for each block of rows, whose key is not below the block's last. Nothing that a table says is believed before
it is bounded: files come from anybody, and a few bytes could else be very many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bertcli.weights.tensorflow.crc32c import masked
from bertcli.weights.tensorflow.snappy import decompressed
from bertcli.weights.tensorflow.varint import sliced, varint, varints

Row = tuple[bytes, bytes]  # a key and its value

MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
FOOTER, TRAILER = 48, 5  # bytes: what ends a table, and what ends a block
BLOCK, RESTART = 1 << 12, 16  # bytes of a block that is written, and its rows from one restart to the next


def rows(table: bytes, limit: int) -> dict[bytes, bytes]:
    """Returns a table's values by their keys, of at most `limit` bytes together; raises `ValueError`."""
    footer = table[-FOOTER:]
    if len(footer) < FOOTER or not footer.endswith(MAGIC):
        raise ValueError("its end is another's")
    *_, at = _handle(footer, 0)
    offset, size, _ = _handle(footer, at)
    found: dict[bytes, bytes] = {}
    last, end, room = b"", 0, limit
    for bound, handle in _rows(_block(table, offset, size, limit)):
        offset, size, _ = _handle(handle, 0)
        if offset < end:
            raise ValueError("blocks that overlap")
        end = offset + size + TRAILER
        room -= len(bound)
        for key, value in _rows(_block(table, offset, size, limit)):
            room -= len(key) + len(value)
            if room < 0:
                raise ValueError(f"keys and values of more than {limit} bytes")
            if found and key <= last:
                raise ValueError("keys that do not ascend")
            found[key], last = value, key
    return found


def _handle(data: bytes, at: int) -> tuple[int, int, int]:
    """Returns a block's offset and size, and where its handle ends."""
    offset, at = varint(data, at)
    size, at = varint(data, at)
    return offset, size, at


def _block(table: bytes, offset: int, size: int, limit: int) -> bytes:
    """Returns a block's content."""
    stored = sliced(table, offset, size + TRAILER)
    if masked(stored[:-4]) != int.from_bytes(stored[-4:], "little"):
        raise ValueError("damaged: a block has another checksum than it tells")
    if stored[size] > 1:
        raise ValueError(f"a block of the unknown compression {stored[size]}")
    return decompressed(stored[:size], limit) if stored[size] else stored[:size]


def _rows(block: bytes) -> Iterator[Row]:
    """Yields the rows of a block's content; the restarts are for those who seek."""
    end = len(block) - 4
    end -= 4 * int.from_bytes(sliced(block, max(end, 0), 4), "little")
    if end < 0:
        raise ValueError("more restarts than a block has room for")
    key, at = b"", 0
    while at < end:
        shared, at = varint(block, at)
        unshared, at = varint(block, at)
        size, at = varint(block, at)
        middle = at + unshared
        if shared > len(key) or middle + size > end:
            raise ValueError("a length that leads out of its block")
        key = key[:shared] + block[at:middle]
        at = middle + size
        yield key, block[middle:at]


def table(rows: Iterable[Row]) -> bytes:
    """Returns a table with these rows, whose keys ascend."""
    written = bytearray()
    handles = [(block[-1][0], _written(written, _content(block, RESTART))) for block in _blocks(rows)]
    metadata = _written(written, _content([], RESTART))
    index = _written(written, _content(handles, restart=1))
    return bytes(written) + (metadata + index).ljust(FOOTER - len(MAGIC), b"\0") + MAGIC


def _blocks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    block: list[Row] = []
    size = 0
    for key, value in rows:
        if size > BLOCK:
            yield block
            block, size = [], 0
        block.append((key, value))
        size += len(key) + len(value)
    yield block


def _content(block: list[Row], restart: int) -> bytes:
    content, last = bytearray(), b""
    restarts = [0]
    for number, (key, value) in enumerate(block):
        shared = next((at for at, (a, b) in enumerate(zip(last, key, strict=False)) if a != b), len(last))
        if number and number % restart == 0:
            restarts.append(len(content))
            shared = 0
        content += varints(shared, len(key) - shared, len(value)) + key[shared:] + value
        last = key
    return bytes(content) + b"".join(each.to_bytes(4, "little") for each in [*restarts, len(restarts)])


def _written(table: bytearray, content: bytes) -> bytes:
    """Returns the handle of a block that is added to a table."""
    handle = varints(len(table), len(content))
    table += content + b"\0"
    table += masked(content + b"\0").to_bytes(4, "little")
    return handle

"""The content of zstd, gzip or plain files, told apart by their first bytes; frames joined, damage never passed over.

The file is handed in, ideally unbuffered; nothing here opens or closes one.
"""

from __future__ import annotations

import re
import select
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import zstandard

from bertcli.errors import BadData

ZSTD, GZIP = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
CHUNK = 1 << 18  # bytes a raw read
# Compressed bytes taken at a time: zstd makes up to 128 KB of each 4, so that memory stays below 64 MB, and twice that
# for an instant, even where they hold nothing but repetition.
SLICE = 1 << 11
PIECE = 1 << 20  # decompressed bytes handed on at a time, of which the lines are a list
WINDOW = 1 << 27  # bytes that a zstd frame may look back, which are held; more than it `zstd` reads only if told to


class _Decoder(Protocol):
    """What zstandard's and zlib's decompression objects share."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class _SkippableFrame:
    """A frame of zstd that holds no data: four bytes of magic, four of length, and that many to pass over."""

    def __init__(self) -> None:
        self.eof, self.unused_data = False, b""
        self._head, self._left = b"", 0

    def decompress(self, data: bytes, /) -> bytes:
        if len(self._head) < 8:
            missing = 8 - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            self._left = int.from_bytes(self._head[4:], "little")
        if len(self._head) == 8:
            self.eof, self.unused_data = self._left <= len(data), data[self._left :]
            self._left -= min(self._left, len(data))
        return b""


def _decoder(magic: bytes) -> _Decoder | None:
    if magic.startswith(ZSTD):
        return zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    if magic.startswith(GZIP):
        return zlib.decompressobj(wbits=31)
    return _SkippableFrame() if SKIPPABLE.match(magic) else None


def _decompressed(decoder: _Decoder, data: bytes) -> bytes:
    try:
        return decoder.decompress(data)
    except (zstandard.ZstdError, zlib.error) as error:
        if "too much memory" in str(error):  # zstd's word for it
            raise BadData(f"a zstd frame with a window of more than {WINDOW >> 20} MB, or a damaged head") from error
        raise BadData(f"the compressed stream is corrupted ({error})") from error


def _read(file: BinaryIO) -> bytes:
    """Returns the next bytes of a file, waiting for them even where reading does not; none at its end."""
    while (data := file.read(CHUNK)) is None:
        select.select([file], [], [])
    return data


def decompressed(file: BinaryIO) -> Iterator[bytes]:
    """Yields the decompressed bytes of a file in pieces, at least one (perhaps empty) for each raw read.

    Raises `BadData` where a frame is corrupted or the file ends inside one: `decompressobj().eof` alone tells.
    """
    data, plain = b"", None
    while True:
        # No magic number has a line end in it, so that a short line need not wait for a fourth byte.
        while len(data) < 4 and b"\n" not in data and (more := _read(file)):
            data += more
            yield b""
        decoder = _decoder(data[:4])
        if plain is None:
            plain = decoder is None
        if plain:
            yield data
            yield from iter(lambda: _read(file), b"")
            return
        if not data:
            return
        if decoder is None:
            raise BadData("bytes that belong to no frame follow a compressed one (corrupted, or joined to plain text)")
        while not decoder.eof:
            data = data or _read(file)
            if not data:
                raise BadData("the compressed stream ends in the middle of a frame (truncated)")
            done = 0
            while done < len(data) and not decoder.eof:
                whole = _decompressed(decoder, data[done : done + SLICE])
                done += SLICE
                for start in range(0, max(1, len(whole)), PIECE):
                    yield whole[start : start + PIECE]
            data = (decoder.unused_data if decoder.eof else b"") + data[done:]

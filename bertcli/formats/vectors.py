"""The vectors that `embed` adds, those of all records one after another, as arrays of numpy or safetensors.

Rows come first, so that they can be written as they come. Shapes: (rows, width), or (rows, layers, width) where layers
are kept apart. The numbers wait in a temporary file until the input has ended and their count is known.
"""

from __future__ import annotations

import io
import json
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import numpy as np

from bertcli.errors import BadData, IOFailed
from bertcli.formats import Fault, stop
from bertcli.records import Record
from bertcli.stream import write_all
from bertcli.vectors import FIELD, array_of, source_of

CHUNK = 1 << 20  # bytes
ALIGNMENT = 8  # bytes, of what stands behind the header of safetensors


class _Rows:
    """The rows of some records in a file, all like the first of them."""

    def __init__(self, file: BinaryIO) -> None:
        """Hold no rows, of no numbers, yet."""
        self._file = file
        self._dtype, self._row = np.dtype(np.float32), (0,)
        self.offsets = array("q", [0])  # record i has the rows from the i-th to before the next: 8 bytes a record
        self.sources: set[str | None] = set()

    @property
    def name(self) -> str:
        """Returns what numpy calls the numbers."""
        return self._dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Returns that of the array of all rows."""
        return self.offsets[-1], *self._row

    def add(self, record: Record) -> None:
        """Write a record's rows; raises `BadData` where they are not like those before."""
        vectors = array_of(record.get(FIELD))
        rows = vectors if vectors.ndim == 2 else vectors.swapaxes(0, 1)
        if not self.offsets[-1] and len(rows):
            self._dtype, self._row = rows.dtype, rows.shape[1:]
        if len(rows) and (rows.dtype, rows.shape[1:]) != (self._dtype, self._row):
            found, expected = _told(rows.dtype, rows.shape[1:]), _told(self._dtype, self._row)
            raise BadData(f"rows of {found}, and those before have {expected}", field=FIELD)
        try:
            write_all(self._file, rows.astype(rows.dtype.newbyteorder("<"), copy=False).tobytes())
        except IOFailed as error:
            raise IOFailed(f"the temporary file in {tempfile.gettempdir()}: {error}") from error
        self.offsets.append(self.offsets[-1] + len(rows))
        self.sources.add(source_of(record.get(FIELD)))

    def content(self) -> Iterator[bytes]:
        """Yields the numbers of all rows."""
        self._file.seek(0)
        yield from iter(lambda: self._file.read(CHUNK), b"")


def _told(dtype: np.dtype[np.floating], row: tuple[int, ...]) -> str:
    return f"{' x '.join(map(str, row))} {dtype.name}"


@contextmanager
def _gathered(records: Iterable[Record], fault: Fault) -> Iterator[_Rows]:
    with tempfile.TemporaryFile(buffering=0) as file:
        rows = _Rows(file)
        for record in records:
            try:
                rows.add(record)
            except BadData as error:
                fault(error)
        yield rows


def write_npy(records: Iterable[Record], fault: Fault = stop) -> Iterator[bytes]:
    """Yields the file that `numpy.load` reads as one array of all rows; without any it is (0, 0).

    A fault is a record without vectors, or with rows of another width, or type, than those before.
    """
    with _gathered(records, fault) as rows:
        header = io.BytesIO()
        descr = np.dtype(rows.name).newbyteorder("<").str
        told = {"descr": descr, "fortran_order": False, "shape": rows.shape}
        np.lib.format.write_array_header_1_0(header, told)
        yield header.getvalue()
        yield from rows.content()


def write_safetensors(records: Iterable[Record], fault: Fault = stop) -> Iterator[bytes]:
    """Yields a safetensors file with `vectors`, the array of all rows, and `offsets`, (records + 1,) of int64.

    Record i has the rows from offsets[i] to before offsets[i + 1]. The vectors' source, where all have one, is in the
    metadata. A fault is what it is for `write_npy`.
    """
    with _gathered(records, fault) as rows:
        offsets = np.array(rows.offsets, "<i8").tobytes()
        size = np.dtype(rows.name).itemsize * int(np.prod(rows.shape))
        header: dict[str, object] = {
            "offsets": {"dtype": "I64", "shape": [len(rows.offsets)], "data_offsets": [0, len(offsets)]},
            "vectors": {
                "dtype": rows.name.replace("float", "F"),
                "shape": rows.shape,
                "data_offsets": [len(offsets), len(offsets) + size],
            },
        }
        if len(rows.sources) == 1 and (source := next(iter(rows.sources))):
            header["__metadata__"] = {"source": source}
        told = json.dumps(header).encode()
        told += b" " * (-len(told) % ALIGNMENT)
        yield len(told).to_bytes(8, "little") + told
        yield offsets
        yield from rows.content()

"""TensorFlow's checkpoints ("V2", tensor bundles), read and written without TensorFlow.

`P.index` tells what there is; `P.data-00000-of-00001` and its like hold the numbers, little-endian, in C order. The
index is a table (`leveldb.py`) whose values are protobufs, of TensorFlow's `tensor_bundle.proto`:

    header   of the key "": 1 how many files of numbers, 2 endianness (0 little), 3 version (2 the least reader)
    entry    of a tensor's name: 1 dtype, 2 shape, 3 which file, 4 offset, 5 size in bytes, 6 masked CRC32C, 7 slices
    shape    2 edge, as often as there are some, 3 whether it is unknown
    edge     1 size

Whatever is 0 is left out. Nothing that a file says is believed before it is bounded: files come from anybody.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertcli.errors import BadData, NoInput
from bertcli.folder import read_whole
from bertcli.headers import MOST_EDGES, WIDTHS
from bertcli.weights.tensorflow import leveldb
from bertcli.weights.tensorflow.crc32c import masked
from bertcli.weights.tensorflow.varint import sliced, varint, varints

VERSION = 1  # of the readers of bundles, of which this is one
LONGEST = 1 << 22  # bytes of an index; one takes 100 a tensor, of which BERT-large with Adam's has 1,200
LARGEST = 1 << 59  # numbers of a tensor, so that its bytes can be counted in 63 bits
READ = {  # `DataType` of `types.proto`, the spelling of safetensors, and what it is to torch
    1: ("F32", torch.float32),
    2: ("F64", torch.float64),
    3: ("I32", torch.int32),
    4: ("U8", torch.uint8),
    5: ("I16", torch.int16),
    6: ("I8", torch.int8),
    9: ("I64", torch.int64),
    10: ("BOOL", torch.bool),
    14: ("BF16", torch.bfloat16),
    19: ("F16", torch.float16),
}
DTYPES = {number: name for number, (name, _) in READ.items()} | {7: "STRING", 17: "U16", 22: "U32", 23: "U64"}
TORCH = dict(READ.values())
NUMBERS = {dtype: number for number, (_, dtype) in READ.items()}


class Entry(NamedTuple):
    """What an index says of one tensor."""

    dtype: str  # a key of `headers.WIDTHS`, or a name for what is none, as TensorFlow's strings
    shape: tuple[int, ...]
    file: Path
    offset: int  # bytes
    bytes: int
    crc: int  # masked

    @property
    def size(self) -> int:
        """Returns how many numbers it has."""
        return math.prod(self.shape)


# -- reading --------------------------------------------------------------------------------------------------------


def read_index(prefix: Path) -> dict[str, Entry]:
    """Returns all the tensors of `prefix.index` by their names; their numbers are not read, but are there.

    Raises `NoInput` where the index or a file of numbers is not there, or `BadData` naming the file.
    """
    file = Path(f"{prefix}.index")
    try:
        rows = leveldb.rows(read_whole(file, LONGEST), LONGEST)
        shards = _shards(rows.pop(b"", b""))
        found = {key.decode(): _entry(value, prefix, shards) for key, value in rows.items()}
    except ValueError as error:
        problem = "a name that is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise BadData(f"not a whole index of a TensorFlow checkpoint ({problem})", file=str(file)) from None
    _check_places(found.values())
    return found


def read(entry: Entry) -> Tensor:
    """Returns a tensor's numbers; raises `NoInput`, or `BadData` where they are damaged, or of a type not read."""
    if entry.dtype not in TORCH:
        raise BadData(f"numbers of type {entry.dtype}, which is not read", file=str(entry.file))
    try:
        with entry.file.open("rb") as opened:
            opened.seek(entry.offset)
            numbers = np.fromfile(opened, f"<i{WIDTHS[entry.dtype]}", entry.size)
    except OSError as error:
        raise NoInput(f"{entry.file}: {error.strerror}") from error
    if masked(numbers) != entry.crc:
        place = f"{entry.bytes} bytes from byte {entry.offset} on"
        raise BadData(f"damaged: {place} have another checksum than the index tells", file=str(entry.file))
    native = numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
    return torch.from_numpy(native).view(TORCH[entry.dtype]).reshape(entry.shape)


def _shards(header: bytes) -> int:
    """Returns into how many files the numbers are divided; raises `ValueError` where this reader is not for them."""
    fields = _fields(header)
    shards = _number(fields, 1)
    if shards == 0:
        raise ValueError("no header")
    if _number(fields, 2):
        raise ValueError("big-endian numbers")
    for version in _parts(fields, 3):
        if (least := _number(_fields(version), 2)) > VERSION:
            raise ValueError(f"for readers of version {least}, and this is one of {VERSION}")
    return shards


def _entry(value: bytes, prefix: Path, shards: int) -> Entry:
    fields = _fields(value)
    kind, shard, offset, size, crc = (_number(fields, field) for field in (1, 3, 4, 5, 6))
    if 7 in fields:
        raise ValueError("a tensor in slices")
    if shard >= shards:
        raise ValueError(f"file {shard} of {shards}")
    shapes = [_fields(shape) for shape in _parts(fields, 2)]
    if len(shapes) != 1 or 3 in shapes[0]:
        raise ValueError("a tensor without a shape")
    shape = tuple(_number(_fields(edge), 1) for edge in _parts(shapes[0], 2)[: MOST_EDGES + 1])
    if len(shape) > MOST_EDGES:
        raise ValueError(f"a tensor of more than {MOST_EDGES} dimensions")
    if math.prod(max(edge, 1) for edge in shape) > LARGEST:
        raise ValueError("a tensor of a shape that none can have")
    file = Path(f"{prefix}.data-{shard:05}-of-{shards:05}")
    entry = Entry(DTYPES.get(kind, f"DT_{kind}"), shape, file, offset, size, crc)
    if entry.dtype in WIDTHS and size != WIDTHS[entry.dtype] * entry.size:
        raise ValueError(f"a tensor of {size} bytes, whose shape tells of {WIDTHS[entry.dtype] * entry.size}")
    return entry


def _check_places(entries: Iterable[Entry]) -> None:
    """Raise `NoInput` or `BadData` unless all tensors lie in their files, each in a place of its own."""
    places = sorted((entry.file, entry.offset, entry.bytes) for entry in entries)
    for file, group in itertools.groupby(places, key=lambda place: place[0]):
        try:
            there = file.stat().st_size
        except OSError as error:
            raise NoInput(f"{file}: {error.strerror}") from error
        end = 0
        for _, offset, size in group:
            if offset < end:
                raise BadData("the index tells of tensors that overlap", file=str(file))
            end = offset + size
        if end > there:
            raise BadData(f"cut: the index tells of {end} bytes, and {there} are there", file=str(file))


# -- writing --------------------------------------------------------------------------------------------------------


def write(prefix: Path, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write tensors of different names, one after another, as a checkpoint of one file of numbers. Raises `OSError`."""
    entries, offset = {}, 0
    with Path(f"{prefix}.data-00000-of-00001").open("wb") as file:
        for name, tensor in tensors:
            numbers = _little_endian(tensor)
            file.write(numbers.data)
            entries[name.encode()] = (
                _written(1, NUMBERS[tensor.dtype])
                + _written(2, b"".join(_written(2, _written(1, edge)) for edge in tensor.shape))
                + _written(4, offset)
                + _written(5, numbers.nbytes)
                + varints(6 << 3 | 5)
                + masked(numbers).to_bytes(4, "little")
            )
            offset += numbers.nbytes
    header = _written(1, 1) + _written(3, _written(1, VERSION))
    Path(f"{prefix}.index").write_bytes(leveldb.table([(b"", header), *sorted(entries.items())]))


def _little_endian(tensor: Tensor) -> NDArray[Any]:
    """Returns [T], a tensor's numbers as integers of the same bytes, for numpy has not all of torch's types."""
    whole = getattr(torch, f"int{8 * tensor.element_size()}")
    numbers = tensor.detach().cpu().contiguous().reshape(-1).view(whole).numpy()
    return numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)


# -- protobufs ------------------------------------------------------------------------------------------------------


def _fields(message: bytes) -> dict[int, list[int | bytes]]:
    """Returns a message's fields by their numbers, each as often as it is there; raises `ValueError`."""
    fields: dict[int, list[int | bytes]] = {}
    for number, value in _each_field(message):
        fields.setdefault(number, []).append(value)
    return fields


def _each_field(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            whole, at = varint(message, at)
            yield number, whole
        elif kind == 2:
            size, at = varint(message, at)
            yield number, sliced(message, at, size)
            at += size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, int.from_bytes(sliced(message, at, size), "little")
            at += size
        else:
            raise ValueError(f"a field of kind {kind}")


def _number(fields: dict[int, list[int | bytes]], number: int) -> int:
    """Returns a field's last value, which is 0 where it is not there."""
    value = fields.get(number, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"a field {number} that is no number")
    return value


def _parts(fields: dict[int, list[int | bytes]], number: int) -> list[bytes]:
    parts = fields.get(number, [])
    if not all(isinstance(part, bytes) for part in parts):
        raise ValueError(f"a field {number} that is a number")
    return [part for part in parts if isinstance(part, bytes)]


def _written(number: int, value: int | bytes) -> bytes:
    """Returns a field, nothing for a 0."""
    if isinstance(value, bytes):
        return varints(number << 3 | 2, len(value)) + value
    return varints(number << 3, value) if value else b""

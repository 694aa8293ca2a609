"""Vectors as a record holds them: compact, which is base64 of an array's bytes, or as lists of numbers that jq reads.

Shapes: rows R, width H, layers L that were kept apart: (R, H) or (L, R, H).
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BadData, many

FIELD = "vectors"
DTYPES = ("float16", "float32")
LARGEST = 1 << 62  # of an edge


def compact(vectors: NDArray[Any], source: str) -> dict[str, Any]:
    """Returns vectors as JSON holds them: little-endian, C order; `source` tells them from other models' or layers'."""
    ordered = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
    data = base64.b64encode(ordered.data).decode()
    return {"dtype": vectors.dtype.name, "shape": list(vectors.shape), "data": data, "source": source}


def array_of(value: Any) -> NDArray[Any]:
    """Returns the array that a record's vectors are, of two axes or three; raises `BadData` for anything else."""
    found = _of_compact(value) if type(value) is dict else _of_lists(value)
    if found is None or found.ndim not in (2, 3):
        raise BadData(field=FIELD, found=value, expected="vectors as embed writes them, a row of numbers each")
    if not np.isfinite(found).all():
        raise BadData("a number that is not finite", field=FIELD)
    return found


def source_of(value: Any) -> str | None:
    """Returns what vectors say of the model and the layers that they are from; lists say nothing."""
    source = value.get("source") if type(value) is dict else None
    return source if type(source) is str else None


def _of_compact(value: dict[str, Any]) -> NDArray[Any]:
    name, shape = value.get("dtype"), value.get("shape")
    data: Any = value.get("data")
    if name not in DTYPES:
        raise BadData(field=f"{FIELD}.dtype", found=name, expected=" or ".join(DTYPES))
    dtype, told = np.dtype(name).newbyteorder("<"), "[rows, width], or [layers, rows, width]"
    if type(shape) is not list or len(shape) not in (2, 3) or not all(map(_is_edge, shape)):
        raise BadData(field=f"{FIELD}.shape", found=shape, expected=told)
    try:
        content = binascii.a2b_base64(data, strict_mode=True)
    except (TypeError, ValueError):
        raise BadData(field=f"{FIELD}.data", found=data, expected="base64, without line ends") from None
    if len(content) != (size := math.prod(shape) * dtype.itemsize):
        expected = f"{size}, of {name} and shape {shape}"
        raise BadData(field=f"{FIELD}.data", found=many(len(content), "byte"), expected=expected)
    try:
        return np.frombuffer(content, dtype).reshape(shape)
    except (ValueError, OverflowError):  # other edges may be of any size where one is 0
        raise BadData(field=f"{FIELD}.shape", found=shape, expected=told) from None


def _is_edge(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _of_lists(value: Any) -> NDArray[Any] | None:
    if type(value) is not list:
        return None
    try:
        found: NDArray[Any] = np.array(value)
    except ValueError:  # rows of unequal length
        return None
    if not found.size:
        return np.zeros((0, 0), np.float32)  # lists of no rows do not tell how wide these would be
    with np.errstate(over="ignore"):  # what overflows becomes infinite
        return found.astype(np.float32) if found.dtype.kind in "if" else None

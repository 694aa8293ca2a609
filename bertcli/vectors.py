"""Vectors as a record holds them: compact, which is base64 of an array's bytes, or as lists of numbers that jq reads.

Shapes: rows R, width H, layers L that were kept apart: (R, H) or (L, R, H).
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertcli.errors import BadData

FIELD = "vectors"
DTYPES = ("float16", "float32")


def compact(vectors: NDArray[Any], source: str) -> dict[str, Any]:
    """Returns vectors as JSON holds them: little-endian, C order; `source` tells them from other models' or layers'."""
    ordered = np.ascontiguousarray(vectors, vectors.dtype.newbyteorder("<"))
    data = base64.b64encode(ordered.data).decode()
    return {"dtype": vectors.dtype.name, "shape": list(vectors.shape), "data": data, "source": source}


def array_of(value: Any) -> NDArray[Any]:
    """Returns the array that a record's vectors are, of two axes or three; raises `BadData` for anything else."""
    found = _of_lists(value) if type(value) is list else _of_compact(value)
    if found is None or found.ndim not in (2, 3):
        raise BadData(field=FIELD, found=value, expected="vectors as embed writes them, a row of numbers each")
    if not np.isfinite(found).all():
        raise BadData("a number that is not finite", field=FIELD)
    return found


def source_of(value: Any) -> str | None:
    """Returns what vectors say of the model and the layers that they are from; lists say nothing."""
    source = value.get("source") if type(value) is dict else None
    return source if type(source) is str else None


def _of_compact(value: Any) -> NDArray[Any] | None:
    if type(value) is not dict or value.get("dtype") not in DTYPES:
        return None
    dtype, shape = np.dtype(value["dtype"]).newbyteorder("<"), value.get("shape")
    if type(shape) is not list or not all(type(edge) is int and edge >= 0 for edge in shape):
        return None
    try:
        return np.frombuffer(binascii.a2b_base64(value["data"], strict_mode=True), dtype).reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError):  # an edge may be of any size where there is no data
        return None


def _of_lists(value: list[Any]) -> NDArray[Any] | None:
    try:
        found: NDArray[Any] = np.array(value)
    except ValueError:  # rows of unequal length
        return None
    if not found.size:
        return np.zeros((0, 0), np.float32)  # lists of no rows do not tell how wide these would be
    with np.errstate(over="ignore"):  # what overflows becomes infinite
        return found.astype(np.float32) if found.dtype.kind in "if" else None

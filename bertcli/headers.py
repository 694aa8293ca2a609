"""What the safetensors files of a model folder say of their tensors before the numbers; nothing is loaded.

Nothing is believed that the files are too small for, so that nobody makes room for what is not there.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from bertcli import folder
from bertcli.errors import BadData, NoInput

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
# Tensors in other forms than these commands read: of all but the last `convert` makes a model folder.
ONNX = "model.onnx"
OTHERS = ("pytorch_model.bin", "pytorch_model.bin.index.json", "*.ckpt*.index", ONNX)
MOST_EDGES, LARGEST = 8, 1 << 62  # dimensions of a tensor, and the size of one
POINTER = b"version https://git-lfs"  # how what stands for a large file begins, where it was not fetched
LONGEST = 1 << 23  # bytes of a header; one takes 100 a tensor, of which BERT-large has 400
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "BOOL": 1}  # bytes a number
WIDTHS |= {f"{sign}{8 * width}": width for sign in "IU" for width in (1, 2, 4, 8)}


class TensorHeader(NamedTuple):
    """What a file says of one tensor."""

    dtype: str
    shape: tuple[int, ...]
    file: Path

    @property
    def size(self) -> int:
        """Returns how many numbers it has."""
        return math.prod(self.shape)


def tensor_headers(path: Path) -> dict[str, TensorHeader]:
    """Returns the headers of all the tensors of a file, or of a folder, whole or sharded.

    Raises `NoInput`, or `BadData` also for a tensor that is in two files.
    """
    found: dict[str, TensorHeader] = {}
    for file in _files(path):
        for name, header in _headers(file).items():
            if name in found:
                raise BadData(f"{name}: is also in {found[name].file.name}", file=str(file))
            found[name] = header
    return found


def elsewhere(path: Path) -> str:
    """Returns what to do with a folder that holds tensors in another form, "" where it holds none."""
    names = (file.name for pattern in OTHERS for file in sorted(path.glob(pattern)) if file.is_file())
    if name := next(names, None):
        return f", but {name}: " + (
            "for other programs" if name == ONNX else "bertcli convert makes a model folder of it"
        )
    return ""


def _files(path: Path) -> list[Path]:
    if path.is_file() or (path / FILE).exists():
        return [path if path.is_file() else path / FILE]
    if (path / INDEX).exists():
        return sharded(path / INDEX)
    raise NoInput(f"{path}: no {FILE}{elsewhere(path)}")


def sharded(index: Path) -> list[Path]:
    """Returns the files among which an index divides tensors; raises `BadData` where it names others than beside it."""
    names = folder.read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(map(_is_beside, names.values())):
        raise BadData(file=str(index), field="weight_map", found=names, expected="names of files beside it")
    return [index.with_name(name) for name in sorted(set(names.values()))]


def _is_beside(name: Any) -> bool:
    return isinstance(name, str) and Path(name).name == name not in ("", "..") and "\0" not in name


def _headers(file: Path) -> dict[str, TensorHeader]:
    try:
        with file.open("rb") as opened:
            begin = opened.read(len(POINTER))
            if begin == POINTER:
                raise ValueError("a pointer of Git LFS: git lfs pull brings the file")
            opened.seek(8)
            length = int.from_bytes(begin[:8], "little")
            if length > LONGEST:
                raise ValueError(f"a header of {length} bytes")
            rows = json.loads(opened.read(length))
            rows.pop("__metadata__", None)
            found = {name: _header(row, file) for name, row in rows.items()}
            _check_places(
                [(row["data_offsets"], found[name]) for name, row in rows.items()],
                os.fstat(opened.fileno()).st_size - 8 - length,
            )
    except OSError as error:
        raise NoInput(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise BadData(f"not a whole safetensors file ({error})", file=str(file)) from None
    except (AttributeError, KeyError, TypeError, RecursionError):
        raise BadData("not a whole safetensors file (its header is another's)", file=str(file)) from None
    return found


def _header(row: Any, file: Path) -> TensorHeader:
    shape = tuple(row["shape"])
    if any(type(edge) is not int or edge < 0 for edge in shape) or row["dtype"] not in WIDTHS:
        raise ValueError("a tensor without a shape or a number type")
    if len(shape) > MOST_EDGES or max(shape, default=0) > LARGEST:
        raise ValueError("a tensor of a shape that none can have")
    return TensorHeader(row["dtype"], shape, file)


def _check_places(places: list[tuple[list[int], TensorHeader]], size: int) -> None:
    """Raise `ValueError` unless the tensors lie end to end, each as long as its shape tells, and fill the file."""
    end = 0
    for place, header in sorted(places, key=lambda each: each[0]):
        if place != [end, end + WIDTHS[header.dtype] * header.size]:
            raise ValueError("tensors that overlap, or are not as long as their shapes tell")
        end = place[1]
    if end != size:
        raise ValueError(f"tensors of {end} bytes, and {size} are there")

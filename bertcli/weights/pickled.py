"""Tensors as torch pickles them: `pytorch_model.bin`, whole or sharded, and the checkpoints of training loops.

They are read by torch's reader of plain tensors, which runs nothing that a pickle asks for; what asks for more is
refused. Never written.
"""

from __future__ import annotations

import pickle
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch
from torch import Tensor

from bertcli.errors import BadData, NoInput, shown
from bertcli.headers import POINTER, TensorHeader, sharded
from bertcli.weights.tensors import OPTIMIZERS, Tensors

FILE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ENDS = (".bin", ".pt", ".pth", ".ckpt")  # of files that hold such tensors
NESTED = ("state_dict", "model_state_dict", "model", "module")  # under which training loops keep the weights
HOLDERS = (dict, list, tuple)
SHARED = 2  # times the bytes of a file: what is tied shares its numbers
ZIPPED = b"PK"  # how files begin since torch 1.6; older ones cannot be mapped into memory
DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def opened(path: Path) -> Tensors:
    """Returns the tensors of a folder, or of one file; raises `NoInput`, or `BadData` for more than plain tensors."""
    is_sharded = not (path / FILE).exists() and (path / INDEX).exists()
    files = sharded(path / INDEX) if is_sharded else [path / FILE if path.is_dir() else path]
    tensors: dict[str, Tensor] = {}
    headers: dict[str, TensorHeader] = {}
    beside: Counter[str] = Counter()
    for file in files:
        state, others = _divided(_loaded(file), file)
        beside += others
        for name, tensor in state.items():
            header = _header(name, tensor, file)
            if name in headers:
                raise BadData(f"{name}: is also in {headers[name].file.name}", file=str(file))
            tensors[name], headers[name] = tensor, header
        _check_sizes(state, file)
    return Tensors.spelled(path, headers, tensors.__getitem__, beside)


def _check_sizes(state: dict[str, Tensor], file: Path) -> None:
    """Raise `BadData` where tensors have their numbers in common, so that a small file would fill a large network."""
    if sum(tensor.nbytes for tensor in state.values()) > SHARED * file.stat().st_size:
        raise BadData("tensors of more numbers than the file has", file=str(file))


def _divided(values: dict[str, Any], file: Path) -> tuple[dict[str, Any], Counter[str]]:
    """Returns the weights that a file holds, and how many tensors there are of what lies beside them."""
    nested = [name for name in NESTED if isinstance(values.get(name), dict)]
    if len(nested) > 1:
        raise BadData(f"weights under each of {', '.join(nested)}", file=str(file))
    if not nested:
        return values, Counter()
    others = {name: value for name, value in values.items() if name != nested[0]}
    if loose := [name for name, value in others.items() if isinstance(value, Tensor) and value.dim()]:
        raise BadData(f"weights under {nested[0]}, and beside it {shown(loose[0])}", file=str(file))
    counts: Counter[str] = Counter()
    for name, value in others.items():
        counts[OPTIMIZERS if str(name).startswith("optim") else shown(name)] += _count(value)
    return values[nested[0]], +counts


def _loaded(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as begun:
            begin = begun.read(len(POINTER))
        if begin == POINTER:
            raise BadData("a pointer of Git LFS: git lfs pull brings the file", file=str(file))
        is_zipped = begin.startswith(ZIPPED)
        if is_zipped and any(part.compress_type for part in ZipFile(file).infolist()):
            raise BadData("a compressed archive, as torch writes none", file=str(file))  # it would be read as it is
        with warnings.catch_warnings(action="ignore"):  # of other pickles than torch's, which are refused anyway
            values = torch.load(file, map_location="cpu", weights_only=True, mmap=is_zipped)
    except BadData:
        raise
    except OSError as error:
        raise NoInput(f"{file}: {error.strerror}") from error
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL (\S+)", str(error))
        problem = f"asks for {asked[1]}, and is not read: plain tensors only" if asked else "not a pickle of tensors"
        raise BadData(problem, file=str(file)) from None
    except Exception:  # what is damaged fails in all ways, deep inside torch
        raise BadData("not a whole file of tensors", file=str(file)) from None
    if not isinstance(values, dict):
        raise BadData(file=str(file), found=type(values).__name__, expected="a dict of tensors by name")
    return values


def _header(name: Any, tensor: Any, file: Path) -> TensorHeader:
    """Returns what is known of a tensor; raises `BadData` where it is none, or would take more room than it has."""
    if not isinstance(name, str):
        raise BadData(f"a {type(name).__name__} in the place of a tensor's name", file=str(file))
    if not isinstance(tensor, Tensor):
        raise BadData(file=str(file), field=name, found=type(tensor).__name__, expected="a tensor")
    is_dense = tensor.layout == torch.strided and not (tensor.is_nested or tensor.is_quantized or tensor.is_meta)
    if not is_dense or tensor.untyped_storage().nbytes() < tensor.numel() * tensor.itemsize:
        raise BadData("not a plain tensor with a number of its own in each place", file=str(file), field=name)
    return TensorHeader(DTYPES.get(tensor.dtype, str(tensor.dtype)), tuple(tensor.shape), file)


def _count(value: Any) -> int:
    """Returns the number of tensors within lists and dicts, of which any may be within another twice, or itself."""
    found, seen, level = 0, set[int](), [value]
    while level:
        new = {id(each): each for each in level if id(each) not in seen}
        seen |= new.keys()
        found += sum(isinstance(each, Tensor) for each in new.values())
        holders = [each for each in new.values() if isinstance(each, HOLDERS)]
        level = [inner for each in holders for inner in (each.values() if isinstance(each, dict) else each)]
    return found

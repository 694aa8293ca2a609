"""Tensors as safetensors, in one file or several: today's form of Hugging Face's folders."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertcli.errors import BadData
from bertcli.headers import FILE, tensor_headers
from bertcli.model.heads import Network
from bertcli.weights.tensors import Tensors, named


def opened(path: Path) -> Tensors:
    """Returns the tensors of a folder, or of a file; raises `NoInput` or `BadData` where they are not all there."""
    headers = tensor_headers(path)
    open_once = cache(_opened)

    def read(name: str) -> Tensor:
        tensor: Tensor = open_once(headers[name].file).get_tensor(name)
        return tensor

    return Tensors.spelled(path, headers, read)


def _opened(file: Path) -> Any:
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise BadData(f"not a whole safetensors file ({error})", file=str(file)) from None


def save(path: Path, network: Network) -> None:
    """Write a network's weights in float32, tied ones once, as transformers names them. Raises `OSError`."""
    tensors = {name: tensor.contiguous() for name, tensor in named(network)}
    try:
        save_file(tensors, path / FILE, metadata={"format": "pt"})
    except SafetensorError as error:  # its word for a full disk
        raise OSError(f"{FILE}: {error}") from error

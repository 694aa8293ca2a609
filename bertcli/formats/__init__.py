"""One file a foreign data format, reading and writing side by side.

A reader takes one file's `lines.Lines` and yields its records, each as soon as its last line is there. Ids
are strings and begin anew in each file.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

READERS = {
    "text": ("text", "documents"),
    "glue-cola": ("glue", "cola"),
    "glue-sst-2": ("glue", "sst_2"),
}  # the names that `read` takes -> file of this folder, function


def reader(name: str) -> Callable[..., Iterator[dict[str, Any]]]:
    """Returns the reader of a format, its file imported now."""
    file, function = READERS[name]
    found: Callable[..., Iterator[dict[str, Any]]] = getattr(importlib.import_module(f"{__name__}.{file}"), function)
    return found

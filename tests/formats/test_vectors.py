"""`write npy` and `write safetensors`: what numpy and safetensors read is what the records hold."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import crashes
import numpy as np
import pytest
from program import Result
from safetensors import safe_open
from safetensors.numpy import load

from bertcli.formats.vectors import write_npy, write_safetensors
from bertcli.vectors import array_of, compact

Record = dict[str, Any]


def records(count: int, *apart: int, dtype: str = "float16") -> list[Record]:
    """Returns records of 0 to 4 rows of 3 numbers."""
    rng = np.random.default_rng(0)
    shapes = [(*apart, rng.integers(5), 3) for _ in range(count)]
    return [{"vectors": compact(rng.normal(size=shape).astype(dtype), "last/words/0badcafe")} for shape in shapes]


def rows(record: Record) -> Any:
    """Returns a record's rows, which come first."""
    vectors = array_of(record["vectors"])
    return vectors if vectors.ndim == 2 else vectors.swapaxes(0, 1)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("apart", [(), (4,)])
def test_all_rows_come_one_after_another(apart: tuple[int, ...], dtype: str) -> None:
    given = records(20, *apart, dtype=dtype)
    expected = np.concatenate(list(map(rows, given)))
    found = np.load(io.BytesIO(b"".join(write_npy(given))))
    assert found.dtype == dtype
    assert np.array_equal(found, expected)
    file = b"".join(write_safetensors(given))
    tensors = load(file)
    assert (tensors["vectors"].dtype, tensors["offsets"].dtype) == (dtype, np.int64)
    assert np.array_equal(tensors["vectors"], expected)
    assert (8 + int.from_bytes(file[:8], "little")) % 8 == 0
    for record, (begin, end) in zip(given, pairwise(tensors["offsets"].tolist()), strict=True):
        assert np.array_equal(tensors["vectors"][begin:end], rows(record))


def test_the_source_is_told_where_there_is_one(tmp_path: Path) -> None:
    given = records(3)
    other = {"vectors": given[0]["vectors"] | {"source": "other"}}
    for written, metadata in ((given, {"source": "last/words/0badcafe"}), ([*given, other], None), ([], None)):
        (tmp_path / "file").write_bytes(b"".join(write_safetensors(written)))
        with safe_open(tmp_path / "file", "numpy") as file:
            assert file.metadata() == metadata


def test_of_nothing_there_are_no_rows() -> None:
    for given in ([], [{"vectors": []}], [{"vectors": compact(np.zeros((4, 0, 8), np.float16), "")}]):
        assert np.load(io.BytesIO(b"".join(write_npy(given)))).shape == (0, 0)
        tensors = load(b"".join(write_safetensors(given)))
        assert (tensors["vectors"].shape, tensors["offsets"].tolist()) == ((0, 0), [0] * (len(given) + 1))


def test_what_has_no_rows_fits_all_others() -> None:
    given = [{"vectors": []}, *records(3), {"vectors": []}]
    assert np.load(io.BytesIO(b"".join(write_npy(given)))).shape[1:] == (3,)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"text": "a"}, "found nothing, expected vectors as embed writes them"),
        ({"vectors": [[1, 2]]}, "rows of 2 float32, and those before have 3 float16"),
        ({"vectors": compact(np.ones((1, 3), np.float32), "")}, "rows of 3 float32, and those before have 3 float16"),
        (
            {"vectors": compact(np.ones((2, 1, 3), np.float16), "")},
            "rows of 2 x 3 float16, and those before have 3 float16",
        ),
    ],
)
def test_rows_of_another_kind_are_a_fault_with_their_line(
    bad: Record, said: str, shell: Callable[..., Result], tmp_path: Path
) -> None:
    lines = [*records(9), bad]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in ("npy", "safetensors"):
        result = shell(f"bertcli write {name} in.jsonl")
        assert (result.status, result.out) == (65, b"")
        assert result.err.startswith(f"bertcli write: in.jsonl:10: field 'vectors': {said}")
        assert shell(f"bertcli write {name} in.jsonl --on-error skip").out


def test_the_disk_of_the_temporary_file_is_full(shell: Callable[..., Result], tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records(2000, 50)))
    with crashes.small_disk(tmp_path / "disk", "300k") as disk:
        result = shell(f"TMPDIR={disk} bertcli write npy in.jsonl")
    assert (result.status, result.out) == (74, b"")
    said = f"the temporary file in {disk}: writing failed: No space left on device"
    assert result.err == f"bertcli write: {said}\n"


def test_memory_does_not_grow_with_the_rows() -> None:
    def peak(count: int) -> int:
        one = {"vectors": compact(np.ones((10, 1000), np.float32), "")}  # 40 KB

        def given() -> Iterator[Record]:
            for _ in range(count):
                yield one

        tracemalloc.start()
        for _ in write_safetensors(given()):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(400) < peak(50) + (1 << 18)  # 16 MB of rows, and 2

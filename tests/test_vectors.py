"""Vectors in a record: what is written is read again, and nothing else is taken for vectors."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bertcli.errors import BadData
from bertcli.vectors import array_of, compact, source_of

SHAPES = arrays.array_shapes(min_dims=2, max_dims=3, min_side=0, max_side=5)
FINITE = st.sampled_from([np.float16, np.float32]).flatmap(
    lambda dtype: arrays.arrays(dtype, SHAPES, elements={"allow_nan": False, "allow_infinity": False})
)


@given(FINITE, st.booleans())
def test_what_is_written_is_read_again_bit_for_bit(vectors: Any, turned: bool) -> None:
    vectors = vectors.swapaxes(0, 1) if turned else vectors
    value = json.loads(json.dumps(compact(vectors, "last/words/0badcafe")))
    found = array_of(value)
    assert (found.dtype, found.shape) == (vectors.dtype, vectors.shape)
    assert found.tobytes() == vectors.tobytes()
    assert source_of(value) == "last/words/0badcafe"


@given(FINITE)
def test_lists_are_the_same_numbers(vectors: Any) -> None:
    found = array_of(json.loads(json.dumps(vectors.tolist())))
    assert found.dtype == np.float32
    assert found.shape == (vectors.shape if vectors.size else (0, 0))
    assert np.array_equal(found.ravel(), vectors.ravel())
    assert source_of(vectors.tolist()) is None


def test_the_data_are_little_endian_in_the_order_of_c() -> None:
    vectors = np.array([[1, 2], [3, 4]], ">f2").T
    assert base64.b64decode(compact(vectors, "")["data"]) == np.array([1, 3, 2, 4], "<f2").tobytes()


GOOD = compact(np.ones((2, 3), np.float16), "")


@pytest.mark.parametrize(
    "value",
    [
        None,
        5,
        "AAAA",
        [1, 2],
        [[1, 2], [3]],
        [[1, "2"]],
        [[True, False]],
        [[None, 1]],
        [[1 << 70]],
        [[[[1]]]],
        [[{}]],
    ],
    ids=str,
)
def test_nothing_else_is_vectors(value: Any) -> None:
    with pytest.raises(BadData, match=r"field 'vectors': found .*, expected vectors as embed writes them"):
        array_of(value)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"dtype": "float64"}, "dtype': found 'float64', expected float16 or float32"),
        ({"dtype": ["float16"]}, "dtype': found a list, expected float16 or float32"),
        ({"dtype": None}, "dtype': found nothing, expected float16 or float32"),
        *(
            ({"shape": shape}, f"shape': found {'nothing' if shape is None else 'a list'}, expected [rows, width], or")
            for shape in (None, [6], [1, 1, 2, 3], [-2, -3], [True, 6], [0, 1 << 70], [10**5000, 0])
        ),
        ({"shape": [0, 1 << 61, 1 << 61], "data": ""}, "shape': found a list, expected [rows, width], or"),
        ({"shape": [2, 4]}, "data': found '12 bytes', expected 16, of float16 and shape [2, 4]"),
        ({"data": ""}, "data': found '0 bytes', expected 12, of float16 and shape [2, 3]"),
        ({"data": GOOD["data"][:-1]}, f"data': found '{GOOD['data'][:-1]}', expected base64, without line ends"),
        ({"data": "\u00e9" + GOOD["data"][1:]}, "data': found '\u00e9"),
        ({"data": "\n" + GOOD["data"]}, "data': found '\\n"),
        ({"data": 5}, "data': found 5, expected base64"),
        ({"data": None}, "data': found nothing, expected base64"),
    ],
)
def test_of_a_compact_array_the_wrong_part_is_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(BadData) as caught:
        array_of({**GOOD, **wrong})
    assert str(caught.value).startswith(f"field 'vectors.{said}")


@pytest.mark.parametrize("value", [compact(np.array([[np.nan]], np.float16), ""), [[1e39]]], ids=["nan", "too large"])
def test_vectors_are_finite(value: Any) -> None:
    with pytest.raises(BadData, match="field 'vectors': a number that is not finite"):
        array_of(value)


def test_a_source_is_a_string() -> None:
    assert source_of({**GOOD, "source": 5}) is None
    assert source_of(None) is None

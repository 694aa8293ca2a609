"""CRC32C: the same as Google's library, for every length, kind of numbers and way of joining."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertcli.weights.tensorflow.crc32c import LANES, crc32c, masked

RANDOM = np.random.default_rng(0).integers(0, 256, 20 * LANES, np.uint8)
ROW = 4 * LANES  # bytes


def test_the_examples_of_rfc_3720() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("length", [*range(70), *range(ROW - 5, ROW + 6), 2 * ROW - 1, 2 * ROW, 2 * ROW + 1, 5 * ROW])
def test_lengths_about_those_of_words_and_rows(length: int) -> None:
    text = RANDOM[-length:] if length else RANDOM[:0]
    assert crc32c(text) == google_crc32c.value(text.tobytes())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 3 * ROW), st.integers(0, 5000), st.integers(0, 5000))
def test_a_text_and_its_parts(start: int, first: int, second: int) -> None:
    text = RANDOM[start : start + first + second].tobytes()
    assert crc32c(text) == google_crc32c.value(text)
    assert crc32c(text[first:], crc32c(text[:first])) == google_crc32c.value(text)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(text: bytes) -> None:
    assert crc32c(text) == google_crc32c.value(text)


@pytest.mark.parametrize("dtype", ["<f4", "<i8", "<i2", "|i1"])
def test_numbers_of_any_type_and_shape(dtype: str) -> None:
    numbers = RANDOM[: 24 * 100].view(dtype)
    assert crc32c(numbers.reshape(2, -1)) == google_crc32c.value(numbers.tobytes())
    assert crc32c(numbers[:0]) == 0


def test_masked_is_as_leveldb_has_it() -> None:
    assert masked(b"") == 0xA282EAD8
    turned = google_crc32c.value(b"foo")
    assert masked(b"foo") == (((turned >> 15) | (turned << 17)) + 0xA282EAD8) % (1 << 32)

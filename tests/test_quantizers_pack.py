"""Codes in bytes: by hand, against a loop over bits, and back again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.quantizers._pack import pack, packed_size, unpack


def bit_by_bit(codes: list[int], width: int) -> list[int]:
    """The codes as one long binary number, lowest bit first, cut into bytes."""
    number = sum(code << (width * place) for place, code in enumerate(codes))
    return list(number.to_bytes(-(-width * len(codes) // 8), "little"))


def test_values_by_hand() -> None:
    assert pack(np.array([1, 0, 1, 1]), 2).tolist() == [0b1101]
    # 2 + 1·3 + 0·9 + 2·27 + 1·81, then 1 alone.
    assert pack(np.array([2, 1, 0, 2, 1, 1]), 3).tolist() == [140, 1]
    assert pack(np.array([5, 3, 7]), 8).tolist() == [0b11011101, 0b1]
    assert pack(np.array([65537, 1]), 65538).tolist() == bit_by_bit([65537, 1], 17)


@settings(max_examples=80, deadline=None)
@given(levels=st.integers(2, 70_000), count=st.integers(1, 60), seed=st.integers(0, 99))
def test_any_width_packs_tightly_and_reads_back(levels: int, count: int, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(levels, size=count)
    data = pack(codes, levels)
    assert data.dtype == np.uint8
    assert data.size == packed_size(count, levels)
    assert np.array_equal(unpack(data, levels, count), codes)
    if levels != 3:
        assert data.tolist() == bit_by_bit(codes.tolist(), (levels - 1).bit_length())


@pytest.mark.parametrize(
    ("levels", "bits"), [(2, 1), (3, 1.6), (6, 3), (10, 4), (18, 5), (34, 6), (256, 8), (65538, 17)]
)
def test_bits_per_code(levels: int, bits: float) -> None:
    assert 8 * packed_size(40_000, levels) / 40_000 == bits


@pytest.mark.parametrize("levels", [2, 3, 6])
def test_more_codes_than_one_pass_holds(levels: int) -> None:
    codes = np.random.default_rng(0).integers(levels, size=(1 << 20) + 13)
    assert np.array_equal(unpack(pack(codes, levels), levels, codes.size), codes)

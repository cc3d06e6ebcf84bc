"""Codes in as few bits as whole bytes allow: k bits each, or five ternary digits to a byte."""

from __future__ import annotations

import numpy as np

from discreet._types import Int, Num

__all__ = ["pack", "packed_size", "unpack"]

_TRITS = 3 ** np.arange(5)
# Codes of one pass; a multiple of 8, so that every pass ends on a byte whatever the width.
_PASS = 1 << 16


def pack(codes: Num[np.ndarray, " code"], levels: int) -> Num[np.ndarray, " byte"]:
    """Write codes 0 … levels - 1 as bytes, the lowest bit (or digit) first.

    Three levels take 1.6 bits each (3^5 = 243 fits a byte); others take the bits of ``levels - 1``.

    Example:
        >>> pack(np.array([1, 0, 1, 1]), levels=2)
        array([13], dtype=uint8)
    """
    if levels == 3:
        padded = np.zeros((packed_size(codes.size, levels), 5), dtype=np.int64)
        padded.reshape(-1)[: codes.size] = codes
        return (padded @ _TRITS).astype(np.uint8)
    width = _bits(levels)
    if 8 % width == 0:
        padded = np.zeros((packed_size(codes.size, levels), 8 // width), dtype=np.uint8)
        padded.reshape(-1)[: codes.size] = codes
        return np.bitwise_or.reduce(padded << np.arange(0, 8, width, dtype=np.uint8), axis=1)
    places = np.arange(width)
    passes = [codes[start : start + _PASS] for start in range(0, codes.size, _PASS)]
    planes = (((each[:, None] >> places) & 1).astype(np.uint8) for each in passes)
    return np.concatenate([np.packbits(bits, bitorder="little") for bits in planes])


def unpack(data: Num[np.ndarray, " byte"], levels: int, count: int) -> Int[np.ndarray, " code"]:
    """The ``count`` codes that ``pack`` wrote."""
    if levels == 3:
        return (data[:, None].astype(np.int64) // _TRITS % 3).reshape(-1)[:count]
    width = _bits(levels)
    if 8 % width == 0:
        taken = (data[:, None] >> np.arange(0, 8, width, dtype=np.uint8)) & np.uint8(2**width - 1)
        return taken.reshape(-1)[:count].astype(np.int64)
    places = 1 << np.arange(width)
    codes = np.empty(count, dtype=np.int64)
    for start in range(0, count, _PASS):
        stop = min(start + _PASS, count)
        taken = data[start * width // 8 : -(-stop * width // 8)]
        bits = np.unpackbits(taken, count=(stop - start) * width, bitorder="little")
        codes[start:stop] = bits.reshape(-1, width) @ places
    return codes


def packed_size(count: int, levels: int) -> int:
    """Bytes that ``count`` codes of ``levels`` levels take."""
    return -(-count // 5) if levels == 3 else -(-count * _bits(levels) // 8)


def _bits(levels: int) -> int:
    return max(1, (levels - 1).bit_length())

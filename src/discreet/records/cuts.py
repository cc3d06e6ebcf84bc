"""Cutting arrays by rows, samples and tokens: numbers or masks in, slices where that saves a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet._types import Int
from discreet.records.laws import RecordError

__all__ = ["as_slice", "numbers", "tokens_of"]


def numbers(index: Any, count: int, what: str) -> Int[np.ndarray, " n"]:
    """Return row or sample numbers in 0..count-1; a mask becomes the numbers of its true places."""
    found = np.asarray(index)
    if found.dtype == np.bool_:
        if found.shape != (count,):
            raise RecordError(f"a mask of {what}s: expected {count} values, got shape {found.shape}")
        return np.flatnonzero(found)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise RecordError(
            f"{what} numbers: expected a list of whole numbers, got {found.dtype} {found.shape}"
        )
    if found.size and not (found.min() >= 0 and found.max() < count):
        raise RecordError(f"{what} numbers: expected 0 to {count - 1}, got {found.min()} to {found.max()}")
    return found.astype(np.int64, copy=False)


def as_slice(index: Int[np.ndarray, " n"]) -> slice | Int[np.ndarray, " n"]:
    """Return evenly spaced ascending numbers as a slice, which NumPy reads without a copy.

    Example:
        >>> as_slice(np.array([1, 3, 5])), as_slice(np.array([2, 1]))
        (slice(1, 6, 2), array([2, 1]))
    """
    if not index.size:
        return index
    step = int(index[1] - index[0]) if index.size > 1 else 1
    if step < 1 or (np.diff(index) != step).any():
        return index
    return slice(int(index[0]), int(index[-1]) + 1, step)


def tokens_of(
    bounds: Int[np.ndarray, " bound"], columns: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, " token"], Int[np.ndarray, " new_bound"]]:
    """Return the numbers of the tokens of some samples, and the offsets of these samples among them."""
    lengths = np.diff(bounds)[columns]
    new = np.concatenate([[0], np.cumsum(lengths)]).astype(bounds.dtype)
    return np.repeat(bounds[:-1][columns] - new[:-1], lengths) + np.arange(new[-1]), new

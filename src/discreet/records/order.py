"""The canonical order of labels, rows and samples, so that the same numbers give the same record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet._types import Float, Int

__all__ = ["natural", "natural_order", "row_order", "sample_ids"]

_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def natural(label: str) -> tuple[Any, ...]:
    """Return a key that sorts the numbers inside labels as numbers.

    Example:
        >>> sorted(["run10", "run9", "b", "run09"], key=natural)
        ['b', 'run09', 'run9', 'run10']
    """
    parts = re.split(r"([0-9]+)", label)
    digits = [part.lstrip("0") for part in parts[1::2]]
    # The length before the digits: any number of digits compares without becoming an int.
    numbers = [(len(d), d) for d in digits]
    return (*(key for pair in zip(parts[::2], [*numbers, ()], strict=True) for key in pair), label)


def natural_order(labels: Sequence[str]) -> list[str]:
    """Sort labels: as numbers if all are whole numbers, else naturally.

    Example:
        >>> natural_order(["10", "9", "-1"]), natural_order(["s10", "s9"])
        (['-1', '9', '10'], ['s9', 's10'])
    """
    if all(_WHOLE.fullmatch(label) and len(label) < 4000 for label in labels):
        return sorted(labels, key=int)
    return sorted(labels, key=natural)


def row_order(
    run: Sequence[str], step: Float[np.ndarray, " row"], variant: Sequence[str]
) -> Int[np.ndarray, " row"]:
    """Return the order of rows: variant by first appearance, run naturally, step ascending.

    Example:
        >>> row_order(["1", "0", "0"], np.array([1.0, 2.0, 1.0]), ["a", "b", "a"]).tolist()
        [2, 0, 1]
    """
    runs = {label: i for i, label in enumerate(natural_order(list(dict.fromkeys(run))))}
    variants = {label: i for i, label in enumerate(dict.fromkeys(variant))}
    return np.lexsort(
        np.array([step, [runs[label] for label in run], [variants[label] for label in variant]])
    )


def sample_ids(labels: Sequence[str]) -> tuple[np.ndarray, Int[np.ndarray, " sample"]]:
    """Return distinct sample labels as sorted ids, and the place of each label among them.

    Labels are numbers if every one is a whole number in its plain form (``7``, not ``07``) that fits
    into 64 bits; else they stay text and sort by code point.

    Example:
        >>> sample_ids(["10", "9"])
        (array([ 9, 10]), array([1, 0]))
        >>> sample_ids(["10", "09"])
        (array(['09', '10'], dtype='<U2'), array([1, 0]))
    """
    values = np.array(labels)
    if all(map(_WHOLE.fullmatch, labels)) and values.dtype.itemsize <= 20 * 4:
        numbers = [int(label) for label in labels]
        if min(numbers) >= -(2**63) and max(numbers) < 2**63:
            values = np.array(numbers, np.int64)
    order = np.argsort(values, kind="stable")
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    return values[order], places

"""Samples that two kinds of labels link: whoever shares either one depends on the other. NumPy and SciPy only."""

from __future__ import annotations

import numpy as np

from discreet._types import Int

__all__ = ["linked"]


def linked(one: Int[np.ndarray, " sample"], other: Int[np.ndarray, " sample"]) -> Int[np.ndarray, " sample"]:
    """One label for all samples that a chain of shared labels connects.

    Args:
        one: Labels of one kind, from 0.
        other: Labels of another kind, from 0.

    Example:
        >>> linked(np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])).tolist()
        [0, 0, 0, 1]
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    first = int(one.max()) + 1
    size = first + int(other.max()) + 1
    link = sparse.coo_matrix((np.ones(len(one)), (one, first + other)), shape=(size, size))
    return connected_components(link, directed=False)[1][one].astype(np.int64)

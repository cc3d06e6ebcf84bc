"""A random order of things that depends on their names alone."""

from __future__ import annotations

import hashlib

import numpy as np

from discreet._types import Int

__all__ = ["draws"]


def draws(names: np.ndarray, seed: int) -> Int[np.ndarray, " n"]:
    """A random number for each name that depends on nothing but it and the seed.

    Example:
        >>> bool(draws(np.array(["a", "b"]), 0)[1] == draws(np.array(["b"]), 0)[0])
        True
    """
    key = str(seed).encode()
    digests = (hashlib.blake2b(str(each).encode(), digest_size=7, key=key).digest() for each in names)
    return np.array([int.from_bytes(digest) for digest in digests], dtype=np.int64)

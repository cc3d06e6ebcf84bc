"""Samples of a data set as arrays, with where they came from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet._types import Float, Int

__all__ = ["DataError", "Samples", "read_checked"]


class DataError(ValueError):
    """A data set cannot be had: its package is missing, or its files are not the ones expected."""


@dataclass(frozen=True, eq=False)
class Samples:
    """A data set, distinct samples only.

    Attributes:
        x: Inputs in float32.
        y: Classes, from 0 on.
        classes: Names of the classes.
        name: Name of the data set.
        sha256: Hash of each file that was read, by its name.
        licence: Its licence.
        source: Where it was read from.
        counts: How many rows there were, and why some are not here.
    """

    x: Float[np.ndarray, " sample *feature"]
    y: Int[np.ndarray, " sample"]
    classes: tuple[str, ...]
    name: str
    sha256: Mapping[str, str]
    licence: str
    source: str
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.y)


def read_checked(path: Path, sha256: str, advice: str) -> bytes:
    """Read a file whose content is known.

    Args:
        path: The file.
        sha256: Its hash.
        advice: How to get it.

    Raises:
        DataError: It is not there or has another content.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {advice}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise DataError(f"{path}: expected SHA-256 {sha256[:16]}…, got {digest[:16]}…; {advice}")
    return data

"""Which evaluation samples the training has seen: those say nothing about new records, and are left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Subset

from discreet._types import Bool

__all__ = ["LABELS", "Members", "members"]

LABELS = ("labels", "label", "label_ids")
_MOST = 50_000  # training samples to read: more would cost a good part of an epoch


@dataclass(frozen=True, eq=False)
class Members:
    """What a comparison of two data sets found.

    Attributes:
        member: Evaluation samples that are in the training data.
        looked: Training samples that were compared; 0 if none could be.
        training: Training samples there are, None if that is not known.
    """

    member: Bool[np.ndarray, " sample"]
    looked: int
    training: int | None


def members(evaluation: Any, training: Any, most: int = _MOST) -> Members:
    """Find evaluation samples among the training samples.

    Subsets of one data set are compared by position, all others by the bytes of their inputs: a sample that is
    changed at random each time it is read is not found that way.

    Args:
        evaluation: A map-style data set: it has a length and positions.
        training: Another one; of anything else nothing is compared.
        most: Training samples to read; of more, so many evenly spaced ones.
    """
    own = np.zeros(len(evaluation), bool)
    if not (hasattr(training, "__len__") and hasattr(training, "__getitem__")):
        return Members(own, 0, None)
    count = len(training)
    (base, here), (other, there) = _positions(evaluation), _positions(training)
    if base is other:
        return Members(np.isin(here, there), count, count)
    digests = [_digest(evaluation[place]) for place in range(len(own))]
    if None in digests:
        return Members(own, 0, count)
    wanted, seen = set(digests), set()
    places = np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))
    for place in places:
        digest = _digest(training[int(place)])
        if digest in wanted:
            seen.add(digest)
    return Members(np.array([digest in seen for digest in digests]), len(places), count)


def _positions(data: Any) -> tuple[Any, np.ndarray]:
    """The data set at the bottom of subsets, and the positions in it."""
    places = np.arange(len(data))
    while isinstance(data, Subset):
        places, data = np.asarray(data.indices)[places], data.dataset
    return data, places


def _digest(item: Any) -> bytes | None:
    """The inputs of a sample, without its label."""
    if isinstance(item, Mapping):
        item = {name: value for name, value in sorted(item.items()) if name not in LABELS}
    elif isinstance(item, Sequence) and not isinstance(item, str | bytes) and len(item) > 1:
        item = item[0]
    whole = hashlib.sha256()
    return whole.digest() if _feed(whole, item) else None


def _feed(whole: Any, value: Any) -> bool:
    """Add a value to a hash; False if it has no bytes that can be compared."""
    if isinstance(value, Mapping):
        return all(_feed(whole, name) and _feed(whole, each) for name, each in value.items())
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, list | tuple):
        value = np.asarray(value) if value and isinstance(value[0], int | float) else value
    if isinstance(value, np.ndarray):
        whole.update(f"{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        return True
    if isinstance(value, list | tuple):
        return all(_feed(whole, each) for each in value)
    if hasattr(value, "tobytes"):  # pictures
        whole.update(value.tobytes())
        return True
    if isinstance(value, str | bytes | int | float | bool | None):
        whole.update(repr(value).encode())
        return True
    return False

"""Which evaluation samples the training has seen: those say nothing about new records, and are left out."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Subset

from discreet._types import Bool

__all__ = ["LABELS", "Members", "members"]

LABELS = ("labels", "label", "label_ids")
_MOST = 50_000  # training samples to read: more would cost a good part of an epoch

_Names = frozenset[str] | None  # the keys of a sample; None: it has none
_Digests = dict[_Names, dict[bytes, list[int]]]  # positions by digest, by the keys compared


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


def members(
    evaluation: Any, training: Any, read: Collection[str] | None = None, most: int = _MOST
) -> Members:
    """Find evaluation samples among the training samples.

    Subsets of one data set are compared by position, all others by the bytes of their inputs: a sample that is
    changed at random each time it is read is not found that way. Inputs of a mapping are the keys that both samples
    have, since libraries remove columns from the training data alone.

    Args:
        evaluation: A map-style data set: it has a length and positions.
        training: Another one; of anything else nothing is compared.
        read: Keys to compare at most, those that the model reads; None: all but the labels.
        most: Training samples to read; of more, so many evenly spaced ones.
    """
    own = np.zeros(len(evaluation), bool)
    if not (hasattr(training, "__len__") and hasattr(training, "__getitem__")):
        return Members(own, 0, None)
    count = len(training)
    (base, here), (other, there) = _positions(evaluation), _positions(training)
    if base is other:
        return Members(np.isin(here, there), count, count)
    looked, known = 0, dict[_Names, _Digests | None]()
    for place in np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int)):
        item = training[int(place)]
        names = _names(item)
        if names not in known:
            known[names] = _digests(evaluation, names, read)
        if (wanted := known[names]) is None:
            break  # reading on would take time and compare nothing
        digests = {keys: _digest(item, keys) for keys in wanted}
        looked += None not in digests.values()
        for keys, digest in digests.items():
            if digest is not None:
                own[wanted[keys].get(digest, [])] = True
    return Members(own, looked, count)


def _digests(evaluation: Any, names: _Names, read: Collection[str] | None) -> _Digests | None:
    """Positions of evaluation samples by their digests, by the keys shared with a sample that has ``names``.

    None if some sample has nothing to compare.
    """
    found: _Digests = {}
    for place in range(len(evaluation)):
        item = evaluation[place]
        keys = _shared(_names(item), names, read)
        if (digest := _digest(item, keys)) is None:
            return None
        found.setdefault(keys, {}).setdefault(digest, []).append(place)
    return found


def _names(item: Any) -> _Names:
    return frozenset(item) if isinstance(item, Mapping) else None


def _shared(one: _Names, other: _Names, read: Collection[str] | None) -> _Names:
    """The keys to compare two samples by; None where neither has keys."""
    if one is None and other is None:
        return None
    shared = ((one or frozenset()) & (other or frozenset())).difference(LABELS)
    return shared if read is None else shared.intersection(read)


def _positions(data: Any) -> tuple[Any, np.ndarray]:
    """The data set at the bottom of subsets, and the positions in it."""
    places = np.arange(len(data))
    while isinstance(data, Subset):
        places, data = np.asarray(data.indices)[places], data.dataset
    return data, places


def _digest(item: Any, keys: _Names) -> bytes | None:
    """The inputs of a sample, without its label; None if there is nothing to compare."""
    if keys is not None:
        if not keys:
            return None  # the digest of nothing would be that of any other sample
        item = {name: item[name] for name in sorted(keys)}
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

"""What records must share before they can be put together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.records.laws import RecordError, quoted
from discreet.records.record import Record

__all__ = ["Kind", "Witness", "aligned", "common"]


@dataclass(frozen=True)
class Kind:
    """Signals with their axes and dtypes, sizes, and whether memberships are known.

    Attributes:
        axes: The axes of each signal.
        dtypes: The dtype of each signal; ``text`` for text of any width.
        sizes: The size of each axis along which parts do not differ.
        flags: Whether there are ``member`` and ``calibration``.
    """

    axes: Mapping[str, tuple[str, ...]]
    dtypes: Mapping[str, str]
    sizes: Mapping[str, int]
    flags: Mapping[str, bool]

    @classmethod
    def of(cls, record: Record, apart: str) -> Kind:
        """Read it off a record; ``apart`` is the axis along which parts differ, ``row`` or ``sample``."""
        gone = {"row"} if apart == "row" else {"sample", "token", "bound"}
        signals = record.signals.items()
        return cls(
            axes=dict(record.axes),
            dtypes={n: "text" if s.dtype.kind == "U" else str(s.dtype) for n, s in signals},
            sizes={
                a: z
                for n, s in signals
                for a, z in zip(record.axes[n], s.shape, strict=True)
                if a not in gone
            },
            flags={name: getattr(record, name) is not None for name in ("member", "calibration")},
        )

    def check(self, other: Kind, name: str, first: str) -> None:
        """Refuse a part of another kind, and say what differs from the first."""
        for what in ("axes", "dtypes", "sizes"):
            mine, theirs = getattr(self, what), getattr(other, what)
            for key in sorted({*mine, *theirs}):
                one, two = mine.get(key, "absent"), theirs.get(key, "absent")
                if one != two:
                    raise RecordError(f"{what} differ: {quoted(key)} is {one} in {first}, {two} in {name}")
        for what, known in self.flags.items():
            if known != other.flags[what]:
                having, lacking = (first, name) if known else (name, first)
                raise RecordError(f"{what} is in {having}, but not in {lacking}")


@dataclass
class Witness:
    """Remembers, as digests, what several parts say about one thing, and refuses a contradiction."""

    said: dict[tuple[str, ...], tuple[bytes, str]] = field(default_factory=dict)

    def hear(self, key: tuple[str, ...], data: bytes, what: str, name: str) -> None:
        """Take the word of the part ``name`` for ``key``."""
        digest = hashlib.blake2b(data, digest_size=16).digest()
        known, who = self.said.setdefault(key, (digest, name))
        if known != digest:
            raise RecordError(f"{what} differs between {who} and {name}")


def aligned(record: Record, sample: np.ndarray, name: str, first: str) -> Record:
    """Return ``record`` with its samples in the order of ``sample``, the ids in the part ``first``."""
    mine = record.sample
    if mine.dtype.kind != sample.dtype.kind:
        mine, sample = mine.astype(str), sample.astype(str)
    if np.array_equal(mine, sample):
        return record
    lacking, extra = np.setdiff1d(sample, mine), np.setdiff1d(mine, sample)
    for missing, here, there in ((lacking, first, name), (extra, name, first)):
        if missing.size:
            raise RecordError(f"samples differ: {quoted(missing[0])} is in {here}, but not in {there}")
    order = np.empty(sample.size, np.int64)
    order[np.argsort(sample)] = np.argsort(mine)
    return record.take_samples(order)


def common(abouts: Sequence[Any]) -> Any:
    """Merge JSON objects key by key; values that disagree are all kept, as ``{"merged": [...]}``.

    Example:
        >>> common([{"seed": 1, "run": {"0": 3}}, {"seed": 2, "run": {"1": 4}}])
        {'seed': {'merged': [1, 2]}, 'run': {'0': 3, '1': 4}}
    """
    if all(isinstance(about, Mapping) and "merged" not in about for about in abouts):
        keys = dict.fromkeys(key for about in abouts for key in about)
        return {key: common([about[key] for about in abouts if key in about]) for key in keys}
    values: list[Any] = []
    for about in abouts:
        whole = about["merged"] if isinstance(about, Mapping) and "merged" in about else [about]
        values += [value for value in whole if not any(_equal(value, known) for known in values)]
    return values[0] if len(values) == 1 else {"merged": values}


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other

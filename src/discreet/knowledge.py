"""What a partly informed attacker is told: half of the members, half of the others.

Zhu et al., "Safety and Performance, Why not Both?" (2022), section 5.1 and Table 1.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from discreet._types import Int
from discreet.records import Record

__all__ = ["know_half"]


def know_half(record: Record, seed: int) -> Record:
    """Tell the attacker of each run half of its members and half of its non-members.

    The halves are drawn anew for each run, from the ids of the samples: their order does not matter. Nothing else
    about a sample counts. Halves drawn class by class would tell which share of each class trained the model, which
    differs by chance between runs: an attacker who only reads labels would be right too often, whatever the model.
    Samples marked ``public`` and those that calibrated a row's quantizer stay out of both halves.

    Args:
        record: With the membership of every run.
        seed: Of the draw.

    Returns:
        The record with the signal ``known`` [row, sample], int8: 1 a known member, 0 a known non-member, -1 unknown.

    Raises:
        RecordError: The record does not know the membership of a run.

    Example:
        >>> record = Record(
        ...     run=("0",), step=np.array([1.0]), variant=("full",), sample=np.arange(6),
        ...     signals={"loss": np.zeros((1, 6))}, member=np.array([[True, True, True, True, False, False]]),
        ... )
        >>> sorted(know_half(record, 0).signal("known")[0].tolist())
        [-1, -1, -1, 0, 1, 1]
    """
    drawn = {run: _halves(record, run, seed) for run in record.runs}
    known = np.stack([drawn[run] for run in record.run])
    if record.calibration is not None:
        for row, (run, variant) in enumerate(zip(record.run, record.variant, strict=True)):
            used = record.calibration[record.member_runs.index(run), record.variants.index(variant)]
            known[row, used] = -1
    axes = {name: each for name, each in record.axes.items() if name != "known"}
    return replace(record, signals={**record.signals, "known": known}, axes=axes)


def _halves(record: Record, run: str, seed: int) -> Int[np.ndarray, " sample"]:
    member = record.membership(run)
    public = record.signal("public") == 1 if "public" in record.signals else np.zeros(record.n_samples, bool)
    rng = np.random.default_rng([seed, int.from_bytes(hashlib.blake2b(run.encode(), digest_size=8).digest())])
    order = np.argsort(record.sample, kind="stable")
    known = np.full(record.n_samples, -1, np.int8)
    for value in (True, False):
        rows = rng.permutation(order[((member == value) & ~public)[order]])
        known[rows[int(rng.integers(2)) :: 2]] = value
    return known

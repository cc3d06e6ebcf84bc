"""Who trains on what: complementary pairs, so that every sample trains exactly half of the models."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Int
from discreet.data.splits import complementary_halves

__all__ = ["Assignment", "assign", "draw_calibration"]


@dataclass(frozen=True, eq=False)
class Assignment:
    """Which samples train which model.

    Attributes:
        member: Training membership; models 2i and 2i + 1 are partners, with complementary halves.
        public: Samples that train no model, as an attacker may know.
        spare: Samples that train no model because the others could not be halved without them; nobody is told.
    """

    member: Bool[np.ndarray, "model sample"]
    public: Bool[np.ndarray, " sample"]
    spare: Int[np.ndarray, " spare"]

    def subset(self, model: int) -> Int[np.ndarray, " n"]:
        """Training samples of a model, ascending."""
        return np.flatnonzero(self.member[model])


def assign(
    samples: int,
    models: int,
    *,
    public: np.ndarray | None = None,
    group: np.ndarray | None = None,
    seed: int = 0,
) -> Assignment:
    """Draw training halves in pairs.

    Args:
        samples: Number of samples.
        models: Number of models, even.
        public: Positions of samples that must train no model, or a mask [sample].
        group: Samples of one group are in a half together or not at all; each its own group when None.
        seed: Seed; the first models of more models are the same.

    Raises:
        ValueError: An odd number of models, positions outside the samples, or too few samples to halve.

    Example:
        >>> found = assign(7, 4, public=np.array([6]), seed=0)
        >>> found.member.sum(axis=0).tolist(), found.member.sum(axis=1).tolist()
        ([2, 2, 2, 2, 2, 2, 0], [3, 3, 3, 3])
    """
    if models < 2 or models % 2:
        raise ValueError(
            f"models: expected an even number, at least 2, got {models}: models come in pairs with complementary "
            "halves, so that every sample trains exactly half of them"
        )
    told = np.zeros(samples, bool)
    if public is not None:
        public = _positions(np.asarray(public), samples)
        wrong = (public < 0) | (public >= samples)
        if wrong.any():
            raise ValueError(f"public: expected positions from 0 to {samples - 1}, got {public[wrong][0]}")
        told[public] = True
    group = np.arange(samples) if group is None else np.asarray(group)
    if len(group) != samples:
        raise ValueError(f"group: expected one for each of {samples} samples, got {len(group)}")
    shared = np.intersect1d(group[told], group[~told])
    if len(shared):
        raise ValueError(f"public: group {shared[0]} has public samples and others; expected whole groups")
    private = np.flatnonzero(~told)
    private, spare = _even(private, group, seed)
    if len(private) < 2:
        raise ValueError(f"samples: expected at least 2 that are not public, got {len(private)}")
    member = np.zeros((models, samples), bool)
    member[:, private] = complementary_halves(group[private], models // 2, seed=seed)
    return Assignment(member, told, spare)


def _positions(public: np.ndarray, samples: int) -> Int[np.ndarray, " public"]:
    """Positions, of a mask as well."""
    if public.dtype == bool and public.shape == (samples,):
        return np.flatnonzero(public)
    if public.ndim != 1 or (public.dtype.kind not in "iu" and public.size):
        raise ValueError(
            f"public: expected positions of samples, whole numbers, got {public.dtype} of shape {list(public.shape)}"
        )
    return public.astype(np.int64)


def _even(
    private: Int[np.ndarray, " private"], group: np.ndarray, seed: int
) -> tuple[Int[np.ndarray, " kept"], Int[np.ndarray, " spare"]]:
    """Leave out one group of odd size, at random, where the number of samples is odd."""
    if len(private) % 2 == 0:
        return private, np.empty(0, np.int64)
    names, sizes = np.unique(group[private], return_counts=True)
    odd = names[(sizes % 2 == 1) & (sizes == sizes[sizes % 2 == 1].min())]
    out = group[private] == odd[np.random.default_rng([seed, len(private)]).integers(len(odd))]
    return private[~out], private[out]


def draw_calibration(
    assignment: Assignment, model: int, rows: int, source: str, seed: int
) -> Int[np.ndarray, " row"]:
    """Samples that calibrate the compression of one model: its own draw, never its partner's or the target's.

    Args:
        assignment: Who trains on what.
        model: The model.
        rows: How many.
        source: ``"members"``: from its training samples; ``"fresh"``: from private samples it did not train on.
        seed: Seed of the bank.

    Raises:
        ValueError: There are not so many.
    """
    inside = assignment.member[model]
    pool = np.flatnonzero(inside if source == "members" else ~(inside | assignment.public))
    if rows > len(pool):
        raise ValueError(f"calibration: expected at most {len(pool)} {source} samples a model, got {rows}")
    return np.sort(np.random.default_rng([seed, model, 2]).choice(pool, rows, replace=False))

"""Scores with their answers: the checks every figure of merit starts with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Num

__all__ = ["Labelled", "check_level", "labelled", "split_classes"]


@dataclass(frozen=True)
class Labelled:
    """One target's scores, parted by class, each part ascending (so row order is gone).

    Attributes:
        members: Scores of the training records; higher = more likely member.
        others: Scores of the non-members.
    """

    members: Float[np.ndarray, " member"]
    others: Float[np.ndarray, " other"]


def check_level(level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"level: expected a number in (0, 1), got {level}")


def labelled(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> tuple[Float[np.ndarray, "run sample"], Bool[np.ndarray, "run sample"], Bool[np.ndarray, "run sample"]]:
    """Check scores, membership and mask; give all three as [run, sample] (one run for one axis).

    Args:
        scores: One score a sample, or [run, sample]; higher = more likely member.
        member: The answer, same shape.
        keep: Entries to judge, same shape; all when None.

    Raises:
        ValueError: Shapes differ, a judged score is not finite, or a run lacks one of the classes.
    """
    scores = np.asarray(scores)
    member = np.asarray(member)
    if scores.ndim not in (1, 2) or scores.size == 0:
        raise ValueError(
            f"scores: expected shape [sample] or [run, sample], none empty, got {list(scores.shape)}"
        )
    keep = np.ones(scores.shape, dtype=bool) if keep is None else np.asarray(keep)
    for name, array in (("member", member), ("keep", keep)):
        if array.shape != scores.shape:
            raise ValueError(
                f"{name}: expected the shape of scores, {list(scores.shape)}, got {list(array.shape)}"
            )
        if array.dtype != bool:
            raise ValueError(f"{name}: expected booleans, got {array.dtype}")
    values = np.atleast_2d(scores).astype(np.float64)
    member, keep = np.atleast_2d(member), np.atleast_2d(keep)
    _refuse(values, member, keep)
    return values, member, keep


def split_classes(
    scores: Num[np.ndarray, "*_run _sample"],
    member: Bool[np.ndarray, "*_run _sample"],
    keep: Bool[np.ndarray, "*_run _sample"] | None = None,
) -> Labelled:
    """Part one target's scores by class, each ascending.

    Example:
        >>> split_classes(np.array([3.0, 1.0, 2.0]), np.array([True, False, False]))
        Labelled(members=array([3.]), others=array([1., 2.]))
    """
    if np.ndim(scores) != 1:
        raise ValueError(f"scores: expected shape [sample], got {list(np.shape(scores))}")
    values, truth, mask = labelled(scores, member, keep)
    return Labelled(np.sort(values[0, truth[0] & mask[0]]), np.sort(values[0, ~truth[0] & mask[0]]))


def _refuse(
    scores: Float[np.ndarray, "run sample"],
    member: Bool[np.ndarray, "run sample"],
    keep: Bool[np.ndarray, "run sample"],
) -> None:
    bad = keep & ~np.isfinite(scores)
    if bad.any():
        run, row = np.argwhere(bad)[0]
        where = f"sample {row}" + (f" of run {run}" if len(scores) > 1 else "")
        raise ValueError(
            f"scores: expected finite numbers, got {scores[run, row]} at {where} ({bad.sum()} such scores)"
        )
    for name, row_has in (
        ("member", (member & keep).any(axis=1)),
        ("non-member", (~member & keep).any(axis=1)),
    ):
        if not row_has.all():
            run = int(np.argmin(row_has))
            where = f" in run {run}" if len(scores) > 1 else ""
            raise ValueError(f"member: expected both classes, got no {name}{where}")

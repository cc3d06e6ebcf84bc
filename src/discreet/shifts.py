"""Additive shifts that make a false positive rate hold in every one of several groups, which may intersect.

Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023), section 3: quantile regression
over a class closed under shifts by group indicators has the right rate in each group. Here the class is what such
shifts make of given scores, and its pinball loss (Eq. 2) is minimised exactly, as a linear programme (Koenker and
Bassett, "Regression Quantiles" (1978)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float, Num
from discreet.conformal import needs
from discreet.groups import Groups, GroupTest, check_groups, named_groups
from discreet.roc import check_fpr

__all__ = ["GroupShifts", "fit_shifts", "pinball"]


@dataclass(frozen=True)
class GroupShifts:
    """One shift a group, on top of one for everybody.

    Attributes:
        alpha: The false positive rate that they were fitted for.
        everybody: Shift of all samples.
        by_group: Shift of each group; a sample's shift is the sum over its groups.
        n: Rows they were fitted on.
        loss: Mean pinball loss of the shifted scores on these rows.
        before: The same with a shift for everybody alone.
    """

    alpha: float
    everybody: float
    by_group: dict[str, float]
    n: int
    loss: float
    before: float

    def apply(self, scores: Num[np.ndarray, " sample"], groups: Groups) -> Float[np.ndarray, " sample"]:
        """Scores less their thresholds: accuse where this is above 0.

        The difference stays a score (higher = more likely member), so it can be calibrated once more on rows
        that the shifts were not fitted on, which makes the rate over everybody exact.

        Raises:
            ValueError: Groups other than those fitted, or of the wrong shape.
        """
        masks = named_groups(groups, len(scores))
        unknown = [name for name in masks if name not in self.by_group]
        if unknown:
            raise ValueError(
                f"groups: no shift was fitted for {unknown[0]!r}; there are {', '.join(self.by_group)}"
            )
        total = np.full(len(scores), self.everybody)
        for name, mask in masks.items():
            total += self.by_group[name] * mask
        return np.asarray(scores, dtype=np.float64) - total

    def check(self, scores: Num[np.ndarray, " sample"], groups: Groups, *, level: float = 0.95) -> GroupTest:
        """Test the rates in all groups on non-members that were held out of the fit."""
        return check_groups(self.apply(scores, groups) > 0, groups, self.alpha, level=level)


def fit_shifts(scores: Num[np.ndarray, " sample"], groups: Groups, alpha: float) -> GroupShifts:
    """Fit the shifts on scores of non-members.

    Args:
        scores: Scores of non-members; higher = more likely member.
        groups: Labels [sample], or a mask [sample] a group; groups may intersect.
        alpha: The false positive rate to reach in every group.

    Raises:
        ValueError: A score that is not finite, or a group too small to resolve ``alpha``.

    Example:
        >>> scores = np.concatenate([np.arange(100.0), 10 + np.arange(100.0)])
        >>> fitted = fit_shifts(scores, np.repeat(["a", "b"], 100), 0.1)
        >>> (fitted.apply(scores, np.repeat(["a", "b"], 100)) > 0).reshape(2, 100).sum(axis=1) <= 10
        array([ True,  True])
    """
    check_fpr(alpha)
    values = np.asarray(scores, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"scores: expected finite numbers, got {int((~np.isfinite(values)).sum())} others")
    masks = named_groups(groups, len(values))
    for name, mask in masks.items():
        if mask.sum() < needs(alpha):
            raise ValueError(
                f"groups: {name!r} has {int(mask.sum())} rows; FPR {alpha:g} is not resolvable (needs {needs(alpha)})"
            )
    design = np.column_stack([np.ones(len(values)), *masks.values()]).astype(np.float64)
    # Rows in one order, so that the order of samples cannot choose among equally good shifts.
    order = np.lexsort((values, *design.T))
    shift = _minimise(values[order], design[order], 1 - alpha)
    constant = np.quantile(values, 1 - alpha, method="inverted_cdf")
    left = values - design @ shift
    return GroupShifts(
        alpha=float(alpha),
        everybody=float(shift[0]),
        by_group=dict(zip(masks, map(float, shift[1:]), strict=True)),
        n=len(values),
        loss=pinball(left, 1 - alpha),
        before=pinball(values - constant, 1 - alpha),
    )


def pinball(residual: Float[np.ndarray, " sample"], level: float) -> float:
    """Mean pinball loss of residuals s - q at a quantile level (Eq. 2).

    Example:
        >>> round(pinball(np.arange(1.0, 101) - 99, 0.99), 3)
        0.495
    """
    return float(np.mean(np.sort(np.maximum(level * residual, (level - 1) * residual))))


_AT_ONCE = 2000


def _minimise(
    t: Float[np.ndarray, " sample"], design: Float[np.ndarray, "sample shift"], level: float
) -> Float[np.ndarray, " shift"]:
    """Minimise the pinball loss of t - design @ shift.

    The exact solution needs only the rows near their threshold (Portnoy and Koenker, "The Gaussian Hare and the
    Laplacian Tortoise" (1997)): the others' sides are guessed from a fit of some rows, and looked at afterwards.
    """
    if len(t) <= _AT_ONCE:
        return _dual(t, design, level, np.zeros(design.shape[1]))
    shift = _dual(*_thinned(t, design), level, np.zeros(design.shape[1]))
    keep = _AT_ONCE
    while keep < len(t):
        left = t - design @ shift
        near = np.zeros(len(t), bool)
        near[np.argsort(np.abs(left), kind="stable")[:keep]] = True
        side = np.where(left > 0, level, level - 1)
        try:
            found = _dual(t[near], design[near], level, design[~near].T @ side[~near])
        except ArithmeticError:  # too few rows left to balance the others
            keep *= 2
            continue
        if ((t - design @ found > 0) == (left > 0))[~near].all():
            return found
        shift, keep = found, keep * 2
    return _dual(t, design, level, np.zeros(design.shape[1]))


def _thinned(
    t: Float[np.ndarray, " sample"], design: Float[np.ndarray, "sample shift"]
) -> tuple[Float[np.ndarray, " some"], Float[np.ndarray, "some shift"]]:
    """Every k-th row; rows are in order, so each mix of groups keeps its share and its spread."""
    every = len(t) // _AT_ONCE
    return t[::every], design[::every]


def _dual(
    t: Float[np.ndarray, " sample"],
    design: Float[np.ndarray, "sample shift"],
    level: float,
    others: Float[np.ndarray, " shift"],
) -> Float[np.ndarray, " shift"]:
    """maximise t·a subject to designᵀ a + others = 0 and level - 1 <= a <= level; the shifts are the multipliers."""
    from scipy import optimize

    scale = float(np.abs(t).max()) or 1.0
    solved = optimize.linprog(
        -t / scale, A_eq=design.T, b_eq=-others, bounds=(level - 1, level), method="highs-ds"
    )
    if solved.status != 0:
        raise ArithmeticError(f"shifts: the linear programme was not solved: {solved.message}")
    return -np.asarray(solved.eqlin.marginals) * scale

"""Does a false positive rate hold inside every group, and the two repairs when it does not.

Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023), section 3: a rate that holds
on average need not hold in a group; it does for quantiles fitted over a class closed under shifts by group
indicators. Groups should be fixed before anybody looks at members. Higher scores mean "more likely member".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.conformal import Calibrated, calibrate, p_values
from discreet.intervals import clopper_pearson
from discreet.labelled import check_level
from discreet.roc import check_fpr

__all__ = ["GroupRate", "GroupTest", "Groups", "check_groups", "mondrian", "named_groups"]

Groups = Mapping[str, np.ndarray] | np.ndarray
"""One label a sample (disjoint groups), or a mask [sample] for each name (groups that may intersect)."""

_EXPECTED = 5  # accusations expected in a group before the test says anything


@dataclass(frozen=True)
class GroupRate:
    """False positive rate inside one group of non-members.

    Attributes:
        group: Name of the group.
        n: Non-members in it.
        accused: How many of them were accused.
        low: Lower end of the rate's Clopper-Pearson interval; the intervals of all tested groups hold together.
        high: Upper end of it.
        p: Exact binomial two-sided p-value against the rate asked for; 1 where too few to test.
        adjusted: The same after Holm's correction for all tested groups.
        status: ``"holds"``, ``"differs"`` or ``"insufficient"`` (fewer than five accusations expected).
    """

    group: str
    n: int
    accused: int
    low: float
    high: float
    p: float
    adjusted: float
    status: str

    @property
    def rate(self) -> float:
        """Share accused."""
        return self.accused / self.n


@dataclass(frozen=True)
class GroupTest:
    """The rates of all groups.

    Attributes:
        alpha: The rate asked for.
        level: Confidence level, of the intervals together and of the test.
        groups: One entry a group, by name.
    """

    alpha: float
    level: float
    groups: tuple[GroupRate, ...]

    @property
    def worst(self) -> GroupRate | None:
        """The tested group whose rate is furthest from ``alpha``; None where none could be tested."""
        tested = [group for group in self.groups if group.status != "insufficient"]
        return max(tested, key=lambda group: abs(group.rate - self.alpha), default=None)

    @property
    def differing(self) -> tuple[str, ...]:
        """Groups whose rate is not ``alpha``."""
        return tuple(group.group for group in self.groups if group.status == "differs")

    @property
    def insufficient(self) -> tuple[str, ...]:
        """Groups that are too small to be tested."""
        return tuple(group.group for group in self.groups if group.status == "insufficient")

    def __str__(self) -> str:
        few = f"; insufficient: {', '.join(self.insufficient)}" if self.insufficient else ""
        worst = self.worst
        if worst is None:
            return f"FPR {self.alpha:.4g}: no group is large enough to test{few}"
        said = f"differs in {', '.join(self.differing)}" if self.differing else "no group differs"
        return (
            f"FPR {self.alpha:.4g}: {said}; furthest: {worst.group} {worst.rate:.3g} "
            f"[{worst.low:.3g}, {worst.high:.3g}] (n = {worst.n:,}){few}"
        )


def check_groups(
    accused: Bool[np.ndarray, " sample"], groups: Groups, alpha: float, *, level: float = 0.95
) -> GroupTest:
    """Test in each group whether non-members are accused at the rate asked for.

    The test is about the threshold at hand: one set on few calibration rows misses the rate by luck, everywhere
    (:func:`discreet.conformal.realised_band` says by how much), and the test then sees that too.

    Args:
        accused: Which non-members were accused; none of them may have served to fit or calibrate.
        groups: Labels [sample], or a mask [sample] a group; groups may intersect.
        alpha: The false positive rate asked for.
        level: The chance that no true group is said to differ is at least this (Holm, "A Simple
            Sequentially Rejective Multiple Test Procedure" (1979)).

    Raises:
        ValueError: A mask of the wrong shape or type, an empty group, or a rate or level out of range.

    Example:
        >>> accused = np.arange(2000) % 100 == 0
        >>> print(check_groups(accused, np.where(np.arange(2000) < 1000, "a", "b"), 0.01))
        FPR 0.01: no group differs; furthest: a 0.01 [0.00429, 0.0196] (n = 1,000)
    """
    check_fpr(alpha)
    check_level(level)
    masks = named_groups(groups, len(accused))
    counts = {name: (int(mask.sum()), int(accused[mask].sum())) for name, mask in masks.items()}
    tested = [name for name, (n, _) in counts.items() if n * alpha >= _EXPECTED]
    p = {name: _binomial(*counts[name], alpha) for name in tested}
    adjusted = dict(zip(tested, _holm(np.array([p[name] for name in tested])), strict=True))
    # Bonferroni, so that the furthest group's interval holds although it was picked.
    joint = 1 - (1 - level) / max(len(tested), 1)
    found = []
    for name, (n, hits) in counts.items():
        low, high = clopper_pearson(hits, n, level=joint)
        status = "insufficient" if name not in p else "differs" if adjusted[name] <= 1 - level else "holds"
        found.append(
            GroupRate(name, n, hits, low, high, p.get(name, 1.0), float(adjusted.get(name, 1.0)), status)
        )
    return GroupTest(float(alpha), level, tuple(found))


def mondrian(
    scores: Num[np.ndarray, " sample"],
    labels: np.ndarray,
    calibration: Num[np.ndarray, " calibrated"],
    calibration_labels: np.ndarray,
    alpha: float,
    *,
    level: float = 0.95,
) -> tuple[Float[np.ndarray, " sample"], dict[str, Calibrated]]:
    """Conformal p-values within disjoint groups: each sample against the calibration rows of its own group.

    Vovk et al., "Algorithmic Learning in a Random World" (2005), section 4.5: the rate then holds in each group.

    Args:
        scores: Scores to judge; higher = more likely member.
        labels: Group of each.
        calibration: Scores of non-members that nothing was fitted to.
        calibration_labels: Group of each.
        alpha: False positive rate of the thresholds returned.
        level: Confidence level of their bands.

    Returns:
        A p-value a sample, and the calibration of each group, which says whether it resolves ``alpha``.

    Raises:
        ValueError: A group to judge has no calibration row, or shapes differ.

    Example:
        >>> p, by_group = mondrian(
        ...     np.array([9.0, 9.0]), np.array(["a", "b"]), np.array([0.0, 1.0, 10.0]), np.array(["a", "a", "b"]), 0.4
        ... )
        >>> p.round(2), by_group["b"].resolvable
        (array([0.33, 1.  ]), False)
    """
    own, theirs = named_groups(labels, len(scores)), named_groups(calibration_labels, len(calibration))
    missing = [name for name in own if name not in theirs]
    if missing:
        raise ValueError(f"calibration: no row of group {missing[0]!r} ({len(missing)} such groups)")
    p = np.empty(len(scores))
    for name, mask in own.items():
        p[mask] = p_values(scores[mask], calibration[theirs[name]])
    return p, {name: calibrate(calibration[mask], alpha, level=level) for name, mask in theirs.items()}


def named_groups(groups: Groups, n: int) -> dict[str, Bool[np.ndarray, " sample"]]:
    """Masks by name, in the order of names.

    Raises:
        ValueError: A label or mask array of the wrong shape or type, or an empty group.

    Example:
        >>> {name: mask.tolist() for name, mask in named_groups(np.array([7, 3, 7]), 3).items()}
        {'3': [False, True, False], '7': [True, False, True]}
    """
    if not isinstance(groups, Mapping):
        labels = np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(
                f"groups: expected one label for each of {n} samples, got shape {list(labels.shape)}"
            )
        return {str(name): labels == name for name in np.unique(labels)}
    if not groups:
        raise ValueError("groups: expected at least one group, got none")
    for name, mask in groups.items():
        if np.shape(mask) != (n,) or np.asarray(mask).dtype != bool:
            raise ValueError(
                f"groups: expected {n} booleans for {name!r}, got {np.asarray(mask).dtype} {list(np.shape(mask))}"
            )
        if not np.any(mask):
            raise ValueError(f"groups: {name!r} has no sample")
    return {name: np.asarray(groups[name]) for name in sorted(groups)}


def _binomial(n: int, hits: int, alpha: float) -> float:
    from scipy import stats

    return float(stats.binomtest(hits, n, alpha).pvalue)


def _holm(p: Float[np.ndarray, " test"]) -> Float[np.ndarray, " test"]:
    """Adjusted p-values: the i-th smallest times the number not yet rejected, never falling."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))), 1.0)
    return adjusted

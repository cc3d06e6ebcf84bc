"""What all verdicts on molecules share: intervals over tasks, and the two readings of "best checkpoint"."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet.studies.claim import Claim, Verdict
from discreet.studies.molecules_unit import VARIANTS

__all__ = [
    "ENOUGH",
    "MILD",
    "RULES",
    "STRONG",
    "Interval",
    "Judged",
    "over_tasks",
    "share_of_tasks",
    "under_both",
]

STRONG = tuple(v for v in VARIANTS if v.startswith(("sign", "ternary")))
"""1 and 1.58 bits."""
MILD = tuple(v for v in VARIANTS if v.startswith("uniform"))
"""2 to 5 bits."""
RULES = ("full precision's best checkpoint for all", "each variant's own best checkpoint")
"""What the paper's "best checkpoint" may mean; it does not say."""

ENOUGH = 0.44
"""What the low end of `share_of_tasks` must exceed for a firm verdict: four tasks that all but agree do it."""


@dataclass(frozen=True)
class Interval:
    """A mean over tasks, with a 95 % interval that takes the tasks as drawn from others.

    Attributes:
        value: The mean.
        low: Lower end; minus infinity where there is one task.
        high: Upper end.
        tasks: How many.
    """

    value: float
    low: float
    high: float
    tasks: int

    def told(self, show: Callable[[float], str], least: float = -np.inf, most: float = np.inf) -> str:
        """The mean and the ends, which go no further than what is possible."""
        if self.tasks < 2:
            return f"{show(self.value)} (one task: no interval)"
        low, high = max(least, self.low), min(most, self.high)
        return f"{show(self.value)} (95 % interval over {self.tasks} tasks {show(low)} to {show(high)})"


def over_tasks(values: Sequence[float]) -> Interval:
    """The mean of one value a task, and its t interval: of one task all that is possible.

    Example:
        >>> found = over_tasks([1.0, 2.0, 3.0])
        >>> round(found.value, 2), round(found.low, 2), round(found.high, 2)
        (2.0, -0.48, 4.48)
    """
    from scipy.special import stdtrit

    taken = np.array(values, np.float64)
    if len(taken) < 2:
        return Interval(float(taken.mean()), -np.inf, np.inf, len(taken))
    half = float(stdtrit(len(taken) - 1, 0.975) * taken.std(ddof=1) / np.sqrt(len(taken)))
    return Interval(float(taken.mean()), float(taken.mean()) - half, float(taken.mean()) + half, len(taken))


def share_of_tasks(values: Sequence[float]) -> Interval:
    """The mean of a share of each task, and Wilson's interval as if a task were one trial.

    Cells of one task count once, however alike they are; and tasks that agree wholly still leave an interval.

    Example:
        >>> found = share_of_tasks([1.0, 1.0])
        >>> found.value, round(found.low, 2), found.high
        (1.0, 0.34, 1.0)
    """
    n, p, z = len(values), float(np.mean(values)), 1.959964
    centre, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n**2))
    low, high = ((centre + sign * half) / (1 + z * z / n) for sign in (-1, 1))
    return Interval(p, max(0.0, float(low)), min(1.0, float(high)), n)


@dataclass(frozen=True)
class Judged:
    """A verdict under one rule.

    Attributes:
        verdict: The verdict.
        numbers: What it rests on.
    """

    verdict: Verdict
    numbers: str


def under_both(says: str, where: str, judged: Mapping[str, Judged], needs: str, beside: str = "") -> Claim:
    """A claim judged under both rules: a verdict only where they agree.

    Args:
        says: The claim.
        where: Where it is made.
        judged: By rule.
        needs: What would tell where neither does.
        beside: Numbers that hang on no rule.
    """
    verdicts: dict[str, Verdict] = {rule: each.verdict for rule, each in judged.items()}
    agreed = len(set(verdicts.values())) == 1
    verdict: Verdict = next(iter(verdicts.values())) if agreed else "cannot tell"
    told = "; ".join(f"{rule}: {each.numbers}" for rule, each in judged.items())
    if not agreed:
        ways = ", ".join(f"*{each}* by {rule}" for rule, each in verdicts.items())
        needs = f"depends on which checkpoint is the best one, which the paper does not say: {ways}; {needs}"
    return Claim(
        says,
        where,
        verdict,
        f"{told}; {beside}" if beside else told,
        needs if verdict == "cannot tell" else "",
    )

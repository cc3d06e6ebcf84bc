"""What the paper says about r on molecules, claim by claim; see `discreet.studies.molecules_claims`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from discreet._words import number, percent, whole
from discreet.deciding import lambda_by_rank
from discreet.indicator import RunIndicator
from discreet.studies.claim import Claim, Verdict
from discreet.studies.molecules import Measured, Molecules
from discreet.studies.molecules_judging import (
    ENOUGH,
    MILD,
    RULES,
    STRONG,
    Interval,
    Judged,
    over_tasks,
    share_of_tasks,
    under_both,
)
from discreet.studies.molecules_tables import FIGURES
from discreet.studies.molecules_unit import FULL, VARIANTS

__all__ = ["security_claims", "trade"]

MARGIN = 0.01
"""Differences of r below this count as none: a tenth or so of the r that 1 and 1.58 bits have where r is resolved."""


def security_claims(found: Molecules) -> tuple[Claim, ...]:
    """The claims on which quantizers are safer, and on which checkpoints decide."""
    return (*_pair_claims(found), _low_ranks(found))


def _pair_claims(found: Molecules) -> Iterator[Claim]:
    yield _strong_safer(_pairs(found, lambda a, b: a in STRONG and b in MILD), _size(found))
    yield _mild_alike(_pairs(found, lambda a, b: a in MILD and (b == FULL or (b in MILD and a < b))))


def _size(found: Molecules) -> str:
    n = sorted(row.ranking.indicators[0].samples for row in found.measured)
    return f"{found.scale.runs} runs and {whole(n[0])} to {whole(n[-1])} validation molecules"


@dataclass(frozen=True)
class _Pairs:
    """Pairs (supposed to be safer, other) of one task: told apart as claimed or the other way round, or not.

    Attributes:
        right: Told apart as claimed.
        wrong: Told apart the other way round.
        open: Not told apart.
        below: Those of the last in which both r are below the resolution.
        alike: The upper end of the gain in r is below `MARGIN`.
        gained: Those told apart as claimed that are not alike.
    """

    right: int = 0
    wrong: int = 0
    open: int = 0
    below: int = 0
    alike: int = 0
    gained: int = 0

    @property
    def all(self) -> int:
        return self.right + self.wrong + self.open

    def __add__(self, other: _Pairs) -> _Pairs:
        return _Pairs(
            self.right + other.right,
            self.wrong + other.wrong,
            self.open + other.open,
            self.below + other.below,
            self.alike + other.alike,
            self.gained + other.gained,
        )


def _pairs(found: Molecules, wanted: Callable[[str, str], bool]) -> dict[str, _Pairs]:
    """Pairs over all rankings, by task."""
    by_task: dict[str, _Pairs] = {}
    for row in found.measured:
        for pair in row.ranking.pairwise:
            for a, b, way in ((pair.safer, pair.than, True), (pair.than, pair.safer, False)):
                if wanted(a, b):
                    low = all("below-resolution" in row.ranking[name].diagnostics for name in (a, b))
                    apart, alike = pair.told_apart, pair.runs > 1 and _most(row, a, b) < MARGIN
                    right = apart and way
                    one = _Pairs(
                        right, apart and not way, not apart, not apart and low, alike, right and not alike
                    )
                    by_task[row.task] = by_task.get(row.task, _Pairs()) + one
    return by_task


def _most(row: Measured, a: str, b: str) -> float:
    """Upper end of the r of ``a`` less that of ``b``, from the ends of both: wide where few molecules resolve r.

    The paired difference would be narrower, but says nothing of how far each r lies below its true value, from
    picking the least ratio of nearly tied candidates.
    """
    high, low = row.ranking[a].high, row.ranking[b].low
    return np.inf if high is None or low is None else high - low


def _share(by_task: Mapping[str, _Pairs], which: str) -> Interval:
    """Of the pairs of a kind, a task as one trial: its pairs share runs and molecules."""
    return share_of_tasks([getattr(each, which) / each.all for each in by_task.values()])


def _strong_safer(by_task: Mapping[str, _Pairs], size: str) -> Claim:
    says, where = "1 and 1.58 bits are more secure than 2 to 5 bits, by r.", "section 4.3, Figure 5"
    if not by_task:
        return Claim(says, where, "cannot tell", "no pair with an r", "more runs")
    right, wrong, total = _share(by_task, "right"), _share(by_task, "wrong"), sum(by_task.values(), _Pairs())
    verdict: Verdict = (
        "holds"
        if right.value >= 0.8 and right.low > ENOUGH and wrong.value <= 0.05
        else "does not"
        if wrong.value >= 0.2 and wrong.low > 0.05
        else "cannot tell"
    )
    return Claim(
        says,
        where,
        verdict,
        f"of {total.all} pairs on {len(by_task)} tasks, told apart as claimed {total.right}, the other way round "
        f"{total.wrong}, not told apart {total.open} (with r below the resolution in both: {total.below}); share "
        f"told apart as claimed {right.told(percent)}",
        f"there are {len(by_task)} tasks, {size}: more tasks, more runs where r is above the resolution, more "
        "molecules where it is not"
        if verdict == "cannot tell"
        else "",
    )


def _mild_alike(by_task: Mapping[str, _Pairs]) -> Claim:
    """Held only where the gain is bounded: a pair that is not told apart says nothing by itself."""
    says = "2 bits and more do not improve security: 2 to 5 bits are not safer than more bits or the original, by r."
    where = "section 4.3, Figure 5"
    if not by_task:
        return Claim(says, where, "cannot tell", "no pair with an r", "more runs")
    alike, gained, total = (
        _share(by_task, "alike"),
        _share(by_task, "gained"),
        sum(by_task.values(), _Pairs()),
    )
    verdict: Verdict = (
        "holds"
        if alike.value >= 0.9 and alike.low > ENOUGH
        else "does not"
        if gained.value > 0.2 and gained.low > 0.05
        else "cannot tell"
    )
    return Claim(
        says,
        where,
        verdict,
        f"of {total.all} pairs on {len(by_task)} tasks, the one with fewer bits is told to be safer in "
        f"{total.right}, less safe in {total.wrong}; {total.open} are not told apart, {total.below} of them with "
        f"both below the resolution; its r is at most {MARGIN} higher (upper end of the difference) in "
        f"{alike.told(percent)}",
        f"not telling apart is no proof of equality: a gain below {MARGIN} on at least 4 tasks, by more runs and "
        "validation molecules"
        if verdict == "cannot tell"
        else "",
    )


def trade(found: Molecules) -> Claim:
    """Spearman of r and performance over the quantizers: a mean of each task, whose embedders share its molecules."""

    def judge(own: bool) -> Judged:
        by_task: dict[str, list[float]] = {}
        for row in found.measured:
            value = _agreement(found, row, own)
            if value is not None:
                by_task.setdefault(row.task, []).append(value)
        return _trade_judged(by_task)

    return under_both(
        "The better a quantizer performs, the less secure it is, by r.",
        "section 4.3, Figures 5 and 12",
        {rule: judge(own) for rule, own in zip(RULES, (False, True), strict=True)},
        f"more tasks than these {len(found.tasks)}",
    )


def _trade_judged(by_task: Mapping[str, Sequence[float]]) -> Judged:
    if not by_task:
        return Judged("cannot tell", "no correlation")
    mean = over_tasks([float(np.mean(each)) for each in by_task.values()])
    every = [value for each in by_task.values() for value in each]
    return Judged(
        "holds" if mean.high < 0 else "does not" if mean.low > 0 else "cannot tell",
        f"Spearman of r and performance over the eight quantizers, embedders averaged: mean "
        f"{mean.told(_two, -1.0, 1.0)}, single ones of {len(every)} tasks and embedders from {_two(min(every))} to "
        f"{_two(max(every))}",
    )


def _agreement(found: Molecules, row: Measured, own: bool) -> float | None:
    from discreet.stats import spearman

    task = found.tasks[row.task]
    metric = "auroc" if task.data.task == "classification" else "spearman"
    names = [i.variant for i in row.ranking.ranked if i.variant != FULL]
    r = np.array([row.ranking[name].r for name in names], np.float64)
    outputs = row.own if own else row.outputs
    good = np.array(
        [
            np.mean([FIGURES[metric](run, task.truth) for run in outputs[VARIANTS.index(name)]])
            for name in names
        ]
    )
    return spearman(r, good).value if len(names) > 2 and np.ptp(good) > 0 and np.ptp(r) > 0 else None


def _two(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _low_ranks(found: Molecules) -> Claim:
    """Whether r is decided among the tenth of the candidates of lowest loss."""
    by_task: dict[str, list[float]] = {}
    by_variant: dict[str, list[bool]] = {variant: [] for variant in VARIANTS if variant != FULL}
    chances: list[float] = []
    for row in found.measured:
        by_run: dict[str, list[bool]] = {}
        by_chance: dict[str, list[float]] = {}
        for variant, hits in by_variant.items():
            for run, each in row.ranking[variant].per_run.items():
                low = _is_low(each)
                if low is not None:
                    hits.append(low)
                    by_run.setdefault(run, []).append(low)
                    by_chance.setdefault(run, []).append(_by_chance(each))
        # quantizers of one trajectory are one observation
        by_task.setdefault(row.task, []).extend(float(np.mean(hits)) for hits in by_run.values())
        chances.extend(float(np.mean(each)) for each in by_chance.values())
    return _low_ranks_judged(
        {task: runs for task, runs in by_task.items() if runs},
        {v: float(np.mean(hits)) for v, hits in by_variant.items() if hits},
        float(np.mean(chances)) if chances else 1.0,
    )


def _is_low(run: RunIndicator) -> bool | None:
    """Whether the deciding candidate is in the tenth of lowest loss (at least one); None where none decides."""
    deciding = lambda_by_rank([run]).deciding
    return int(deciding.argmax()) < ceil(len(deciding) / 10) if deciding.any() else None


def _by_chance(run: RunIndicator) -> float:
    """The share of a run's candidates that are in the tenth of lowest loss: 10 % only of a multiple of ten."""
    candidates = len(lambda_by_rank([run]).deciding)
    return ceil(candidates / 10) / candidates


def _low_ranks_judged(
    by_task: Mapping[str, Sequence[float]], by_variant: Mapping[str, float], chance: float
) -> Claim:
    """From the share of each run's quantizers whose decider is of low loss, by task.

    Among few candidates one in the lowest tenth is no news: firm only where `chance` is at most 20 %.
    """
    says = "r is decided by checkpoints of low loss (assumption A2b)."
    where = "section 14.2, Figure 13"
    if not by_task:
        return Claim(says, where, "cannot tell", "no run has an r that a candidate decides", "more runs")
    mean = over_tasks([float(np.mean(each)) for each in by_task.values()])
    verdict: Verdict = (
        "holds" if mean.low >= 0.9 and chance <= 0.2 else "does not" if mean.high < 0.75 else "cannot tell"
    )
    worst = min(by_variant, key=lambda variant: by_variant[variant])
    between = (
        f", or a stricter or laxer threshold: {number(mean.value, 2)} lies between"
        if 0.75 <= mean.value < 0.9
        else ""
    )
    return Claim(
        says,
        where,
        verdict,
        f"the deciding checkpoint is in the lowest tenth by loss for {mean.told(percent, 0.0, 1.0)} of the "
        f"quantizers of a run, {whole(sum(map(len, by_task.values())))} runs in all; fewest for {worst}, "
        f"{percent(by_variant[worst])}; by chance it would be {percent(chance)}",
        ""
        if verdict != "cannot tell"
        else f"more tasks than these {len(by_task)}{between}{', more checkpoints' if chance > 0.2 else ''}",
    )

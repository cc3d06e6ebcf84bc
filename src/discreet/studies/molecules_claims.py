"""What sections 4.3 and 14 of "An Indicator of Membership Inference Security in Post-Training Quantized Models" say
about molecules, claim by claim: holds, does not, cannot tell, with the numbers.

Intervals are over tasks, since a claim is about tasks beyond those at hand; what hangs on a checkpoint is judged
under both readings of the paper's "best checkpoint".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from discreet._words import percent
from discreet.studies.claim import Claim, Verdict
from discreet.studies.molecules import Molecules
from discreet.studies.molecules_judging import (
    ENOUGH,
    RULES,
    STRONG,
    Judged,
    over_tasks,
    share_of_tasks,
    under_both,
)
from discreet.studies.molecules_security import security_claims, trade
from discreet.studies.molecules_tables import Cell, Scores, by_variant, contrast, shares
from discreet.studies.molecules_unit import FULL, VARIANTS
from discreet.studies.paper_tables import paper_tables

__all__ = ["Claim", "claims"]

Cells = Mapping[tuple[str, str, str], Cell]
_COARSE = (*STRONG, "uniform(bits=2)", "uniform(bits=3)")
_FINE = ("uniform(bits=4)", "uniform(bits=5)")


def claims(found: Molecules, cells: Cells, own: Cells) -> tuple[Claim, ...]:
    """Judge every claim that the tasks at hand can bear on.

    Args:
        found: What was measured.
        cells: Tables at full precision's best checkpoint.
        own: Tables at each variant's own.
    """
    return tuple(_judged(found, dict(zip(RULES, (cells, own), strict=True))))


def _judged(found: Molecules, by_rule: Mapping[str, Cells]) -> Iterator[Claim]:
    cells = by_rule[RULES[0]]
    classes = [
        n for n, t in found.tasks.items() if t.data.task == "classification" and ("auroc", n, FULL) in cells
    ]
    numbers = [n for n, t in found.tasks.items() if t.data.task == "regression" and ("r2", n, FULL) in cells]
    if classes:
        yield _cost(by_rule, classes)
        yield _step(found, by_rule, classes)
    security = security_claims(found)
    yield from security[:2]
    yield trade(found)
    if numbers:
        yield _r2_gone(by_rule, numbers)
        yield _order_stays(by_rule, numbers)
    yield from security[2:]


def _of_shares(
    cells: Cells, metric: str, tasks: Sequence[str], judge: Callable[[Sequence[str]], Judged]
) -> Judged:
    """Judge on the tasks that have shares of the original, and say how many have none."""
    kept = [task for task in tasks if not np.isnan(cells[metric, task, FULL].share)]
    told = judge(kept) if kept else Judged("cannot tell", "no task left")
    if len(kept) == len(tasks):
        return told
    return Judged(
        told.verdict,
        f"{told.numbers}; left out {len(tasks) - len(kept)} of {len(tasks)} tasks, where the original itself is not "
        "above 0 on every embedder and nothing is a share of it",
    )


def _cost(by_rule: Mapping[str, Cells], tasks: Sequence[str]) -> Claim:
    """Judged on the mean over the strong quantizers and tasks, as "about 10 %": between 5 and 15."""

    def judge(cells: Cells, kept: Sequence[str]) -> Judged:
        drops = {task: [1 - cells["auroc", task, v].share for v in STRONG] for task in kept}
        mean = over_tasks([float(np.mean(each)) for each in drops.values()])
        verdict: Verdict = (
            "holds"
            if mean.low >= 0.05 and mean.high <= 0.15
            else "does not"
            if mean.high < 0.05 or mean.low > 0.15
            else "cannot tell"
        )
        single = "; ".join(f"{task}: {percent(min(d))} to {percent(max(d))}" for task, d in drops.items())
        return Judged(verdict, f"mean loss of AUROC {mean.told(percent, -1.0, 1.0)}, {single}")

    paper = [1 - c.share for (m, _, v), c in paper_tables().items() if m == "auroc" and v in STRONG]
    return under_both(
        "The strongest quantizers (1 and 1.58 bits) cost about 10 % of the AUROC.",
        "section 4.3, Table 3",
        {
            rule: _of_shares(cells, "auroc", tasks, lambda kept, cells=cells: judge(cells, kept))
            for rule, cells in by_rule.items()
        },
        f"more tasks than these {len(tasks)}, or the paper's embedders",
        f"in the paper's Table 3 the mean over its 14 tasks is {percent(float(np.mean(paper)))}",
    )


def _step(found: Molecules, by_rule: Mapping[str, Cells], tasks: Sequence[str]) -> Claim:
    """Going from 2 bits to the mean of the strong ones must cost more than going from 5 bits to 2."""
    weights = {"uniform(bits=2)": 2.0, "uniform(bits=5)": -1.0, **{v: -1 / len(STRONG) for v in STRONG}}

    def judge(own: bool, kept: Sequence[str]) -> Judged:
        told, values, single = [], [], []
        for task in kept:
            by: dict[str, list[Scores]] = {variant: [] for variant in VARIANTS}
            for row in found.measured:
                if row.task == task:
                    mine = by_variant(row, found.tasks[task], "auroc", own)
                    for variant, each in mine.items():
                        by[variant].append(shares(each, mine[FULL]))
            value, low, high = contrast(weights, by, found.seed)
            values.append(value)
            single.append((low, high))
            two = float(np.mean([s.values.mean() for s in by["uniform(bits=2)"]]))
            told.append(
                f"{task}: 2 bits keep {percent(two)}, and the step below 2 bits exceeds that from 5 to 2 bits by "
                f"{_points(value)} ({_points(low)} to {_points(high)})"
            )
        return Judged(_step_verdict(values, single), "; ".join(told))

    return under_both(
        "Performance has a threshold between 2 and 1.58 bits.",
        "section 4.3",
        {
            rule: _of_shares(cells, "auroc", tasks, lambda kept, rule=rule: judge(rule == RULES[1], kept))
            for rule, cells in by_rule.items()
        },
        f"tasks on which quantization costs more than runs differ, and more of them than {len(tasks)}",
    )


def _step_verdict(values: Sequence[float], single: Sequence[tuple[float, float]]) -> Verdict:
    """By tasks that are told apart each (intervals over runs and molecules), and by the interval over tasks."""
    mean = over_tasks(values)
    if mean.low > 0 and all(low > 0 for low, _ in single):
        return "holds"
    return "does not" if mean.high < 0 and all(high < 0 for _, high in single) else "cannot tell"


def _points(share: float) -> str:
    return f"{100 * share:.1f} points".replace("-", "−")


def _two(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _r2_gone(by_rule: Mapping[str, Cells], tasks: Sequence[str]) -> Claim:
    """Under 4 bits worse than the mean of the labels in 90 % of the cells and more, from 4 bits on better.

    Refuted where more than 10 % of the cells under 4 bits are better than it; cells whose interval holds 0 speak for
    neither. Of each task the share of its cells counts, a task as one trial: 2 of 12 cells of two tasks say little.
    """

    def judge(cells: Cells) -> Judged:
        coarse = {task: [cells["r2", task, v] for v in _COARSE] for task in tasks}
        gone = share_of_tasks([float(np.mean([c.high < 0 for c in each])) for each in coarse.values()])
        kept = share_of_tasks([float(np.mean([c.low > 0 for c in each])) for each in coarse.values()])
        better = sum(cells["r2", task, v].low > 0 for task in tasks for v in _FINE)
        verdict: Verdict = (
            "holds"
            if gone.value >= 0.9 and gone.low > ENOUGH and better == len(tasks) * len(_FINE)
            else "does not"
            if kept.low > 0.1
            else "cannot tell"
        )
        shown = {**{f"{b} bits": f"uniform(bits={b})" for b in (2, 3, 4)}, "original": FULL}
        single = "; ".join(
            f"{task}: " + ", ".join(f"{name} {_r2(cells['r2', task, v])}" for name, v in shown.items())
            for task in tasks
        )
        return Judged(
            verdict,
            f"R2 is below 0 in {gone.told(percent)} of the cells under 4 bits (interval of the cell wholly on that "
            f"side), above 0 in {kept.told(percent)}, and above 0 in {better} of {len(tasks) * len(_FINE)} at 4 and "
            f"5 bits. {single}",
        )

    paper = [c.value for (m, _, v), c in paper_tables().items() if m == "r2" and v in _COARSE]
    return under_both(
        "R2 is gone under 4 bits: predictions are almost everywhere worse than the mean of the labels.",
        "section 14.1, Table 4",
        {rule: judge(cells) for rule, cells in by_rule.items()},
        f"more tasks than these {len(tasks)}: at least 4 that agree, and more runs for cells not told from 0",
        f"in the paper's own Table 4 it is above 0 in {sum(v > 0 for v in paper)} of {len(paper)} cells under 4 bits",
    )


def _r2(cell: Cell) -> str:
    return "−inf" if cell.value < -1 else _two(cell.value)


def _order_stays(by_rule: Mapping[str, Cells], tasks: Sequence[str]) -> Claim:
    """The least share of each task: in the paper's Table 5 no quantizer keeps less than 77 % of the correlation.

    The least of seven noisy cells is too low, so either firm verdict needs cells that are beyond the floor by
    intervals of their own: all of them for "holds", one in each task for "does not".
    """
    floor = 0.77

    def judge(cells: Cells, kept: Sequence[str]) -> Judged:
        coarse = [(task, v, cells["spearman", task, v]) for task in kept for v in _COARSE]
        least = min(coarse, key=lambda each: each[2].share)
        mean = over_tasks([min(c.share for t, _, c in coarse if t == task) for task in kept])
        fallen = {task for task, _, c in coarse if c.share_high < floor}
        verdict: Verdict = (
            "holds"
            if mean.low > floor and all(c.share_low > floor for _, _, c in coarse)
            else "does not"
            if mean.high < floor and fallen == set(kept)
            else "cannot tell"
        )
        return Judged(
            verdict,
            f"the least share of a task is {mean.told(percent, -1.0, 1.0)} on average; least of all "
            f"{percent(least[2].share)} ({percent(least[2].share_low)} to {percent(least[2].share_high)}; "
            f"{least[0]}, {least[1]}); told to be below {percent(floor)} in {len(fallen)} of {len(kept)} tasks",
        )

    return under_both(
        "The order of the predictions stays where R2 is gone: Spearman keeps at least 77 % of the original.",
        "section 14.1, Table 5",
        {
            rule: _of_shares(cells, "spearman", tasks, lambda kept, cells=cells: judge(cells, kept))
            for rule, cells in by_rule.items()
        },
        f"more tasks than these {len(tasks)}",
    )

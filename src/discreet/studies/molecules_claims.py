"""What sections 4.3 and 14 of "An Indicator of Membership Inference Security in Post-Training Quantized Models" say
about molecules, claim by claim: holds, does not, cannot tell, with the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from discreet._words import number, percent, whole
from discreet.studies.claim import Claim, Verdict
from discreet.studies.molecules import Measured, Molecules
from discreet.studies.molecules_tables import FIGURES, Cell, Scores, by_variant, contrast, shares
from discreet.studies.molecules_unit import FULL, VARIANTS
from discreet.studies.paper_tables import paper_tables

__all__ = ["Claim", "claims"]

STRONG = tuple(v for v in VARIANTS if v.startswith(("sign", "ternary")))
"""1 and 1.58 bits."""
MILD = tuple(v for v in VARIANTS if v.startswith("uniform"))
"""2 to 5 bits."""
_COARSE = (*STRONG, "uniform(bits=2)", "uniform(bits=3)")


def claims(found: Molecules, cells: Mapping[tuple[str, str, str], Cell]) -> tuple[Claim, ...]:
    """Judge every claim that the tasks at hand can bear on."""
    return tuple(_judged(found, cells))


def _judged(found: Molecules, cells: Mapping[tuple[str, str, str], Cell]) -> Iterator[Claim]:
    classes = [
        n for n, t in found.tasks.items() if t.data.task == "classification" and ("auroc", n, FULL) in cells
    ]
    numbers = [n for n, t in found.tasks.items() if t.data.task == "regression" and ("r2", n, FULL) in cells]
    if classes:
        yield _cost(cells, classes)
        yield _step(found, classes)
    yield from _security(found)
    yield _trade(found)
    if numbers:
        yield _r2_gone(cells, numbers)
        yield _order_stays(cells, numbers)
    yield _low_ranks(found)


def _cost(cells: Mapping[tuple[str, str, str], Cell], tasks: Sequence[str]) -> Claim:
    """Judged on the mean over the strong quantizers and tasks, as "about 10 %": between 5 and 15."""
    rows = [cells["auroc", task, variant] for task in tasks for variant in STRONG]
    drops = {task: [1 - cells["auroc", task, v].share for v in STRONG] for task in tasks}
    mean = float(np.mean([1 - row.share for row in rows]))
    # cells of one task share runs and molecules: their errors are added, not averaged away
    half = float(np.mean([(row.share_high - row.share_low) / 2 for row in rows]))
    low, high = mean - half, mean + half
    verdict: Verdict = (
        "holds"
        if low >= 0.05 and high <= 0.15
        else "does not"
        if high < 0.05 or low > 0.15
        else "cannot tell"
    )
    told = "; ".join(f"{task}: {percent(min(d))} to {percent(max(d))}" for task, d in drops.items())
    paper = _paper_drop()
    return Claim(
        "The strongest quantizers (1 and 1.58 bits) cost about 10 % of the AUROC.",
        "section 4.3, Table 3",
        verdict,
        f"mean loss of AUROC {percent(mean)} (95 % interval {percent(low)} to {percent(high)}) over "
        f"{len(tasks)} tasks; {told}; in the paper's Table 3 the mean over its 14 tasks is {percent(paper)}",
        "more runs and more validation molecules, or the paper's embedders"
        if verdict == "cannot tell"
        else "",
    )


def _paper_drop() -> float:
    cells = [c for (m, _, v), c in paper_tables().items() if m == "auroc" and v in STRONG]
    return float(np.mean([1 - cell.share for cell in cells]))


def _step(found: Molecules, tasks: Sequence[str]) -> Claim:
    """Going from 2 bits to the mean of the strong ones must cost more than going from 5 bits to 2."""
    weights = {"uniform(bits=2)": 2.0, "uniform(bits=5)": -1.0, **{v: -1 / len(STRONG) for v in STRONG}}
    told, ends = [], []
    for task in tasks:
        by: dict[str, list[Scores]] = {variant: [] for variant in VARIANTS}
        for row in found.measured:
            if row.task == task:
                mine = by_variant(row, found.tasks[task], "auroc")
                for variant, each in mine.items():
                    by[variant].append(shares(each, mine[FULL]))
        value, low, high = contrast(weights, by, found.seed)
        ends.append((low, high))
        two = float(np.mean([s.values.mean() for s in by["uniform(bits=2)"]]))
        told.append(
            f"{task}: 2 bits keep {percent(two)}, and the step below 2 bits exceeds that from 5 to 2 bits by "
            f"{_points(value)} ({_points(low)} to {_points(high)})"
        )
    verdict: Verdict = (
        "holds"
        if all(low > 0 for low, _ in ends)
        else "does not"
        if all(high < 0 for _, high in ends)
        else "cannot tell"
    )
    return Claim(
        "Performance has a threshold between 2 and 1.58 bits.",
        "section 4.3",
        verdict,
        "; ".join(told),
        "tasks on which quantization costs more than runs differ" if verdict == "cannot tell" else "",
    )


def _points(share: float) -> str:
    return f"{100 * share:.1f} points".replace("-", "−")


def _security(found: Molecules) -> Iterator[Claim]:
    strong = _pairs(found, lambda a, b: a in STRONG and b in MILD)
    yield Claim(
        "1 and 1.58 bits are more secure than 2 to 5 bits, by r.",
        "section 4.3, Figure 5",
        _of_pairs(strong, 0.8),
        f"of {strong.all} pairs over {len(found.measured)} tasks and embedders, told apart as claimed "
        f"{strong.right}, the other way round {strong.wrong}, not told apart {strong.open} (with r below the "
        f"resolution in both: {strong.below})",
        _more(found, strong),
    )
    mild = _pairs(found, lambda a, b: a in MILD and (b == FULL or (b in MILD and a < b)))
    share = mild.right / max(mild.all, 1)
    yield Claim(
        "2 bits and more do not improve security: 2 to 5 bits are not safer than more bits or the original, by r.",
        "section 4.3, Figure 5",
        "does not" if share > 0.2 else "holds" if mild.below == mild.open and share < 0.05 else "cannot tell",
        f"of {mild.all} pairs, the one with fewer bits is told to be safer in {mild.right}, less safe in "
        f"{mild.wrong}; {mild.open} are not told apart, {mild.below} of them with both below the resolution",
        "not telling apart is no proof of equality: more runs and validation molecules would bound the difference",
    )


@dataclass(frozen=True)
class _Pairs:
    all: int
    right: int
    wrong: int
    open: int
    below: int


def _pairs(found: Molecules, wanted) -> _Pairs:
    """Pairs (supposed to be safer, other) over all rankings, told apart or not."""
    right = wrong = open_ = below = 0
    for row in found.measured:
        for pair in row.ranking.pairwise:
            for a, b, way in ((pair.safer, pair.than, True), (pair.than, pair.safer, False)):
                if wanted(a, b):
                    right += pair.told_apart and way
                    wrong += pair.told_apart and not way
                    open_ += not pair.told_apart
                    low = ("below-resolution" in row.ranking[name].diagnostics for name in (a, b))
                    below += not pair.told_apart and all(low)
    return _Pairs(right + wrong + open_, right, wrong, open_, below)


def _of_pairs(pairs: _Pairs, enough: float) -> Verdict:
    if pairs.all and pairs.right / pairs.all >= enough and pairs.wrong / pairs.all <= 0.05:
        return "holds"
    return "does not" if pairs.all and pairs.wrong / pairs.all >= 0.2 else "cannot tell"


def _more(found: Molecules, pairs: _Pairs) -> str:
    n = sorted(row.ranking.indicators[0].samples for row in found.measured)
    few = f"there are {found.scale.runs} runs and {whole(n[0])} to {whole(n[-1])} validation molecules"
    return (
        ""
        if pairs.open == 0
        else f"{few}; more runs where r is above the resolution, more molecules where it is not"
    )


def _trade(found: Molecules) -> Claim:
    """Spearman of r and performance over the quantizers, one value a task and embedder, t interval over these."""
    from scipy import stats

    values = [value for row in found.measured if (value := _agreement(found, row)) is not None]
    says, where = (
        "The better a quantizer performs, the less secure it is, by r.",
        "section 4.3, Figures 5 and 12",
    )
    if len(values) < 2:
        return Claim(says, where, "cannot tell", f"{len(values)} correlations", "more tasks or embedders")
    mean = float(np.mean(values))
    half = float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Claim(
        says,
        where,
        "holds" if mean + half < 0 else "does not" if mean - half > 0 else "cannot tell",
        f"Spearman of r and performance over the eight quantizers, mean of {len(values)} tasks and embedders "
        f"{_two(mean)} (95 % interval over these {_two(max(-1.0, mean - half))} to {_two(min(1.0, mean + half))}; "
        f"single ones from {_two(min(values))} to {_two(max(values))})",
        "more tasks" if mean - half <= 0 <= mean + half else "",
    )


def _agreement(found: Molecules, row: Measured) -> float | None:
    from discreet.stats import spearman

    task = found.tasks[row.task]
    metric = "auroc" if task.data.task == "classification" else "spearman"
    names = [i.variant for i in row.ranking.ranked if i.variant != FULL]
    r = np.array([row.ranking[name].r for name in names], np.float64)
    good = np.array(
        [
            np.mean([FIGURES[metric](run, task.truth) for run in row.outputs[VARIANTS.index(name)]])
            for name in names
        ]
    )
    return spearman(r, good).value if len(names) > 2 and np.ptp(good) > 0 and np.ptp(r) > 0 else None


def _two(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def _r2_gone(cells: Mapping[tuple[str, str, str], Cell], tasks: Sequence[str]) -> Claim:
    """Under 4 bits almost always worse than the mean of the labels, from 4 bits on better."""
    coarse = [(task, v, cells["r2", task, v]) for task in tasks for v in _COARSE]
    gone = [c for _, _, c in coarse if c.high < 0]
    kept = [(task, v) for task, v, c in coarse if c.low > 0]
    fine = [cells["r2", task, v] for task in tasks for v in ("uniform(bits=4)", "uniform(bits=5)")]
    better = sum(c.low > 0 for c in fine)
    below = len(gone) / len(coarse)
    verdict: Verdict = (
        "holds"
        if below >= 0.9 and better == len(fine)
        else "does not"
        if len(kept) > 0.1 * len(coarse)
        else "cannot tell"
    )
    three = "; ".join(
        f"{task}: "
        + ", ".join(
            f"{name} {_r2(cells['r2', task, variant])}"
            for name, variant in {
                **{f"{b} bits": f"uniform(bits={b})" for b in (2, 3, 4)},
                "original": FULL,
            }.items()
        )
        for task in tasks
    )
    return Claim(
        "R2 is gone under 4 bits: predictions are almost everywhere worse than the mean of the labels.",
        "section 14.1, Table 4",
        verdict,
        f"R2 is below 0 in {len(gone)} and above 0 in {len(kept)} of {len(coarse)} cells under 4 bits (interval "
        f"wholly on that side; {len([1 for _, v in kept if v == 'uniform(bits=3)'])} of the latter at 3 bits), and "
        f"above 0 in {better} of {len(fine)} at 4 and 5 bits. {three}",
        "more runs and molecules" if verdict == "cannot tell" else "",
    )


def _r2(cell: Cell) -> str:
    return "−inf" if cell.value < -1 else _two(cell.value)


def _order_stays(cells: Mapping[tuple[str, str, str], Cell], tasks: Sequence[str]) -> Claim:
    """In the paper's Table 5 no quantizer keeps less than 77 % of the Spearman correlation."""
    floor = 0.77
    coarse = [(task, v, cells["spearman", task, v]) for task in tasks for v in _COARSE]
    least = min(coarse, key=lambda each: each[2].share)
    mean = float(np.mean([c.share for _, _, c in coarse]))
    verdict: Verdict = (
        "holds"
        if all(c.share_low > floor for _, _, c in coarse)
        else "does not"
        if any(c.share_high < floor for _, _, c in coarse)
        else "cannot tell"
    )
    return Claim(
        "The order of the predictions stays where R2 is gone: Spearman keeps at least 77 % of the original.",
        "section 14.1, Table 5",
        verdict,
        f"mean share {percent(mean)} over {len(coarse)} cells under 4 bits, least {percent(least[2].share)} "
        f"({percent(least[2].share_low)} to {percent(least[2].share_high)}; {least[0]}, {least[1]})",
        "more runs and molecules" if verdict == "cannot tell" else "",
    )


def _low_ranks(found: Molecules) -> Claim:
    """Whether r is decided among the tenth of the candidates of lowest loss."""
    low = total = 0
    by_variant_: dict[str, list[float]] = {}
    for row in found.measured:
        for variant in VARIANTS:
            if variant == FULL:
                continue
            ranks = row.ranking.lambda_by_rank(variant)
            places = np.repeat(np.arange(len(ranks.deciding)), ranks.deciding)
            share = (places + 1) / max(len(ranks.deciding), 1)
            low, total = low + int((share <= 0.1).sum()), total + len(places)
            by_variant_.setdefault(variant, []).extend((share <= 0.1).tolist())
    worst = min(by_variant_, key=lambda v: np.mean(by_variant_[v] or [1.0]))
    part, ends = _wilson(low, total)
    return Claim(
        "r is decided by checkpoints of low loss (assumption A2b).",
        "section 14.2, Figure 13",
        "holds" if ends[0] >= 0.9 else "does not" if ends[1] < 0.75 else "cannot tell",
        f"the deciding checkpoint is in the lowest tenth by loss in {percent(part)} ({percent(ends[0])} to "
        f"{percent(ends[1])}) of {whole(total)} runs; fewest for {worst}, "
        f"{percent(float(np.mean(by_variant_[worst] or [1.0])))}; by chance it would be 10 %",
        ""
        if ends[0] >= 0.9 or ends[1] < 0.75
        else f"a stricter or laxer threshold: {number(part, 2)} lies between",
    )


def _wilson(hits: int, total: int) -> tuple[float, tuple[float, float]]:
    """A share and its Wilson interval; runs on one task are taken as independent."""
    if not total:
        return 0.0, (0.0, 1.0)
    z, p = 1.959964, hits / total
    centre, half = p + z * z / (2 * total), z * np.sqrt(p * (1 - p) / total + z * z / (4 * total**2))
    return p, ((centre - half) / (1 + z * z / total), (centre + half) / (1 + z * z / total))

"""Theorem 3.4, on classes whose security is known exactly, and two of its assumptions on real trajectories.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", Theorem 3.4 with (A1) and (A2) b),
and section 14.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._json import dumps, save
from discreet.ranking import rank_runs
from discreet.store import Store
from discreet.studies.panels import write
from discreet.studies.synthetic_setting import FULL, Setting
from discreet.studies.synthetic_unit import make
from discreet.studies.theorem_figures import figures
from discreet.theorem import FiniteClass, law

__all__ = ["CLASSES", "SCALES", "Exact", "Grown", "Scale", "exact", "grown", "run"]


@dataclass(frozen=True)
class Scale:
    """How large the study is.

    Attributes:
        sizes: Training samples of the real trajectories.
        runs: Runs at each size.
        evaluation: Samples that losses are measured on.
        steps: Training samples of the classes of two and of three values.
    """

    sizes: tuple[int, ...]
    runs: int
    evaluation: int
    steps: tuple[tuple[int, ...], tuple[int, ...]]


SCALES = {
    "small": Scale(
        (64, 128, 256, 512, 1024), 8, 4096, ((10, 100, 1000, 10_000, 30_000, 100_000), (10, 100, 1000, 3000))
    ),
    "paper": Scale(
        (64, 128, 256, 512, 1024, 2048, 4096),
        32,
        20_000,
        ((10, 100, 1000, 10_000, 30_000, 100_000, 1_000_000), (10, 100, 1000, 3000)),
    ),
}


def _coin(gap: float) -> FiniteClass:
    """Two parameters, each right about one of two values; the expected losses differ by ``gap``."""
    return FiniteClass(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0.5 + gap / 2, 0.5 - gap / 2]))


def _die(gap: float) -> FiniteClass:
    """Three parameters and values; the second best is ``gap`` behind, the third twice that."""
    return FiniteClass(1 - np.eye(3), np.array([1 / 3 + gap, 1 / 3, 1 / 3 - gap]))


CLASSES: dict[str, Callable[[int], FiniteClass]] = {
    "two values, gap 0.2": lambda n: _coin(0.2),
    "two values, gap n^(-1/4) / 2": lambda n: _coin(0.5 * n**-0.25),
    "two values, gap n^(-1/2)": lambda n: _coin(n**-0.5),
    "three values, gap 0.1": lambda n: _die(0.1),
    "three values, gap n^(-1/4) / 4": lambda n: _die(0.25 * n**-0.25),
}
"""Classes by the number of training samples. A fixed gap breaks the first half of (A1), ``n^(-1/2)`` the second."""


_LEAST = 650.0


@dataclass(frozen=True)
class Exact:
    """One class at one size.

    Attributes:
        name: Of the class.
        n: Training samples.
        leak: ``1 - MIS``, exactly.
        by_loss: The same against attacks that see only the loss (section 5).
        rate: ``-log(1 - MIS) / n``.
        r: Definition 3.5, exactly.
        large_deviation: Chernoff's rate, which a class that does not change with n approaches.
    """

    name: str
    n: int
    leak: float
    by_loss: float
    rate: float
    r: float
    large_deviation: float


@dataclass(frozen=True)
class Grown:
    """A variant's trajectories at one number of training samples.

    Attributes:
        variant: Quantizer.
        n: Training samples.
        gap: ``delta_2``: how far a run's second lowest loss lies above its lowest, in nats; same configurations
            count once; the median over runs.
        scaled: ``sqrt(n) delta_2``.
        decided_low: Share of runs that the quarter of candidates of lowest loss decides.
        tail: ``max c_k^2 sigma_k^2`` over the half of candidates of highest loss, as a share of that over all; the
            median over runs.
        runs: Runs with a finite r.
    """

    variant: str
    n: int
    gap: float
    scaled: float
    decided_low: float
    tail: float
    runs: int


def exact(name: str, n: int) -> Exact:
    """One row of the first table.

    Example:
        >>> row = exact("two values, gap 0.2", 101)
        >>> row.rate > row.large_deviation
        True
    """
    finite = CLASSES[name](n)
    found = law(finite, n)
    leak = found.leak()
    return Exact(
        name,
        n,
        leak,
        found.leak(1.0, finite.loss),
        -math.log(leak) / n,
        finite.r,
        finite.large_deviation,
    )


def grown(
    store: Store, setting: Setting, runs: int, workers: int, progress: Callable[[float], None]
) -> list[Grown]:
    """Trajectories at one number of training samples.

    Args:
        store: Keeps the runs.
        setting: What to train.
        runs: How many.
        workers: Threads.
        progress: Called with the share that is done.
    """
    from discreet._spread import spread

    parts = [range(at, min(at + 4, runs)) for at in range(0, runs, 4)]
    done = iter(range(1, len(parts) + 1))
    made = spread(
        lambda part: make(store, setting, part, True),
        parts,
        workers,
        lambda part: progress(next(done) / len(parts)),
    )
    found = []
    for variant in setting.specs:
        if variant == FULL:
            continue
        per = {run: each for part in made for run, each in part.indicators[variant].items()}
        usable = [each for each in per.values() if each.status == "ok" and each.r > 0]
        if not usable:
            continue
        ranked = rank_runs({variant: per}).lambda_by_rank(variant)
        gaps, tails = [], []
        for each in usable:
            gap = each.losses - each.losses[each.best]
            known = np.flatnonzero(np.isfinite(each.ratios) & (gap > 0))
            order = known[np.argsort(gap[known], kind="stable")]
            weight = 0.5 / each.ratios[order]  # (sigma_k / delta_k)^2: c_k^2 sigma_k^2 up to delta_2^2
            gaps.append(gap[order[0]])
            tails.append(weight[len(weight) // 2 :].max() / weight.max())
        quarter = max(1, len(ranked.rank) // 4)
        middle = float(np.median(gaps))
        low = float(ranked.deciding[:quarter].sum()) / max(1, ranked.runs)
        found.append(
            Grown(
                variant,
                setting.n,
                middle,
                math.sqrt(setting.n) * middle,
                low,
                float(np.median(tails)),
                len(usable),
            )
        )
    return found


def run(
    folder: Path,
    scale: str,
    changed: Sequence[str] = (),
    *,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> str:
    """Run the study, write study.json, study.md and the figure; finished runs are not trained again.

    Args:
        folder: The run directory.
        scale: ``"small"`` or ``"paper"``.
        changed: Nothing: this study has no settings.
        seed: Of the trajectories.
        workers: Threads.
        progress: Called with what is being done, and the share that is done.

    Returns:
        The tables.
    """
    del changed
    size, store = SCALES[scale], Store(folder)
    rows = []
    for name in CLASSES:
        for n in size.steps[name.startswith("three")]:
            if n * CLASSES[name](n).large_deviation < _LEAST:  # else 1 - MIS is no number any more
                rows.append(exact(name, n))
    trajectories: list[Grown] = []
    with store.lock():
        for at, n in enumerate(size.sizes):
            setting = Setting(n=n, evaluation=size.evaluation, seed=seed)

            def tell(share: float, at: int = at, n: int = n) -> None:
                progress(f"training on {n} samples", (at + share) / len(size.sizes))

            trajectories += grown(store, setting, size.runs, workers, tell)
    page = _page(rows, trajectories)
    told: dict[str, Any] = {"schema": "discreet.study/1", "study": "theorem", "scale": asdict(size)}
    told |= {"exact": [asdict(row) for row in rows], "trajectories": [asdict(row) for row in trajectories]}
    save(folder / "study.json", dumps(told))
    save(folder / "study.md", page)
    write(folder, figures(rows))
    return page


def _page(rows: Sequence[Exact], trajectories: Sequence[Grown]) -> str:
    lines = [
        "| class | n | 1 − MIS | by the loss alone | −log(1 − MIS)/n | r | rate / r | Chernoff's rate |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {row.name} | {row.n:,} | {row.leak:.3g} | {row.by_loss:.3g} | {row.rate:.3g} | {row.r:.3g} |"
            f" {row.rate / row.r:.2f} | {row.large_deviation:.3g} |"
            for row in rows
        ),
        "",
    ]
    sizes = list(dict.fromkeys(row.n for row in trajectories))
    for title, show in (
        ("delta_2, thousandths of a nat", lambda row: f"{1000 * row.gap:.2f}"),
        ("sqrt(n) delta_2, thousandths", lambda row: f"{1000 * row.scaled:.1f}"),
        ("share of runs that the quarter of lowest loss decides", lambda row: f"{row.decided_low:.0%}"),
        ("largest c_k² sigma_k² in the upper half, of the largest", lambda row: f"{row.tail:.3f}"),
    ):
        lines += [
            f"| {title} | " + " | ".join(f"n = {n}" for n in sizes) + " |",
            "|---|" + "---|" * len(sizes),
        ]
        for variant in dict.fromkeys(row.variant for row in trajectories):
            by = {row.n: show(row) for row in trajectories if row.variant == variant}
            lines.append(f"| {variant} | " + " | ".join(by.get(n, "undefined") for n in sizes) + " |")
        lines.append("")
    return "\n".join(lines)

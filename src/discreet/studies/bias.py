"""How far r and its corrections are off where the true r is known: ``discreet study bias``.

Losses of the best checkpoint are drawn, those of candidate k are theirs plus a gap plus noise of its own, so that the
true r is ``1/2 min gap^2``; runs share their evaluation samples. Bias and error are told in units of 1/(2n), the bias
of one squared mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from discreet._json import dumps, save
from discreet.bias import METHODS, corrected, split_run
from discreet.indicator import measure_run, summarize_runs
from discreet.store import Store
from discreet.studies.bias_figures import figures
from discreet.studies.changed import read
from discreet.studies.panels import write
from discreet.trajectory import Trajectory

__all__ = ["CASES", "Judged", "judge", "run"]

CASES: Mapping[str, tuple[float, ...]] = {
    "one candidate, t = 0": (0.0,),
    "one candidate, t = 1": (1.0,),
    "one candidate, t = 2": (2.0,),
    "one candidate, t = 4": (4.0,),
    "one candidate, t = 10": (10.0,),
    "20 candidates, t = 1 each": (1.0,) * 20,
    "20 candidates, t = 2 each": (2.0,) * 20,
    "20 candidates, t = 4 each": (4.0,) * 20,
    "20 candidates, t = 10 each": (10.0,) * 20,
    "20 candidates, t = 4 to 12": tuple(np.linspace(4, 12, 20)),
    "near tie of the best, t = 0.5, and 19 at t = 8": (0.5, *(8.0,) * 19),
}
"""Gaps of the candidates to the best checkpoint, in standard errors of a mean of n differences."""


@dataclass(frozen=True)
class Judged:
    """One estimator in one case.

    Attributes:
        case: Name of the case.
        how: ``"plug-in"`` (the paper's), a method of `discreet.bias`, or ``"split"``.
        bias: Mean of estimate less truth, in units of 1/(2n).
        bias_error: Its standard error.
        rmse: Root mean squared error, in the same units.
        coverage: Share of the 95 % intervals that hold the truth.
        repeats: Repetitions.
    """

    case: str
    how: str
    bias: float
    bias_error: float
    rmse: float
    coverage: float
    repeats: int


def judge(
    case: str, *, n: int = 500, runs: int = 4, repeats: int = 200, draws: int = 200, seed: int = 0
) -> list[Judged]:
    """Simulate one case.

    Args:
        case: A name of ``CASES``.
        n: Evaluation samples.
        runs: Training runs that share them; their noise has half of its variance in common.
        repeats: Repetitions.
        draws: Bootstrap draws of each run.
        seed: Of everything.

    Example:
        >>> rows = judge("one candidate, t = 4", n=60, runs=2, repeats=3, draws=10)
        >>> [row.how for row in rows]
        ['plug-in', 'normal', 'jackknife', 'bootstrap', 'split']
    """
    gaps = np.array(CASES[case]) / np.sqrt(n)
    truth = 0.5 * float(np.min(gaps**2))
    found: dict[str, list[tuple[float, bool]]] = {name: [] for name in ("plug-in", *METHODS, "split")}
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, repeat])
        shared = rng.standard_normal((len(gaps), n))
        base = rng.exponential(size=n)
        per_run, split = {}, {}
        for run in range(runs):
            noise = np.sqrt(0.5) * (shared + rng.standard_normal((len(gaps), n)))
            losses = np.vstack([base, base + gaps[:, None] + noise])
            trajectory = Trajectory(losses)
            per_run[str(run)] = measure_run(trajectory, seed=repeat, draws=draws)
            split[str(run)] = split_run(trajectory, seed=repeat)
        plain = summarize_runs("case", per_run)
        if plain.r is None or plain.low is None or plain.high is None:
            raise ValueError(f"{case}: no run has a finite r")
        found["plug-in"].append((plain.r - truth, plain.low <= truth <= plain.high))
        others = {how: corrected(plain, how) for how in METHODS} | {"split": corrected(plain, values=split)}
        for how, other in others.items():
            found[how].append((other.value - truth, other.covers(truth)))
    rows = []
    for how, pairs in found.items():
        off = 2 * n * np.array([gap for gap, _ in pairs])
        rows.append(
            Judged(
                case,
                how,
                float(off.mean()),
                float(off.std(ddof=1) / np.sqrt(repeats)),
                float(np.sqrt(np.mean(off**2))),
                float(np.mean([held for _, held in pairs])),
                repeats,
            )
        )
    return rows


def run(
    folder: Path,
    scale: str = "small",
    changed: Sequence[str] = (),
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> str:
    """Simulate every case, write study.json, study.md and the figure, and return the page; a finished case is kept.

    Args:
        folder: The run directory.
        scale: Unused: there is one size.
        changed: ``n=``, ``runs=``, ``repeats=`` or ``draws=``, see ``judge``.
        seed: Of everything.
        workers: Unused.
        progress: Called with what is being done, and the share that is done.

    Raises:
        ValueError: An unknown field, or a value that does not fit.
    """
    del scale, workers
    size = {"n": 500, "runs": 4, "repeats": 200, "draws": 200}
    size |= read(changed, dict.fromkeys(size, int))
    for name, least in (("n", 8), ("runs", 1), ("repeats", 2), ("draws", 2)):
        if size[name] < least:
            raise ValueError(f"{name}: expected at least {least}, got {size[name]}")
    store, rows = Store(folder), []
    with store.lock():
        for at, case in enumerate(CASES):
            progress(case, at / len(CASES))
            key = store.key(
                f"cases/{case}.json",
                gaps=list(CASES[case]),
                seed=seed,
                version=metadata.version("discreet"),
                **size,
            )
            kept = store.make(
                key,
                lambda aside, case=case: aside.write_text(
                    dumps([asdict(row) for row in judge(case, seed=seed, **size)]), "utf-8"
                ),
            )
            rows += [Judged(**row) for row in json.loads(kept.read_text("utf-8"))]
    page = _page(rows)
    told = {"schema": "discreet.study/1", "study": "bias", "seed": seed, **size}
    save(folder / "study.json", dumps(told | {"rows": [asdict(row) for row in rows]}))
    save(folder / "study.md", page)
    write(folder, figures(rows))
    return page


def _page(rows: Sequence[Judged]) -> str:
    """The table of docs/studies/bias.md."""
    lines = ["| case | estimator | bias, 1/(2n) | RMSE, 1/(2n) | coverage of 95 % |", "|---|---|---|---|---|"]
    for row in rows:
        bias = f"{row.bias:+.2f}".replace("-", "−")
        lines.append(
            f"| {row.case} | {row.how} | {bias} ± {row.bias_error:.2f} | {row.rmse:.2f} | "
            f"{100 * row.coverage:.1f} % |"
        )
    return "\n".join(lines) + "\n"

"""Coverage of the indicator's intervals on Gaussian losses, where the true r is known in closed form."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from discreet.indicator import measure_run, summarize_runs
from discreet.trajectory import Trajectory

REPEATS = 200
LEVEL = 0.95
# three standard errors of a share under the nominal level
FLOOR = LEVEL - 3 * np.sqrt(LEVEL * (1 - LEVEL) / REPEATS)


def covered(t: float, runs: int, shared: float, tie: bool, n: int = 300) -> float:
    """Share of repeats whose interval holds the true r = t^2 / 2n.

    Three candidates lie t (ties: all three; else the other two far above) standard errors above the best
    checkpoint; a share of their noise is common to all runs, as runs share their evaluation samples.
    """
    theta = np.full(3, t / np.sqrt(n))
    if not tie:
        theta[1:] += 8 / np.sqrt(n)
    hits = 0
    for repeat in range(REPEATS):
        rng = np.random.default_rng([repeat, runs, int(10 * t), int(2 * shared), tie])
        base, common = rng.exponential(size=n), rng.standard_normal((3, n))
        found = {}
        for run in range(runs):
            noise = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.standard_normal((3, n))
            losses = np.concatenate([base[None], base + 0.1 * (noise + theta[:, None])])
            found[str(run)] = measure_run(Trajectory(losses), level=LEVEL, draws=1)
        interval = summarize_runs("x", found, level=LEVEL)
        hits += interval.low <= t * t / (2 * n) <= interval.high  # type: ignore[operator]
    return hits / REPEATS


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "shared"), list(product([1, 2, 8], [0.0, 1.0])))
@pytest.mark.parametrize("t", [0.0, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("tie", [False, True])
def test_intervals_cover_near_zero_and_at_ties(t: float, runs: int, shared: float, tie: bool) -> None:
    assert covered(t, runs, shared, tie) >= FLOOR


@pytest.mark.slow
def test_runs_alone_would_not_cover() -> None:
    """The check has teeth: leaving out what shared samples contribute misses most of the time."""
    n, runs, t, hits = 300, 16, 4.0, 0
    for repeat in range(REPEATS):
        rng = np.random.default_rng(repeat)
        common = rng.standard_normal(n)
        noise = np.sqrt(0.95) * common + np.sqrt(0.05) * rng.standard_normal((runs, n)) + t / np.sqrt(n)
        r = 0.5 * noise.mean(axis=1) ** 2 / noise.var(axis=1)
        half = 2.13 * r.std(ddof=1) / np.sqrt(runs)
        hits += abs(r.mean() - t * t / (2 * n)) <= half
    assert hits / REPEATS < 0.5

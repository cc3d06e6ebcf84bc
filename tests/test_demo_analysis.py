"""The share of an AUROC with its interval, against resampling and closed cases."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.auc import AucParts, auc_parts
from discreet.runs.analysis import ratio


def outputs(seed: int, runs: int = 6, samples: int = 400, noise: float = 0.5) -> tuple[np.ndarray, ...]:
    """Outputs of full models, of noisier ones, and the labels of their common samples."""
    rng = np.random.default_rng(seed)
    truth = rng.random(samples) < 0.6
    full = truth + rng.normal(size=samples) + 0.3 * rng.normal(size=(runs, samples))
    return full, full + noise * rng.normal(size=full.shape), np.tile(truth, (runs, 1))


def parts(scores: np.ndarray, truth: np.ndarray) -> AucParts:
    return auc_parts(scores, truth, np.ones(truth.shape, bool))


def test_a_model_is_all_of_itself() -> None:
    full, _, truth = outputs(0)
    same = parts(full, truth)
    assert ratio(same, same, np.arange(6), level=0.95) == (1.0, 1.0, 1.0)


def test_the_share_is_that_of_the_means() -> None:
    full, worse, truth = outputs(1)
    share, low, high = ratio(parts(worse, truth), parts(full, truth), np.arange(6), level=0.95)
    assert share == pytest.approx(parts(worse, truth).values.mean() / parts(full, truth).values.mean())
    assert low < share < high < 1.0


def test_one_run_agrees_with_a_paired_bootstrap_over_samples() -> None:
    full, worse, truth = outputs(2, runs=1, samples=600)
    share, low, high = ratio(parts(worse, truth), parts(full, truth), np.arange(1), level=0.95)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(800):
        classes = (np.flatnonzero(truth[0] == label) for label in (True, False))
        pick = np.concatenate([rng.choice(which, which.size) for which in classes])
        a, b = (parts(scores[:, pick], truth[:, pick]).values[0] for scores in (worse, full))
        drawn.append(a / b)
    assert (high - low) / 2 == pytest.approx(1.96 * np.std(drawn), rel=0.12)
    assert share == pytest.approx(np.mean(drawn), abs=0.005)


@pytest.mark.slow
def test_the_interval_covers_new_runs_and_samples() -> None:
    far = [outputs(10_000 + seed, runs=1, samples=4000) for seed in range(100)]
    true = np.mean([parts(w, t).values[0] for _, w, t in far]) / np.mean(
        [parts(f, t).values[0] for f, _, t in far]
    )
    held = []
    for seed in range(300):
        full, worse, truth = outputs(seed, runs=8, samples=300)
        _, low, high = ratio(parts(worse, truth), parts(full, truth), np.arange(8), level=0.95)
        held.append(low <= true <= high)
    assert np.mean(held) > 0.92

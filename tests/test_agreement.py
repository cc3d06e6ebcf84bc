"""The correlation of r with a figure: both of its uncertainties count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from discreet.agreement import agreement
from discreet.correlation import spearman
from discreet.ranking import Ranking, rank


def ranking(noise: float) -> Ranking:
    rng = np.random.default_rng(0)
    steps = np.array([0.0, 0.02, 0.03])[None, :, None]
    return rank(
        {
            variant: 1 + noise * rng.standard_normal((4, 3, 300)) + steps * (1 + place)
            for place, variant in enumerate(["full", "a", "b", "c", "d", "e", "f"])
        },
        n_train=100,
    )


@pytest.mark.parametrize("noise", [0.02, 0.5])
def test_the_wider_interval_on_either_side(noise: float) -> None:
    found = ranking(noise)
    values = {"a": 0.6, "b": 0.58, "c": 0.59, "d": 0.55, "e": 0.52, "f": 0.53}
    told = agreement(found, values)
    assert told is not None
    names = [each.variant for each in found.ranked if each.variant in values]
    r, of = np.array([found[n].r for n in names], float), np.array([values[n] for n in names])
    assert told.value == pytest.approx(np.corrcoef(stats.rankdata(r), stats.rankdata(of))[0, 1])
    moved, few = found.spearman({n: values[n] for n in names}), spearman(r, of, level=found.level)
    assert (told.low, told.high) == (min(moved.low, few.low), max(moved.high, few.high))
    assert moved.low != few.low


def test_too_few_or_equal_figures_have_none() -> None:
    found = ranking(0.02)
    assert agreement(found, {"a": 0.5, "b": 0.6}) is None
    assert agreement(found, dict.fromkeys("abcdef", 0.5)) is None

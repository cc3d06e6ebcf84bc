"""How r agrees with attacks: against SciPy, with intervals that hold what is uncertain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet._json import read_as
from discreet.audit import RankTable
from discreet.audit_leaks import Attack
from discreet.auditing_agreement import agreement, name_of
from tests.test_gate import table


def ranking(r: list[float], width: float = 0.1) -> RankTable:
    known: Any = table().variants[0].__dict__
    rows = [
        {k: v for k, v in known.items() if k != "more"}
        | {
            "variant": f"v{i}",
            "r": value,
            "low": value * (1 - width),
            "high": value * (1 + width),
            "rank": i + 1,
        }
        for i, value in enumerate(r)
    ]
    reference = rows[0] | {"variant": "full", "rank": len(r) + 1, "diagnostics": ["full-precision-reference"]}
    raw = {"schema": "discreet.rank/1", "level": 0.95, "statistic": "mean", "pairwise": []}
    return read_as(RankTable, raw | {"variants": [*rows, reference]}, "ranking")


def rows(values: list[float], width: float = 0.001) -> list[Attack]:
    return [Attack(f"v{i}", "loss", "auc", v, v - width, v + width) for i, v in enumerate(values)]


R = [0.5, 0.3, 0.2, 0.1, 0.05, 0.02]
LEAK = [0.52, 0.55, 0.53, 0.6, 0.65, 0.63]


def test_it_is_spearmans_correlation_over_the_compressed_variants() -> None:
    found = agreement(ranking(R), [*rows(LEAK), Attack("full", "loss", "auc", 0.1)], seed=0)
    assert found.spearman == pytest.approx(stats.spearmanr(R, LEAK).statistic)
    assert (found.with_, found.n) == ("loss attack AUC", 6)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.spearman <= found.high
    assert found.full_agreement == -1


def test_the_interval_widens_with_what_is_uncertain_and_the_seed_fixes_it() -> None:
    sure = agreement(ranking(R), rows(LEAK), seed=0)
    unsure = agreement(ranking(R, 5.0), rows(LEAK, 0.2), seed=0)
    assert unsure == agreement(ranking(R, 5.0), rows(LEAK, 0.2), seed=0)
    assert unsure.high is not None
    assert sure.high is not None
    assert unsure.high >= sure.high
    assert unsure.spearman == sure.spearman


def test_no_order_of_rows_matters() -> None:
    turned = rows(LEAK)[::-1]
    assert agreement(ranking(R), turned, seed=3) == agreement(ranking(R), rows(LEAK), seed=3)


@pytest.mark.parametrize("values", [[0.5, 0.6], [0.5] * 6])
def test_too_few_or_equal_figures_have_no_correlation(values: list[float]) -> None:
    found = agreement(ranking(R), rows(values), seed=0)
    assert (found.spearman, found.low, found.high, found.n) == (None, None, None, len(values))


def test_what_it_is_compared_with_is_named() -> None:
    assert (
        name_of(Attack("sign", "lira(tail='both')", "tpr@0.01", 0.1)) == "lira(tail='both') attack TPR@0.01"
    )
    assert np.isfinite(len(name_of(rows(LEAK)[0])))

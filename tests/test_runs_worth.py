"""Task performance of language models: the likelihood of a token, and how sure it is."""

from __future__ import annotations

import numpy as np
import pytest

from discreet.records import Record
from discreet.runs.worth import metric_of, worth


def record(losses: np.ndarray) -> Record:
    runs = len(losses)
    return Record(
        run=tuple(map(str, range(runs))),
        step=np.ones(runs),
        variant=("full",) * runs,
        sample=np.arange(losses.shape[1]),
        signals={"loss": losses},
    )


def test_the_likelihood_of_a_token_is_one_over_the_perplexity() -> None:
    losses = np.random.default_rng(0).gamma(2.0, 1.0, (3, 200))
    found = worth(record(losses), np.arange(3), "lm")
    assert found.metric == metric_of("lm") == "token likelihood"
    assert found.values == pytest.approx(1 / np.exp(losses.mean(axis=1)))
    # By the delta method: the slope of exp(-m) is -exp(-m).
    spread = np.exp(-losses.mean(axis=1)) * losses.std(axis=1, ddof=1) / np.sqrt(200)
    assert np.sqrt((found.influence**2).sum(axis=1)) == pytest.approx(spread)
    at = int(np.argmax(losses[0]))
    assert found.influence[0, at] == found.influence[0].min() < 0


def test_intervals_cover_the_likelihood_over_texts() -> None:
    rng, hits = np.random.default_rng(1), 0
    truth = float(np.exp(-2.0))
    for _ in range(300):
        losses = rng.gamma(2.0, 1.0, (1, 150))
        told = worth(record(losses), np.arange(1), "lm").estimate(np.zeros(1, int), level=0.95)
        assert told.low <= told.value <= told.high
        hits += told.low <= truth <= told.high
    assert 0.91 <= hits / 300 <= 0.98

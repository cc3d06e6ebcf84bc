from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet
from discreet.ranking import Ranking, correlation


def variant(gap: float, *, runs: int = 12, n: int = 600, seed: int = 0, sd: float = 0.1) -> np.ndarray:
    """A trajectory whose deciding checkpoint lies `gap` above the best, so r is about gap^2 / 4 sd^2."""
    rng = np.random.default_rng(seed)
    base = np.random.default_rng(99).exponential(size=(1, 1, n))
    return base + np.array([0.9, 0.0, gap])[None, :, None] + sd * rng.standard_normal((runs, 3, n))


def three(**kwargs: int) -> dict[str, np.ndarray]:
    return {
        name: variant(gap, seed=i, **kwargs)
        for i, (name, gap) in enumerate({"a": 0.05, "b": 0.2, "c": 0.1}.items())
    }


def test_order_and_ranks_follow_the_planted_signal() -> None:
    found = discreet.rank(three())
    assert [i.variant for i in found.indicators] == ["b", "c", "a"]
    assert all(p.told_apart and p.probability == 1.0 for p in found.pairwise)
    assert [found.rank_interval(v) for v in "bca"] == [(1, 1), (2, 2), (3, 3)]


def test_a_variant_is_not_told_apart_from_its_twin() -> None:
    one = variant(0.1)
    found = discreet.rank({"one": one, "twin": one.copy()})
    assert found.pairwise[0].probability == 0.5
    assert not found.pairwise[0].told_apart
    assert found.rank_interval("one") == found.rank_interval("twin") == (1, 2)


def test_two_variants_below_resolution_are_not_told_apart_whatever_the_bootstrap_says() -> None:
    rng = np.random.default_rng(0)
    base = rng.exponential(size=200)
    steady = 0.05 * rng.standard_normal((2, 200))
    weak = np.array([np.array([base, base + 0.1 * steady[0] + g]) for g in np.linspace(1e-5, 2e-5, 30)])
    strong = np.array([np.array([base, base + 0.1 * steady[1] + g]) for g in np.linspace(1e-4, 1.1e-4, 30)])
    found = discreet.rank({"weak": weak, "strong": strong})
    assert all("below-resolution" in i.diagnostics for i in found.indicators)
    assert not found.pairwise[0].told_apart


def test_collapsed_variants_come_last_without_a_rank() -> None:
    losses = three()
    losses["collapsed"] = losses["a"][:, [1, 1, 1]]
    found = discreet.rank(losses).to_json()
    last = found["variants"][-1]
    assert (last["variant"], last["status"], last["rank"], last["rank_low"]) == (
        "collapsed",
        "undefined",
        None,
        None,
    )
    assert all(not p["told_apart"] for p in found["pairwise"] if "collapsed" in p.values())
    assert all(p["safer"] != "collapsed" for p in found["pairwise"])


def test_json_has_the_fixed_names_and_no_nan() -> None:
    losses = three()
    losses["flat"] = losses["a"][:, [1, 1, 1]]
    found = discreet.rank(losses, n_train=100).to_json()
    text = json.dumps(found, allow_nan=False)
    assert set(json.loads(text)) == {"schema", "level", "statistic", "variants", "pairwise"}
    names = (
        "variant status r r_median low high runs runs_undefined runs_infinite checkpoints candidates samples"
    )
    names += " n_train_r resolution rank rank_low rank_high diagnostics"
    assert " ".join(found["variants"][0]) == names
    assert len(found["pairwise"]) == 4 * 3 // 2
    assert list(found["pairwise"][0]) == ["safer", "than", "probability", "told_apart"]


@given(st.permutations(["a", "b", "c"]), st.integers(0, 5))
@settings(max_examples=8, deadline=None)
def test_order_of_variants_changes_nothing_and_a_seed_fixes_the_bytes(order: list[str], seed: int) -> None:
    losses = three(runs=4, n=100)
    straight = discreet.rank(losses, seed=seed).to_json()
    turned = discreet.rank({name: losses[name] for name in order}, seed=seed).to_json()
    assert json.dumps(straight) == json.dumps(turned)


def test_median_is_used_where_asked() -> None:
    losses = three()
    losses["a"][0, 2] += 5.0  # one run with an enormous r
    mean, median = discreet.rank(losses), discreet.rank(losses, statistic="median")
    assert mean.indicators[0].variant == "a"
    assert "one-run-dominates" in mean["a"].diagnostics
    assert median.indicators[0].variant == "b"
    assert median["a"].r == median["a"].r_median == mean["a"].r_median


def test_pairs_rest_on_runs_defined_in_both() -> None:
    losses = three()
    losses["a"][:3] = losses["a"][:3, [1, 1, 1]]
    found = discreet.rank(losses)
    assert {(p.safer, p.than): p.runs for p in found.pairwise} == {
        ("b", "c"): 12,
        ("b", "a"): 9,
        ("c", "a"): 9,
    }


def procedure(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Runs whose true r differ from run to run by a factor, as real ones do."""
    gap = 0.1 * np.exp(0.5 * rng.standard_normal((runs, 1)))
    gaps = np.concatenate([0.9 + 0 * gap, 0 * gap, gap, 0.5 + gap], axis=1)[..., None]
    return rng.exponential(size=(1, 1, 200)) + gaps + 0.1 * rng.standard_normal((runs, 4, 200))


@pytest.mark.parametrize("runs", [1, 2, 4, 8])
def test_two_of_one_procedure_are_rarely_told_apart_however_few_the_runs(runs: int) -> None:
    told = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, runs])
        told += discreet.rank({"x": procedure(rng, runs), "y": procedure(rng, runs)}).pairwise[0].told_apart
    assert told <= (0 if runs == 1 else 6)  # 5 % of 40 is 2


def test_one_run_tells_nothing_apart_and_says_so() -> None:
    found = discreet.rank({"a": variant(0.05, runs=1), "b": variant(0.4, runs=1, seed=1)})
    assert found.pairwise[0].probability == 1.0
    assert not found.pairwise[0].told_apart
    assert all("single-run" in i.diagnostics for i in found.indicators)


@pytest.mark.parametrize("n_train", [0, -5, 2.5, float("nan"), True, "many"])
def test_a_training_size_is_a_whole_number(n_train: object) -> None:
    with pytest.raises(ValueError, match="n_train must be a whole number of at least 1"):
        discreet.rank({"a": variant(0.1, runs=2, n=50)}, n_train=n_train)


@pytest.mark.parametrize("losses", [None, [], "losses.csv"])
def test_what_is_no_set_of_losses_is_refused(losses: object) -> None:
    with pytest.raises(ValueError, match="expected arrays by variant or a Record, got"):
        discreet.rank(losses)


def test_correlation_equals_scipy_row_by_row() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    drawn, other = rng.integers(0, 4, (6, 7)).astype(float), rng.integers(0, 4, 7).astype(float)
    np.testing.assert_allclose(correlation(drawn, other), [spearmanr(row, other).statistic for row in drawn])


def test_spearman_against_another_ordering_has_an_interval_that_r_moves() -> None:
    found = discreet.rank(three())
    up = found.spearman({"a": 1.0, "b": 3.0, "c": 2.0})
    assert (up.value, up.low, up.high, up.n) == (1.0, 1.0, 1.0, 3)
    assert found.spearman({"a": -1.0, "b": -3.0, "c": -2.0}).value == -1.0
    noise = {name: variant(0.03, seed=i, n=80, runs=4) for i, name in enumerate("abcd")}
    wide = discreet.rank(noise).spearman({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})
    assert wide.high - wide.low > 0.5


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": 1.0, "b": 2.0}, "at least 3 in common, got 2"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "must not be constant"),
        ({"a": 1.0, "b": np.nan, "c": 1.0}, "must be finite"),
    ],
)
def test_orderings_that_cannot_be_compared(other: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        discreet.rank(three(runs=2, n=50)).spearman(other)


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ({}, "no variant to rank"),
        ({"a": np.ones((2, 2, 3)), "b": np.ones((2, 3, 3))}, r"'a' has \[2, 2, 3\], 'b' has \[2, 3, 3\]"),
        (
            {"a": np.ones((2, 2, 3)), "<script>": np.full((2, 2, 3), np.inf)},
            "variant '<script>', run '0': checkpoint 0",
        ),
    ],
)
def test_bad_input_is_one_clear_error(losses: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        discreet.rank(losses)


def test_unknown_variant_names_those_there_are() -> None:
    found = discreet.rank(three(runs=2, n=50))
    assert isinstance(found, Ranking)
    with pytest.raises(KeyError, match="no variant 'sign'; there are"):
        found["sign"]


def test_lambda_by_rank_counts_the_deciding_checkpoint() -> None:
    found = discreet.rank({"x": variant(0.1)}).lambda_by_rank("x")
    assert found.rank.tolist() == [2, 3]
    assert found.deciding.sum() == found.runs == 12
    assert found.deciding[0] == 12  # the checkpoint 0.1 above the best decides, not the one 0.9 above


def test_lambda_and_r_agree() -> None:
    found = discreet.rank({"x": variant(0.1, runs=1)})
    run = found["x"].per_run["0"]
    table = found.lambda_by_rank("x")
    gaps = np.sort(run.losses - run.losses.min())
    assert run.r == pytest.approx(gaps[1] ** 2 / (2 * table.median.max()), rel=1e-9)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_draws_of_runs_without_r_count_for_nothing(statistic: str) -> None:
    rng = np.random.default_rng(0)
    base = rng.exponential(size=(3, 1, 200))
    gaps = np.array([0.3, 0.0, 0.15])[:, None]
    losses = {
        name: base + scale * gaps + 0.1 * rng.normal(size=(3, 3, 200))
        for name, scale in zip("abc", (1.0, 2.0, 3.0), strict=True)
    }
    losses["a"][:2] = losses["a"][:2, :1]  # one configuration only: no r in two of three runs
    found = discreet.rank(losses, statistic=statistic)
    drawn = found.drawn(["a", "b", "c"])
    assert np.isnan(drawn[:, 0]).mean() == pytest.approx((2 / 3) ** 3, abs=0.05)
    assert np.isfinite(drawn[:, 1:]).all()
    told = found.spearman({"a": 3.0, "b": 2.0, "c": 1.0})
    assert -1 <= told.low <= told.value == -1.0

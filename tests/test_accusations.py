"""Accusation lists: Benjamini-Hochberg by hand, where calibration rows come from, and the rates that are promised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet._types import Bool, Float
from discreet.accusations import accuse, benjamini_hochberg
from discreet.conformal import p_values, realised_band
from discreet.records import Record, RecordError


def bank(
    seed: int,
    *,
    leak: float = 0.0,
    share: float = 1.0,
    runs: int = 8,
    pool: int = 400,
    public: int = 400,
    known: float = 0.0,
    mark: bool = True,
) -> Record:
    """Complementary pairs on a pool, and public samples in no run; a share of the members gains ``leak`` in logit."""
    rng = np.random.default_rng(seed)
    samples = pool + public
    member = np.zeros((runs, samples), bool)
    for pair in range(runs // 2):
        member[2 * pair, rng.permutation(pool)[: pool // 2]] = True
    member[1::2, :pool] = ~member[::2, :pool]
    hit = member & (rng.random(samples) < share)
    logit = rng.normal(1, 1, samples) + 0.7 * rng.normal(size=member.shape) + leak * hit
    signals = {"loss": np.logaddexp(0.0, -logit), "margin": logit}
    if mark:
        signals["public"] = (np.arange(samples) >= pool).astype(np.int8)
    if known:
        told = rng.random(member.shape) < known
        told[:, pool:] = False
        signals["known"] = np.where(told, member, -1).astype(np.int8)
    return Record(
        run=tuple(f"{i}" for i in range(runs)),
        step=np.ones(runs),
        variant=("sign",) * runs,
        sample=np.arange(samples) + 1000,
        signals=signals,
        member=member,
    )


def wrong(found, record: Record) -> float:
    """Share of non-members among the accused."""
    member = record.membership(found.run)[found.accused - 1000]
    return float((~member).mean()) if len(member) else 0.0


@given(st.lists(st.integers(1, 40), min_size=1, max_size=25), st.integers(1, 99))
def test_benjamini_hochberg_is_the_step_up_rule(ranks: list[int], percent: int) -> None:
    fdr, m = Fraction(percent, 100), len(ranks)
    exact = [Fraction(rank, 40) for rank in ranks]
    passing = [k for k in range(1, m + 1) if sorted(exact)[k - 1] <= fdr * k / m]
    cut = sorted(exact)[max(passing) - 1] if passing else Fraction(-1)
    got = benjamini_hochberg(np.array([rank / 40 for rank in ranks]), percent / 100)
    assert got.tolist() == [p <= cut for p in exact]


def test_a_p_value_on_the_line_is_rejected() -> None:
    """1 % of 3 / 9 is 1 / 300, and floats make the line a bit lower."""
    assert 0.01 * 3 / 9 < 1 / 300
    p = np.array([1 / 300] * 3 + [1.0] * 6)
    assert benjamini_hochberg(p, 0.01).tolist() == [True] * 3 + [False] * 6


def test_public_samples_calibrate_an_attack_that_looks_at_the_target_alone() -> None:
    record = bank(0, leak=2.0)
    found = accuse(record, "loss", run="3", variant="sign", alpha=0.05)
    loss = np.asarray(record.signal("loss"))[3]
    assert (found.source, found.calibration) == ("public", 400)
    assert found.sample.tolist() == list(range(1000, 1400))
    assert np.array_equal(found.p, p_values(-loss[:400], -loss[400:]))
    assert set(found.accused) == set((np.flatnonzero(found.p <= 0.05) + 1000).tolist())
    assert (np.diff(found.p[found.accused - 1000]) >= 0).all()
    assert found.low < 0.05 < found.high
    assert str(found) == (
        f"loss on sign, run 3: {len(found.accused)} of 400 accused at FPR 0.05, realised FPR "
        f"{found.low:.3g} to {found.high:.3g} (0.95), 400 calibration rows (public)"
    )
    plain = found.to_json()
    assert plain["accused"] == found.accused.tolist()
    assert plain["rule"] == "alpha"


def test_samples_in_no_other_run_serve_where_nothing_is_marked() -> None:
    marked, plain = (bank(0, leak=2.0, mark=mark) for mark in (True, False))
    one, two = (accuse(each, "loss", run="3", variant="sign", alpha=0.05) for each in (marked, plain))
    assert np.array_equal(one.p, two.p)


def test_attacks_that_compare_runs_are_not_calibrated_on_samples_in_none() -> None:
    record = bank(1, leak=2.0)
    found = accuse(record, "lira", run="3", variant="sign", alpha=0.05)
    assert found.source == "other runs"
    assert found.calibration == 6 * 200
    assert (found.low, found.high) == (0.0, 1.0)
    assert "on average over runs, 1,200 calibration rows (other runs)" in str(found)
    known = bank(1, leak=2.0, known=0.5)
    found = accuse(known, "lira", run="3", variant="sign", alpha=0.05)
    told = np.asarray(known.signal("known"))[3]
    assert (found.source, found.calibration) == ("known", int((told == 0).sum()))
    assert found.sample.tolist() == (np.flatnonzero(told[:400] < 0) + 1000).tolist()


@pytest.mark.parametrize("method", ["loss", "reference", "lira", "lira(variance='pooled')", "base"])
@pytest.mark.parametrize("known", [0.0, 0.4])
def test_null_rate(method: str, known: float) -> None:
    """No leak: over runs and seeds, the share of the pool accused is alpha, or below it with other runs' rows."""
    shares, sources = [], set()
    for seed in range(2):
        record = bank(10 + seed, known=known)
        for run in record.runs:
            found = accuse(record, method, run=run, variant="sign", alpha=0.1)
            shares.append(len(found.accused) / len(found.sample))
            sources.add(found.source)
    low = 0.06 if sources == {"other runs"} else 0.082
    assert low < np.mean(shares) < 0.118


def test_one_pair_and_samples_in_neither_may_be_two_of_three_shards() -> None:
    found = accuse(bank(0, runs=4, mark=False), "loss", run="0", variant="sign", alpha=0.1)
    assert (found.source, len(found.sample)) == ("other runs", 800)
    # A known member that another run trained on shows that they are not.
    known = accuse(bank(0, runs=4, mark=False, known=0.2), "lira", run="0", variant="sign", alpha=0.1)
    assert known.source == "known"
    assert len(known.sample) < 400


@pytest.mark.parametrize("method", ["loss", "lira"])
def test_leak_is_accused_and_mostly_rightly(method: str) -> None:
    record = bank(2, leak=6.0, share=0.5)
    found = accuse(record, method, run="5", variant="sign", fdr=0.2)
    assert len(found.accused) > 30
    assert wrong(found, record) < 0.35


def test_the_membership_of_the_target_is_not_looked_at() -> None:
    record = bank(3, leak=2.0)
    for method in ("loss", "lira"):
        one = accuse(record, method, run="2", variant="sign", fdr=0.2)
        two = accuse(record.blind("2"), method, run="2", variant="sign", fdr=0.2)
        assert np.array_equal(one.accused, two.accused)


def test_order_of_samples_changes_nothing() -> None:
    record = bank(4, leak=3.0)
    order = np.random.default_rng(0).permutation(record.n_samples)
    for method in ("loss", "lira"):
        one = accuse(record, method, run="2", variant="sign", fdr=0.3)
        two = accuse(record.take_samples(order), method, run="2", variant="sign", fdr=0.3)
        assert one.accused.tolist() == two.accused.tolist()


@dataclass(frozen=True)
class Learner:
    """Learns by heart the even public samples, so that they look like strangers; says which it left alone."""

    honest: bool = True

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        score = -np.asarray(blind.signal("loss"))[row].astype(np.float64)
        return score - 5.0 * self._learnt(blind)

    def untouched(self, blind: Record, row: int) -> Bool[np.ndarray, " sample"]:
        public = blind.signal("public").astype(bool)
        return public & ~self._learnt(blind) if self.honest else public & False

    def _learnt(self, blind: Record) -> np.ndarray:
        return blind.signal("public").astype(bool) & (np.arange(blind.n_samples) % 2 == 0)


def test_rows_that_a_fit_saw_are_not_calibrated_on() -> None:
    record = bank(5)
    found = accuse(record, Learner(), run="0", variant="sign", alpha=0.1)
    assert found.calibration == 200
    assert len(found.accused) / len(found.sample) == pytest.approx(0.1, abs=0.06)
    with pytest.raises(RecordError, match="left no public sample untouched to calibrate on"):
        accuse(record, Learner(honest=False), run="0", variant="sign", alpha=0.1)


def test_groups_have_their_own_rows() -> None:
    record = bank(6, leak=1.0)
    label = np.where(np.arange(800) % 4 == 0, "few", "many")
    found = accuse(record, "loss", run="0", variant="sign", alpha=0.05, groups=label)
    loss = -np.asarray(record.signal("loss"))[0]
    for name in ("few", "many"):
        pool, public = (label == name) & (np.arange(800) < 400), (label == name) & (np.arange(800) >= 400)
        assert np.array_equal(found.p[label[:400] == name], p_values(loss[pool], loss[public]))
    assert found.calibration == 100
    single = accuse(record, "loss", run="0", variant="sign", alpha=0.05)
    assert found.low < single.low < single.high < found.high
    # The smaller group's band is the wider one; both bands hold together.
    assert (found.low, found.high) == realised_band(100, 0.05, level=0.975)
    lira = accuse(record, "lira", run="0", variant="sign", alpha=0.05, groups=label)
    assert lira.source == "other runs"
    assert 6 * 30 < lira.calibration < 6 * 60


def test_resolution_is_said() -> None:
    record = bank(7, public=50)
    found = accuse(record, "loss", run="0", variant="sign", alpha=0.01)
    assert not found.resolvable
    assert len(found.accused) == 0
    assert str(found) == (
        "loss on sign, run 0: 0 of 400 accused; FPR 0.01 is not resolvable (needs 99 calibration rows, has 50)"
    )
    found = accuse(bank(7, leak=9.0), "loss", run="0", variant="sign", fdr=0.1)
    assert found.resolvable
    assert found.fewest == 10  # 400 / (0.1 * 401), rounded up
    assert found.needs == 3999
    assert len(found.accused) == 0 or len(found.accused) >= 10
    assert str(found).endswith("; 10 at once or none")


def test_messages() -> None:
    record = bank(8)
    for rates, said in (({}, "neither"), ({"fdr": 0.1, "alpha": 0.1}, "both")):
        with pytest.raises(ValueError, match=f"^accuse: expected one of fdr and alpha, got {said}$"):
            accuse(record, "loss", run="0", variant="sign", **rates)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"^fdr: expected a rate in \(0, 1\), got 1.0$"):
        accuse(record, "loss", run="0", variant="sign", fdr=1.0)
    with pytest.raises(
        RecordError, match=r"^groups: expected one label for each of 800 samples, got shape \[3\]$"
    ):
        accuse(record, "loss", run="0", variant="sign", fdr=0.1, groups=np.zeros(3))
    one = Record(
        run=("0",), step=np.ones(1), variant=("sign",), sample=np.arange(3), signals={"loss": np.ones((1, 3))}
    )
    with pytest.raises(
        RecordError, match=r"^loss: nothing to calibrate on: needs the signal public or known, or more"
    ):
        accuse(one, "loss", run="0", variant="sign", fdr=0.1)
    pair = bank(8, runs=4, public=0, mark=False)
    with pytest.raises(
        RecordError, match=r"^lira\(.*\): nothing to calibrate on: needs .*, or more runs .*\(this attack"
    ):
        accuse(pair, "lira", run="0", variant="sign", fdr=0.1)
    everybody = bank(8, pool=0, public=40)
    with pytest.raises(RecordError, match="none is left to judge"):
        accuse(everybody, "loss", run="0", variant="sign", fdr=0.1)


@pytest.mark.parametrize("repeats", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_false_discovery_rate(repeats: int) -> None:
    """Mean share of wrong accusations: at most fdr times the share of non-members, in fact about that."""
    shares = []
    for seed in range(repeats):
        rng = np.random.default_rng([1, seed])
        member = np.arange(200) < 60
        p = p_values(rng.normal(3.0 * member, 1.0), rng.normal(size=500))
        accused = benjamini_hochberg(p, 0.2)
        shares.append((accused & ~member).sum() / max(accused.sum(), 1))
    error = np.std(shares) / np.sqrt(repeats)
    assert np.mean(shares) < 0.2 * 140 / 200 + 3 * error
    assert np.mean(shares) > 0.2 * 140 / 200 - 0.04 - 3 * error


def test_quantile_is_calibrated_on_what_its_fit_left_alone() -> None:
    record = bank(9, leak=3.0, runs=2, pool=200, public=300)
    x = np.random.default_rng(0).normal(size=(500, 3))
    record = replace(
        record, signals={**record.signals, "features": x}, axes={"features": ("sample", "feature")}
    )
    method = "quantile(learner='ridge', label=False)"
    found = accuse(record, method, run="1", variant="sign", alpha=0.1)
    assert (found.source, found.calibration) == ("public", 90)
    member = record.membership("1")[:200]
    rate = np.isin(found.sample, found.accused)
    assert rate[member].mean() > 0.5
    low, high = realised_band(90, 0.1, level=0.999, judged=100)
    assert low <= rate[~member].mean() <= high

"""Attacks by hand: the small cases of each formula, references that are missing, messages."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from discreet._find import SpecError
from discreet.attacks import attack, names, parse
from discreet.attacks._predictive import Predictive, fit, prior
from discreet.attacks._references import read_statistic
from discreet.attacks.lira import Lira
from discreet.exposure import expose
from discreet.records import Record, RecordError
from discreet.stats import auc


def record(
    loss: np.ndarray, member: np.ndarray, *, calibration: np.ndarray | None = None, **signals: np.ndarray
) -> Record:
    """One step of one variant; the first row is the target, whose membership is not needed."""
    runs = tuple(f"{i}" for i in range(len(loss)))
    return Record(
        run=runs,
        step=np.ones(len(loss)),
        variant=("sign",) * len(loss),
        sample=np.arange(loss.shape[-1]),
        signals={"loss": loss, **signals},
        axes={"loss": ("row", "query", "sample")} if loss.ndim == 3 else {},
        member=member,
        calibration=calibration,
    )


def decoyed(loss: np.ndarray, member: np.ndarray) -> Record:
    """Two more samples, so that no reference is the target's twin or opposite (blind records drop those)."""
    decoy = np.tile([True, False], (len(loss), 1))
    decoy[0], decoy[-1] = [True, True], [False, False]
    return record(np.hstack([loss, np.ones((len(loss), 2))]), np.hstack([member.astype(bool), decoy]))


def one_sample(target: float, inside: list[float], outside: list[float]) -> Record:
    """A bank of references for one sample, given by -loss."""
    values = np.array([target, *inside, *outside])
    member = np.array([False, *[True] * len(inside), *[False] * len(outside)])
    return decoyed(-values[:, None], member[:, None])


def score(data: Record, spec: str) -> float:
    return float(attack(data, spec, run="0", variant="sign").values[0])


@pytest.mark.parametrize(("target", "expected"), [(1.0, -8.0), (3.0, 0.0), (5.0, 8.0), (9.0, 24.0)])
def test_lira_online(target: float, expected: float) -> None:
    data = one_sample(target, [4.0, 5.0, 6.0], [0.0, 1.0, 2.0])
    assert score(data, "lira(variance='sample', signal='loss')") == pytest.approx(expected)


@pytest.mark.parametrize(("target", "tail"), [(3.0, 0.97725), (1.0, 0.5), (-3.0, 3.167e-5)])
def test_lira_offline_has_one_side(target: float, tail: float) -> None:
    data = one_sample(target, [4.0, 5.0, 6.0], [0.0, 1.0, 2.0])
    got = score(data, "lira(mode='offline', variance='sample', signal='loss')")
    assert scipy_stats.norm.cdf(got) == pytest.approx(tail, rel=1e-4)


def test_lira_two_sided_is_a_named_rule() -> None:
    spec = "lira(mode='offline', variance='sample', tail='both', signal='loss')"
    for target in (-3.0, 5.0):
        assert score(one_sample(target, [4.0, 5.0, 6.0], [0.0, 1.0, 2.0]), spec) == pytest.approx(
            8.919, abs=1e-3
        )
    found = attack(one_sample(0.0, [1.0], [0.0, 1.0]), spec, run="0", variant="sign")
    assert "tail='both'" in found.attack


def test_lira_far_out_does_not_saturate() -> None:
    spec = "lira(mode='offline', variance='pooled', signal='loss')"
    far = [score(one_sample(x, [4.0, 5.0], [0.0, 1.0, 2.0]), spec) for x in (30.0, 60.0)]
    assert far[0] < far[1]


def test_shrunken_variance_by_hand() -> None:
    predictive = Predictive(np.array([[1.0]]), np.array([[1.0]]), np.array([[6.0]]))
    x = np.array([[3.0]])
    assert predictive.log_density(x)[0, 0] == pytest.approx(-2.748308, abs=1e-6)
    assert scipy_stats.norm.cdf(predictive.normal_score(x)[0, 0]) == pytest.approx(0.953787, abs=1e-6)
    assert scipy_stats.norm.cdf(predictive.normal_score(2 - x)[0, 0]) == pytest.approx(1 - 0.953787, abs=1e-6)
    normal = Predictive(np.array([[1.0]]), np.array([[2.0]]), np.array([[math.inf]]))
    assert normal.log_density(x)[0, 0] == pytest.approx(scipy_stats.norm.logpdf(3, 1, 2))
    assert normal.normal_score(x)[0, 0] == 1.0


@pytest.mark.parametrize("dof", [2.0, 5.0, 50.0, 300.0, 500.0, 1000.0, 1e4])
def test_normal_scores_far_out_are_those_of_the_tail(dof: float) -> None:
    mpmath = pytest.importorskip("mpmath")
    z = np.array([[3.0, 30.0, 57.7, 60.0, 100.0, 1000.0]])
    found = Predictive(np.zeros((1, 6)), np.ones((1, 6)), np.full((1, 6), dof)).normal_score(z)
    assert np.isfinite(found).all()
    with mpmath.workdps(60):
        for at, score in zip(z[0], found[0], strict=True):
            x = dof / (dof + mpmath.mpf(at) ** 2)
            expected = mpmath.log(mpmath.betainc(dof / 2, 0.5, 0, x, regularized=True) / 2)
            normal = mpmath.log(mpmath.erfc(mpmath.mpf(float(score)) / mpmath.sqrt(2)) / 2)
            assert float(normal / expected) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("dof", [2.0, 50.0, 300.0, 500.0, 1000.0, 1e4, 1e8])
def test_normal_scores_rise_evenly(dof: float) -> None:
    z = np.linspace(1, 200, 8000)[None]
    score = Predictive(np.zeros_like(z), np.ones_like(z), np.full_like(z, dof)).normal_score(z)
    rise = np.diff(score[0])
    assert (rise > 0).all()
    assert np.abs(np.diff(rise)).max() < 0.02 * rise.max()  # no jump where the tail's own value ends


def test_prior_is_recovered() -> None:
    rng = np.random.default_rng(0)
    true = 6 * 2.0 / rng.chisquare(6, 40_000)  # scaled inverse chi-square: d0 = 6, s0^2 = 2
    seen = true * rng.chisquare(3, 40_000) / 3
    d0, s0 = prior(seen, np.full(40_000, 3.0), 1.0)
    assert d0 == pytest.approx(6, rel=0.1)
    assert s0 == pytest.approx(2, rel=0.05)
    same = 2.0 * rng.chisquare(3, 40_000) / 3
    assert prior(same, np.full(40_000, 3.0), 7.0)[0] > 100
    assert prior(np.zeros(50), np.full(50, 3.0), 7.0) == (math.inf, 7.0)


def test_posterior_mixes_prior_and_own_variance() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5, 1, 400)) * np.sqrt(6 / rng.chisquare(6, 400))
    mask = np.ones((5, 400), bool)
    got = fit(values, mask, values.mean(axis=0), "bayes")
    own = values[:, 0].var(axis=0, ddof=1)
    d0, s0 = prior(own, np.full(400, 4.0), 1.0)
    assert got.scale[0] == pytest.approx(np.sqrt((d0 * s0 + 4 * own) / (d0 + 4) * (1 + 1 / 5)))
    assert got.dof[0] == pytest.approx(d0 + 4)


@pytest.mark.parametrize("variance", ["bayes", "sample", "pooled"])
@pytest.mark.parametrize("mode", ["online", "offline"])
def test_few_and_silent_references_stay_finite(variance: str, mode: str) -> None:
    rng = np.random.default_rng(2)
    for references in (1, 2, 3):
        member = rng.random((references + 1, 60)) < 0.5
        for loss in (rng.gamma(1.0, size=member.shape), np.ones(member.shape), np.zeros(member.shape)):
            values = attack(record(loss, member), Lira(mode, variance), run="0", variant="sign").values
            # The paper's own variance may be arbitrarily small by chance; the others may not.
            assert np.abs(values).max() < (np.inf if variance == "sample" else 1e4)


def test_reference_by_hand_and_borrowed() -> None:
    loss = np.array([[1.0, 1.0, 1.0], [3.0, 5.0, 2.0], [2.0, 7.0, 4.0], [9.0, 6.0, 6.0]])
    member = np.array([[1, 0, 0], [1, 0, 1], [1, 0, 0], [0, 1, 0]])
    got = attack(decoyed(loss, member), "reference", run="0", variant="sign").values
    assert got[:3] == pytest.approx([9 - 1, 6 - 1, 5 - 1])
    member[1:, 0] = 1  # now every reference trained on sample 0
    got = attack(decoyed(loss, member), "reference", run="0", variant="sign").values
    # Mean outside less mean inside, over the samples that have both: samples 1 and 2 and the first decoy.
    shift = np.mean([6 - 6.0, 5 - 2.0, 0.0])
    assert got[0] == pytest.approx(np.mean([3, 2, 9]) + shift - 1)


def test_calibration_rows_are_not_outside() -> None:
    loss = np.array([[1.0, 1.0, 1.0], [3.0, 5.0, 4.0], [2.0, 7.0, 4.0]])
    member = np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0]], bool)
    calibration = np.zeros((3, 1, 3), bool)
    calibration[1, 0, 0] = True
    got = attack(record(loss, member, calibration=calibration), "reference", run="0", variant="sign").values
    assert got[:2] == pytest.approx([2 - 1, 7 - 1])


def test_rmia_by_hand() -> None:
    p_target, p_out = (
        np.array([0.9, 0.8, 0.95, 0.5, 0.6]),
        np.array([[0.5, 0.7], [0.8] * 2, [0.7] * 2, [0.6] * 2, [0.2] * 2]),
    )
    loss = -np.log(np.vstack([p_target, p_out.T]))
    member = np.zeros((3, 5), bool)
    member[0, 0] = member[1, 1] = member[2, 2] = True
    data = record(loss, member)
    ratio = attack(data, "rmia", run="0", variant="sign").values
    assert np.exp(ratio[0]) == pytest.approx(0.9 / 0.74)
    lr = np.exp(ratio[0] - ratio[1:])
    assert lr == pytest.approx([1.3226, 1.0306, 1.8, 0.9730], abs=2e-4)
    assert [np.mean(lr >= gamma) for gamma in (1.0, 1.2, 2.0)] == [0.75, 0.5, 0.0]
    for gamma in (1.0, 1.2, 2.0):
        got = attack(data, f"rmia(score='paper', gamma={gamma})", run="0", variant="sign").values
        naive = [np.mean(np.exp(x - ratio) >= gamma - 1e-12) for x in ratio]
        assert got == pytest.approx(naive)


def test_rmia_count_is_a_coarsening_of_the_ratio() -> None:
    rng = np.random.default_rng(0)
    data = record(rng.gamma(1.0, size=(6, 300)), rng.random((6, 300)) < 0.5)
    ratio, count = (
        attack(data, f"rmia(score={x!r})", run="0", variant="sign").values for x in ("ratio", "paper")
    )
    order = np.argsort(ratio)
    assert (np.diff(count[order]) >= 0).all()
    assert len(np.unique(count)) <= len(np.unique(ratio))


@pytest.mark.slow
def test_rmia_needs_no_table() -> None:
    rng = np.random.default_rng(0)
    data = record(rng.gamma(1.0, size=(4, 50_000)), rng.random((4, 50_000)) < 0.5)
    tracemalloc.start()
    attack(data, "rmia(score='paper')", run="0", variant="sign")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6


def test_base_by_hand() -> None:
    data = decoyed(-np.log(np.array([[0.9], [0.5], [0.7]])), np.array([[1], [0], [1]]))
    assert score(data, "base(mode='online')") == pytest.approx(math.log(0.9 / 0.6))
    assert score(data, "base(mode='offline')") == pytest.approx(math.log(0.9 / 0.5))
    huge = decoyed(np.array([[1e4], [2e4], [2e4]]), np.array([[1], [0], [1]]))
    assert score(huge, "base") == pytest.approx(1e4)


def test_base_averages_over_references_that_are_on_either_side() -> None:
    rng = np.random.default_rng(0)
    loss, member = rng.gamma(1.0, size=(6, 80)), rng.random((6, 80)) < 0.5
    plain = attack(record(loss, member), "base", run="0", variant="sign").values
    ratio = np.exp(loss[1:].min(axis=0) - loss[1:])
    assert np.array_equal(plain, loss[1:].min(axis=0) - loss[0] - np.log(ratio.mean(axis=0)))
    # Sample 0 calibrated the first references, whatever they say of it, and sample 1 all of them.
    loss[[1, 2], 0], member[:, :2] = 0.0, False
    loss[0, 0], loss[3:, 0] = 899.0, 900.0
    calibration = np.zeros((6, 1, 80), bool)
    calibration[[1, 2], 0, 0] = calibration[:, 0, 1] = True
    got = attack(record(loss, member, calibration=calibration), "base", run="0", variant="sign").values
    assert got[0] == pytest.approx(1.0)
    assert got[1:] == pytest.approx(plain[1:])


def test_a_recorded_confidence_is_read_as_it_is() -> None:
    """Losses of very sure models round to 0; their confidence still tells them apart."""
    member = np.array([[True, False], [True, False], [False, True]])
    sure = np.array([[60.0, 50.0], [55.0, 45.0], [45.0, 55.0]])
    data = record(np.zeros((3, 2)), member, confidence=sure)
    assert read_statistic(data, np.array([0, 2]), "confidence").tolist() == [[[60.0, 50.0]], [[45.0, 55.0]]]
    assert np.ptp(read_statistic(record(np.zeros((3, 2)), member), np.array([0]), "confidence")) == 0


def test_confidence_from_losses() -> None:
    def phi(loss: list[float]) -> np.ndarray:
        data = record(np.array([loss]), np.zeros((1, len(loss)), bool))
        return read_statistic(data, np.array([0]), "confidence")[0, 0]

    p = np.array([0.1, 0.5, 0.999])
    assert phi(list(-np.log(p))) == pytest.approx(np.log(p / (1 - p)))
    # log(1 + 9 exp(-g)), the loss of logits [g, 0 x 9]; the logit is g - log 9.
    assert phi([math.log1p(9 * math.exp(-g)) for g in (5, 20, 30)]) == pytest.approx(
        [2.8028, 17.8028, 27.8028], abs=1e-4
    )
    assert phi([0.0, 1e-300, 1e3]) == pytest.approx([36.84, 36.84, -1000.0], abs=0.01)
    with pytest.raises(RecordError, match=r"confidence: expected losses of at least 0, got -1"):
        phi([-1.0])


def test_metric() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((3, 40)) < 0.5
    loss = rng.gamma(1.0, size=member.shape)
    label = np.arange(40) % 2 + 3
    data = record(loss, member, margin=-loss + 0.5, entropy=loss, modified_entropy=2 * loss, label=label)
    run: dict[str, Any] = {"run": "0", "variant": "sign"}
    assert attack(data, "metric", **run).values == pytest.approx(-loss[0])
    assert attack(data, "metric('correctness')", **run).values.tolist() == (loss[0] < 0.5).tolist()
    assert attack(data, "metric('entropy')", **run).values == pytest.approx(-loss[0])
    assert attack(data, "metric('modified')", **run).values == pytest.approx(-2 * loss[0])
    got = attack(data, "metric(by_class=True)", **run).values
    for i in (0, 1, 7):
        known = [-loss[r, j] for r in (1, 2) for j in range(40) if label[j] == label[i] and not member[r, j]]
        assert got[i] == pytest.approx(np.mean([(-loss[0, i] > x) + 0.5 * (-loss[0, i] == x) for x in known]))
    member[1:, label == 3] = True
    with pytest.raises(RecordError, match="by_class: no reference has a non-member of class 3"):
        attack(record(loss, member, label=label), "metric(by_class=True)", **run)
    with pytest.raises(RecordError, match=r"no signal .entropy"):
        attack(record(loss, member), "metric('entropy')", **run)


def test_attack_p_only_rescales() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((3, 40)) < 0.5
    loss = rng.gamma(1.0, size=member.shape)
    got = attack(record(loss, member), "attack_p", run="0", variant="sign").values
    known = -loss[1:][~member[1:]]
    assert got == pytest.approx([(known < x).mean() for x in -loss[0]])


def test_queries_are_averaged_after_the_logit() -> None:
    rng = np.random.default_rng(0)
    loss, member = rng.gamma(1.0, size=(5, 2, 30)), rng.random((5, 30)) < 0.5
    both = attack(record(loss, member), "lira('offline', 'pooled')", run="0", variant="sign").values
    each = [
        attack(record(loss[:, q], member), "lira('offline', 'pooled')", run="0", variant="sign").values
        for q in (0, 1)
    ]
    assert both == pytest.approx(np.mean(each, axis=0))


@pytest.mark.parametrize("spec", ["loss", "metric", "metric('correctness')", "metric(by_class=True)"])
def test_attacks_on_one_number_take_the_mean_over_queries(spec: str) -> None:
    rng = np.random.default_rng(0)
    loss, member = rng.gamma(1.0, size=(5, 2, 30)), rng.random((5, 30)) < 0.5
    label = np.zeros(30, int)
    data = record(loss, member, label=label)
    data = replace(
        data,
        signals={**data.signals, "margin": 1 - loss},
        axes={**data.axes, "margin": ("row", "query", "sample")},
    )
    asked = attack(data, spec, run="0", variant="sign").values
    mean = record(loss.mean(axis=1), member, label=label)
    if "correct" in spec:
        assert asked.tolist() == (loss[0] < 1).mean(axis=0).tolist()
    else:
        assert asked == pytest.approx(attack(mean, spec, run="0", variant="sign").values)


def two_variants(noise: float) -> Record:
    rng = np.random.default_rng(0)
    member = rng.random((8, 600)) < 0.5
    member[1::2] = ~member[::2]
    logit = rng.normal(1.0, 1.0, 600) + 0.3 * rng.normal(size=member.shape) + member
    noisy = [logit + noise * rng.normal(size=member.shape) for _ in range(2)]
    return Record(
        run=tuple("01234567" * 2),
        step=np.ones(16),
        variant=("sign",) * 8 + ("ternary",) * 8,
        sample=np.arange(600),
        signals={"loss": np.logaddexp(0.0, -np.concatenate(noisy))},
        member=member,
    )


def test_joint_release_leaks_more_than_either() -> None:
    data = two_variants(1.5)
    values = {}
    for spec in ("lira", "joint"):
        found = expose(data, spec, "sign")
        values[spec] = auc(found.scores, found.member).value
    assert values["joint"] > values["lira"] + 0.02


def test_joint_of_one_variant_is_lira() -> None:
    data = two_variants(0.5)
    run: dict[str, Any] = {"run": "3", "variant": "sign"}
    alone = attack(data, "joint(variants=('sign',))", **run).values
    assert alone == pytest.approx(attack(data, "lira", **run).values)
    twice = attack(data, "joint", **run).values
    assert not np.allclose(twice, alone)
    assert twice == pytest.approx(attack(data, "joint", run="3", variant="ternary").values)
    with pytest.raises(
        RecordError, match="variants: run '3' has no 'vector' at step 1; it has sign, ternary"
    ):
        attack(data, "joint(variants=('vector',))", **run)


def _normal_logpdf(x: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    square = np.einsum("ni,ij,nj->n", x, np.linalg.inv(covariance), x)
    return -(square + np.log(np.linalg.det(2 * np.pi * covariance))) / 2


def test_joint_density_is_the_multivariate_normal() -> None:
    """With pooled variances: the copula of normal margins is a multivariate normal."""
    data = two_variants(0.5)
    got = attack(data, "joint(variance='pooled')", run="0", variant="sign").values
    blind = data.blind("0")
    member = np.asarray(blind.member)
    phi = read_statistic(blind, np.arange(len(blind.run)), "confidence")[:, 0]
    rows = [[i for i, v in enumerate(blind.variant) if v == name] for name in ("sign", "ternary")]
    target = np.stack([phi[r[0]] for r in rows], axis=1)
    density = []
    for mask in (member, ~member):
        counts = mask.sum(axis=0)
        centre = np.stack([(phi[r[1:]] * mask).sum(axis=0) / counts for r in rows], axis=1)
        rest = np.stack([((phi[r[1:]] - c) * mask).ravel() for r, c in zip(rows, centre.T, strict=True)])
        sd = np.sqrt((rest**2).sum(axis=1) / (counts - 1).sum())
        r = 0.98 * (rest[0] @ rest[1]) / np.sqrt((rest[0] @ rest[0]) * (rest[1] @ rest[1]))
        covariance = np.array([[sd[0] ** 2, r * sd[0] * sd[1]], [r * sd[0] * sd[1], sd[1] ** 2]])
        density.append(_normal_logpdf(target - centre, covariance))
    assert got == pytest.approx(density[0] - density[1])


def test_steps_and_missing_references() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((2, 10)) < 0.5
    data = Record(
        run=("0", "0", "1", "1"),
        step=np.array([1.0, 2.0, 1.0, 3.0]),
        variant=("sign",) * 4,
        sample=np.arange(10),
        signals={"loss": rng.gamma(1.0, size=(4, 10))},
        member=member,
    )
    run: dict[str, Any] = {"run": "0", "variant": "sign"}
    assert attack(data, "loss", **run).step == 2.0
    assert attack(data, "loss", step=1.0, **run).values == pytest.approx(-data.signals["loss"][0])
    assert np.isfinite(attack(data, "reference", step=1.0, **run).values).all()
    with pytest.raises(
        RecordError, match="run '1' has 2 rows of variant 'sign', but none at the target's step 2"
    ):
        attack(data, "reference", **run)
    with pytest.raises(RecordError, match="run '0' has no row of variant 'sign' at step 7"):
        attack(data, "loss", step=7.0, **run)
    with pytest.raises(RecordError, match="needs references: no other run has this variant"):
        attack(data.take_rows([0]), "reference", **run)
    with pytest.raises(RecordError, match="no membership: this attack needs to know"):
        attack(_without_membership(), "lira", **run)


def _without_membership() -> Record:
    return Record(
        run=("0", "1"),
        step=np.ones(2),
        variant=("sign",) * 2,
        sample=np.arange(3),
        signals={"loss": np.ones((2, 3))},
    )


def test_specs() -> None:
    assert {"loss", "metric", "attack_p", "reference", "lira", "rmia", "base"} <= set(names())
    found = attack(one_sample(-1.0, [-1.0], [-2.0, -3.0]), "lira", run="0", variant="sign")
    assert found.attack == "lira(mode='online', variance='bayes', tail='upper', signal='confidence')"
    assert parse(found.attack) == Lira()
    for spec, message in {
        "lira(mode='on')": "mode: expected one of online, offline, got 'on'",
        "rmia(a=2.0)": "a: expected a number from 0 to 1, got 2",
        "rmia(gamma=0.0)": "gamma: expected a positive number, got 0",
        "base(temperature=-1.0)": "temperature: expected a positive number, got -1",
        "lyra": "unknown attack 'lyra'; did you mean 'lira'",
    }.items():
        with pytest.raises(SpecError, match=message):
            parse(spec)


def test_expose_judges_every_run_and_drops_calibration_rows() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((4, 200)) < 0.5
    calibration = np.zeros((4, 1, 200), bool)
    calibration[2, 0, :50] = True
    data = record(rng.gamma(1.0 + 2 * ~member), member, calibration=calibration)
    found = expose(data, "loss", "sign")
    assert found.runs == ("0", "1", "2", "3")
    assert found.keep.sum() == 750
    assert found.members + found.nonmembers == 750
    assert auc(found.scores, found.member, keep=found.keep).low > 0.6
    assert expose(data, "loss", "sign", runs=["2"]).keep.sum() == 150
    with pytest.raises(RecordError, match="no membership: an attack cannot be judged"):
        expose(_without_membership(), "loss", "sign")
    with pytest.raises(RecordError, match="runs: expected at least one run"):
        expose(data, "loss", "sign", runs=[])


def test_samples_that_the_attacker_was_told_about_are_not_judged() -> None:
    rng = np.random.default_rng(0)
    member = rng.random((4, 60)) < 0.5
    member[1::2] = ~member[::2]
    member[:, :20] = False
    public = np.zeros(60, np.int8)
    public[:20] = 1
    known = np.full((4, 60), -1, np.int8)
    known[2, 30:40] = member[2, 30:40]
    loss = rng.gamma(1.0 + 2 * ~member)
    told = {"public": public, "known": known}
    found = expose(record(loss, member, **told), "loss", "sign")
    expected = np.ones((4, 60), bool)
    expected[:, :20] = False
    expected[2, 30:40] = False
    assert np.array_equal(found.keep, expected)
    assert (found.members + found.nonmembers) == 150
    with pytest.raises(RecordError, match="known: sample 30 of run '2' is said to be"):
        expose(record(loss, member, known=np.where(known >= 0, 1 - known, -1)), "loss", "sign")
    for wrong, message in (
        ({"known": np.full((4, 60), 5, np.int8)}, r"known: expected 1 \(member\), 0 \(non-member\) or -1"),
        ({"known": np.full(60, -1, np.int8)}, "known: expected the axes row, sample, got sample"),
        ({"known": member.astype(np.int8)}, "the attacker knows the answer to every sample"),
        (
            {"public": np.zeros((4, 60), np.int8)},
            "public: expected 0 or 1 with the axes sample, got int8, row, sample",
        ),
        ({"public": np.full(60, 0.5)}, "public: expected 0 or 1 with the axes sample, got float64, sample"),
    ):
        with pytest.raises(RecordError, match=message):
            expose(record(loss, member, **wrong), "loss", "sign")
    at = int(np.flatnonzero(member[0])[0])
    public[at] = 1
    with pytest.raises(RecordError, match=f"public: sample '{at}' is a member of run '0'"):
        expose(record(loss, member, public=public), "loss", "sign")


def test_what_is_told_of_one_variant_is_told_of_its_run() -> None:
    data = two_variants(0.1)
    member = np.asarray(data.member)
    known = np.full((16, 600), -1, np.int8)
    known[2, :100] = member[2, :100]
    told = replace(data, signals={**data.signals, "known": known})
    found = expose(told, "loss", "ternary")
    assert np.array_equal(found.keep, ~((np.arange(8)[:, None] == 2) & (np.arange(600) < 100)))


def test_calibration_samples_of_any_variant_of_a_release_are_not_judged() -> None:
    data = two_variants(0.1)
    calibration = np.zeros((8, 2, 600), bool)
    calibration[3, 1, :50] = True
    data = replace(data, calibration=calibration)
    assert expose(data, "lira", "sign").keep.all()
    for spec in ("joint", "joint(variants=('sign', 'ternary'))"):
        assert (~expose(data, spec, "sign").keep).sum(axis=1).tolist() == [0, 0, 0, 50, 0, 0, 0, 0]
    assert expose(data, "joint(variants=('sign',))", "sign").keep.all()


def test_calibration_samples_are_judged_on_request() -> None:
    rng = np.random.default_rng(1)
    member = np.zeros((2, 300), bool)
    member[0, :100] = member[1, 100:200] = True
    calibration = np.zeros((2, 1, 300), bool)
    calibration[:, 0, 200:250] = True
    loss = rng.gamma(3.0, size=(2, 300)) - 2 * calibration[:, 0] - member
    data = record(loss - loss.min(), member, calibration=calibration)
    asked = expose(data, "loss", "sign", of="calibration")
    assert np.array_equal(asked.member, calibration[:, 0])
    assert np.array_equal(asked.keep, ~member)
    assert auc(asked.scores, asked.member, keep=asked.keep).low > 0.5
    calibration[0, 0, :5] = True
    mixed = record(loss - loss.min(), member, calibration=calibration)
    with pytest.raises(
        RecordError, match="5 of 105 calibration samples of variant 'sign' are training members"
    ):
        expose(mixed, "loss", "sign", of="calibration")
    with pytest.raises(RecordError, match="no sample calibrated variant 'sign'"):
        expose(record(loss - loss.min(), member), "loss", "sign", of="calibration")
    with pytest.raises(ValueError, match='of: expected "member" or "calibration"'):
        expose(data, "loss", "sign", of="queries")


def test_samples_outside_the_pool_are_not_judged() -> None:
    """Runs draw from the first 200 samples; who compares runs sees that the others are in none."""
    rng = np.random.default_rng(3)
    member = rng.random((8, 300)) < 0.5
    member[1::2] = ~member[::2]
    member[:, 200:] = False
    loss = rng.gamma(2.0, size=member.shape)  # nothing leaks
    found = expose(record(loss, member), "reference", "sign")
    assert np.array_equal(found.keep, np.tile(np.arange(300) < 200, (8, 1)))
    counted = np.array([np.asarray(record(loss, member).blind(run).member).sum(axis=0) for run in found.runs])
    assert auc(counted.astype(float), found.member).value > 0.6  # what it would have been given credit for
    assert auc(counted.astype(float), found.member, keep=found.keep).value == 0.5
    # what blind records of four runs hold is one pair, in plain sight
    pairs = expose(record(loss[:4], member[:4]), "reference", "sign")
    assert np.array_equal(pairs.keep, found.keep[:4])
    few = expose(record(loss[:6:2], member[:6:2]), "reference", "sign")
    assert few.keep.all()

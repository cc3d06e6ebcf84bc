"""The quantile attack: that it is honest on nothing, strong on something, and clear about what it lacks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, kstest

from discreet._find import SpecError
from discreet.attacks import attack, parse
from discreet.attacks._public import public_samples, roles
from discreet.attacks.quantile import Quantile
from discreet.learners import parse as learner
from discreet.records import Record, RecordError
from discreet.stats import auc

RIDGE = "quantile(learner='ridge')"


def record(
    s: np.ndarray,
    x: np.ndarray,
    public: np.ndarray | None,
    member: np.ndarray,
    label: np.ndarray | None = None,
    **more: Any,
) -> Record:
    """One model, its margins, and what is known of its samples."""
    signals = {"margin": s[None], "loss": np.logaddexp(0, -s)[None], "features": x}
    signals |= {} if public is None else {"public": public.astype(np.int8)}
    signals |= {} if label is None else {"label": label}
    return Record(
        run=("0",),
        step=np.ones(1),
        variant=("sign",),
        sample=np.arange(len(s))[::-1],
        signals=signals,
        axes={"features": ("sample", "feature")},
        member=member[None],
        **more,
    )


def planted(seed: int, n: int, leak: float, columns: int = 3) -> Record:
    """Scores whose centre and spread differ from sample to sample; a member's rises by ``leak`` of its spread."""
    rng = np.random.default_rng(seed)
    x, label = rng.normal(size=(n, columns)), rng.integers(0, 3, n)
    public = rng.random(n) < 0.4
    member = (rng.random(n) < 0.5) & ~public
    s = 2 * x[:, 0] + 2.0 * label + np.exp(0.8 * x[:, 1] - 0.5) * (rng.normal(size=n) + leak * member)
    return record(s, x, public, member, label)


def judged(data: Record) -> np.ndarray:
    return data.signal("public") == 0


def values(data: Record, spec: str) -> np.ndarray:
    return attack(data, spec, run="0", variant="sign").values


def area(data: Record, spec: str) -> float:
    assert data.member is not None
    return auc(values(data, spec)[None], np.asarray(data.member), keep=judged(data)[None]).value


def exceeding(others: np.ndarray, scores: np.ndarray, alpha: float) -> float:
    """Share of ``scores`` above the threshold that at most ``alpha`` of ``others`` exceed."""
    return float((scores > np.sort(others)[::-1][int(alpha * len(others))]).mean())


def test_evaluation_in_sample_fakes_a_leak() -> None:
    """Nobody is a member; the rows that were fitted serve as the non-members all the same."""
    rates = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, s = rng.normal(size=(21000, 10)), rng.normal(size=21000)
        fitted = learner("lightgbm(leaves=31, trees=50)").fit(
            x[:1000], None, s[:1000], levels=np.array([0.99]), seed=0
        )
        beyond = s - fitted.quantiles(x, None)[:, 0]
        rates.append(exceeding(beyond[:1000], beyond[1000:], 0.01))
    assert np.mean(rates) > 0.025
    assert min(rates) > 0.0185  # beyond what a threshold from 1000 fresh rows would do, 99.9 % of the time


def null(seed: int, columns: int) -> Record:
    rng = np.random.default_rng(seed)
    n = 5000
    x, s = rng.normal(size=(n, columns)), rng.normal(size=n)
    return record(s, x, np.arange(n) < 500, np.arange(n) % 2 == 1 if seed < 0 else rng.random(n) < 0)


def test_ours_does_not() -> None:
    """The same with a learner that overfits: public rows are judged out of fold, calibration rows by no fit."""
    inside, outside, untouched = [], [], []
    method = Quantile(learner="ridge(penalty=0.01)", label=False)
    for seed in range(8):
        data = null(seed, columns=60)
        found = method.fit(data.blind("0"), 0)
        fit, calibrate = found.roles.fit, found.roles.calibrate
        scores, fresh = found.scores, found.scores[~fit & ~calibrate]
        best, x, s = found.selection.best.learner, data.signal("features"), data.signal("margin")[0]
        own = best.fit(x[fit], None, s[fit], levels=np.array([0.5]), seed=0).score(x[fit], None, s[fit])
        inside.append(exceeding(own, fresh, 0.01))
        outside.append(exceeding(scores[fit], fresh, 0.01))
        untouched.append(exceeding(scores[calibrate], fresh, 0.01))
    # Expected of the threshold from n fresh rows: (floor(n / 100) + 1) / (n + 1) of others beyond it.
    assert np.mean(inside) > 0.04
    assert np.mean(outside) < 0.02
    assert np.mean(untouched) < 0.03
    assert np.mean(untouched) == pytest.approx(2 / 151, abs=0.012)


def test_untouched_scores_are_those_of_fresh_non_members() -> None:
    """Conformal p-values from them are uniform on fresh non-members, however bad the fit."""
    p = []
    for seed in range(25):
        data = planted(seed, 300, leak=0.0)
        method = Quantile(learner="ridge", folds=2, seed=seed)
        scores = method(data.blind("0"), 0)
        own = scores[method.untouched(data.blind("0"), 0)]
        fresh = scores[judged(data)][:8]
        p += ((1 + (own >= fresh[:, None]).sum(axis=1)) / (1 + len(own))).tolist()
    assert kstest(p, "uniform").pvalue > 0.001
    assert binomtest(int((np.array(p) <= 0.1).sum()), len(p), 0.1, "greater").pvalue > 0.001


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        (RIDGE, 0.14),
        pytest.param("quantile", 0.1, marks=pytest.mark.slow),
        pytest.param("quantile(learner=\"pinball(head='gaussian')\")", 0.1, marks=pytest.mark.slow),
        pytest.param("quantile(learner='lightgbm')", 0.1, marks=pytest.mark.slow),
        pytest.param("quantile(learner='catboost')", 0.1, marks=pytest.mark.slow),
    ],
)
def test_beats_one_threshold_where_samples_differ(spec: str, more: float) -> None:
    data = planted(1, 1500, leak=1.0)
    assert area(data, spec) > area(data, "marginal") + more
    assert area(data, "loss") == pytest.approx(area(data, "marginal"))


def test_labels_help_where_scores_depend_on_them() -> None:
    data = planted(2, 3000, leak=1.0)
    assert area(data, RIDGE) > area(data, "quantile(learner='ridge', label=False)") + 0.05


def test_marginal_is_the_score() -> None:
    data = planted(3, 50, leak=1.0)
    assert np.array_equal(values(data, "marginal"), data.signal("margin")[0])
    assert parse("marginal") == parse("marginal(signal='margin')")


def test_marginal_on_a_rare_leak() -> None:
    """Five in a hundred members' scores rise by 3: P(N > 3.09) + 0.05 (P(N > 0.09) - ...) = 2.4 %."""
    rng = np.random.default_rng(0)
    s = rng.normal(size=400_000)
    member = np.arange(400_000) < 200_000
    s[:10_000] += 3
    assert exceeding(s[~member], s[member], 0.001) == pytest.approx(0.024, abs=0.002)


def test_queries_are_averaged() -> None:
    data = planted(4, 300, leak=1.0)
    s = data.signal("margin")
    noise = np.random.default_rng(0).normal(size=s.shape)
    more = replace(
        data,
        signals=dict(data.signals) | {"margin": np.stack([s + noise, s - noise], axis=1)},
        axes=dict(data.axes) | {"margin": ("row", "query", "sample")},
    )
    for spec in ("marginal", RIDGE):
        assert values(more, spec) == pytest.approx(values(data, spec), rel=1e-6, abs=1e-6)


def test_margin_of_one_logit_is_its_confidence() -> None:
    """z (2y - 1) either way; here by way of the loss."""
    data = planted(5, 300, leak=1.0)
    by_loss = values(data, "quantile(learner='ridge', signal='confidence')")
    assert by_loss == pytest.approx(values(data, RIDGE), rel=1e-6, abs=1e-6)


def test_roles_go_by_id() -> None:
    data = planted(6, 400, leak=0.0)
    one = roles(data, 0.3, 0)
    public = judged(data) == 0
    assert not (one.fit & one.calibrate).any()
    assert np.array_equal(one.fit | one.calibrate, public)
    assert one.calibrate.sum() == round(0.3 * public.sum())
    order = np.random.default_rng(0).permutation(400)
    moved = roles(data.take_samples(order), 0.3, 0)
    assert np.array_equal(moved.fit, one.fit[order])
    assert np.array_equal(order[moved.order], one.order)
    fewer = roles(data.take_samples(np.arange(360)), 0.3, 0)
    assert (fewer.calibrate == one.calibrate[:360]).mean() > 0.95
    assert (roles(data, 0.3, 1).calibrate != one.calibrate).any()
    assert not Quantile(calibrate=0.0).untouched(data, 0).any()


def test_fitted_samples_are_scored_out_of_fold() -> None:
    data = planted(7, 200, leak=0.0)
    method = Quantile(learner="ridge", folds=4)
    found = method.fit(data, 0)
    x, y, s = data.signal("features"), data.signal("label"), data.signal("margin")[0]
    assert np.array_equal(np.sort(found.scores[found.roles.fit]), np.sort(found.selection.best.scores))
    fit = np.flatnonzero(found.roles.fit)
    best = found.selection.best.learner
    whole = best.fit(x[fit], y[fit], s[fit], levels=found.selection.levels, seed=0).score(x, y, s)
    assert found.scores[~found.roles.fit] == pytest.approx(whole[~found.roles.fit], abs=1e-6)
    assert (np.abs(found.scores[fit] - whole[fit]) > 1e-4).all()


def test_same_seed_same_bytes() -> None:
    data = planted(8, 300, leak=1.0)
    for spec in ("quantile(learner='pinball(epochs=5)')", "quantile(learner='catboost(trees=3)')"):
        one = values(data, spec)
        assert np.array_equal(one, values(data, spec))
        order = np.random.default_rng(0).permutation(300)
        assert np.array_equal(values(data.take_samples(order), spec), one[order])
        assert not np.array_equal(one, values(data, spec.replace(")'", ")', seed=1")))


def test_selection_is_told() -> None:
    data = planted(9, 400, leak=0.0)
    specs = ("ridge(penalty=1e5)", "ridge", "lightgbm(trees=20)")
    found = Quantile(learner=specs, alpha=0.05).fit(data, 0).selection
    assert found.level == pytest.approx(0.95)
    assert len(found.candidates) == 3
    assert found.best.spec.startswith("ridge(penalty=3.0")
    assert found.candidates[0].crossed == 0
    assert 0 < found.candidates[2].crossed <= 1
    more = Quantile(learner=("ridge(penalty=1e5)",), alpha=0.05, trials=4).fit(data, 0).selection
    assert len(more.candidates) == 5
    assert more.best.pinball < more.candidates[0].pinball


def test_public_by_the_signal_or_by_what_others_trained_on() -> None:
    rng = np.random.default_rng(0)
    s, x = rng.normal(size=(3, 60)), rng.normal(size=(60, 2))
    member = np.zeros((3, 60), bool)
    member[0, :20], member[1, 10:30], member[2, [5, 35]] = True, True, True
    calibration = np.zeros((3, 1, 60), bool)
    calibration[2, 0, 40] = True
    data = Record(
        run=("0", "1", "2"),
        step=np.ones(3),
        variant=("sign",) * 3,
        sample=np.arange(60),
        signals={"margin": s, "features": x},
        axes={"features": ("sample", "feature")},
        member=member,
        calibration=calibration,
    )
    blind = data.blind("0")
    strangers = ~member[1:].any(axis=0)
    strangers[40] = False
    assert np.array_equal(public_samples(blind), strangers)
    assert np.isfinite(values(data, "quantile(learner='ridge', label=False)")).all()
    marked = replace(data, signals=dict(data.signals) | {"public": np.arange(60) >= 50})
    assert np.array_equal(public_samples(marked.blind("0")), np.arange(60) >= 50)
    clash = replace(data, signals=dict(data.signals) | {"public": np.arange(60) >= 35})
    with pytest.raises(RecordError, match="public: sample '35' is a member of run '2'"):
        public_samples(clash.blind("0"))
    full = replace(data, member=np.stack([member[0], np.arange(60) % 2 == 0, np.arange(60) % 5 > 0]))
    everyone = np.array(full.member)
    everyone[2] |= ~everyone[1]
    everyone[2, 0] = True
    with pytest.raises(RecordError, match="public: every sample took part in some other run"):
        public_samples(replace(full, member=everyone).blind("0"))


def changed(data: Record, **signals: np.ndarray | None) -> Record:
    kept = {name: value for name, value in (dict(data.signals) | signals).items() if value is not None}
    return replace(
        data, signals=kept, axes={k: v for k, v in data.axes.items() if k in kept and kept[k].ndim == len(v)}
    )


def test_what_is_missing_is_named() -> None:
    data = planted(10, 100, leak=0.0)
    label, public = np.array(data.signal("label")), np.array(data.signal("public"))

    def refused(match: str, spec: str = RIDGE, **signals: np.ndarray | None) -> None:
        with pytest.raises(RecordError, match=match):
            values(changed(data, **signals), spec)

    refused(r"features: .* expected the signal 'features' \[sample, feature\]", features=None)
    refused(r"features: expected numbers with the axes sample, feature", features=np.ones(100))
    refused(r"label: expected the signal 'label' \[sample\]; use label=False", label=None)
    refused(r"label: expected classes, whole numbers or text, got fractions", label=label + 0.5)
    refused(r"public: nothing says which samples are non-members", public=None)
    refused(r"public: expected 0 or 1 with the axes sample", public=public * 2)
    refused(r"no signal 'margin'", margin=None)
    unseen = label.copy()
    unseen[public == 1] = 0
    refused(r"label: no public sample to fit on has the label '1' \(\d+ samples", label=unseen)
    once = unseen.copy()
    once[:] = 0
    once[np.flatnonzero(roles(data, 0.3, 0).fit)[0]] = 9
    refused(r"public samples to fit on: y: label '9' has one row only", label=once)
    few = np.zeros_like(public)
    few[np.flatnonzero(public)[:4]] = 1
    refused(
        r"public samples to fit on: folds: expected at least 5 rows for 5 folds, got 3",
        public=few,
        label=0 * label,
    )
    refused(
        r"expected at least 5 rows",
        public=0 * public,
        label=0 * label,
        spec="quantile(learner='ridge', label=False)",
    )
    assert np.isfinite(values(changed(data, label=None), "quantile(learner='ridge', label=False)")).all()


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("quantile(signal='entropy')", "signal: expected one of"),
        ("quantile(folds=1)", "folds: expected at least 2, got 1"),
        ("quantile(calibrate=1.0)", "calibrate: expected a share from 0 to below 1, got 1.0"),
        ("quantile(alpha=0.0)", "alpha: expected a rate above 0 and below 1, got 0.0"),
        ("quantile(trials=-1)", "trials: expected at least 0, got -1"),
        ("quantile(learner=())", "learner: expected the spec of at least one learner"),
        ("marginal(signal='x')", "signal: expected one of"),
    ],
)
def test_fields_are_checked(spec: str, match: str) -> None:
    with pytest.raises(SpecError, match=match):
        parse(spec)


def test_unknown_learners() -> None:
    data = planted(11, 60, leak=0.0)
    with pytest.raises(SpecError, match="unknown learner 'rigde'; did you mean 'ridge'"):
        values(data, "quantile(learner='rigde')")
    with pytest.raises(SpecError, match="does not predict quantiles"):
        values(data, "quantile(learner='neural_blackbox')")


def test_nothing_heavy_is_loaded_for_a_light_learner() -> None:
    code = (
        "import sys, numpy as np, discreet.attacks.quantile, discreet.learners as l;"
        "l.parse('ridge').fit(np.arange(8.)[:, None], None, np.arange(8.) ** 2, levels=np.array([.5]), seed=0);"
        "print([m for m in ('torch', 'lightgbm', 'catboost', 'optuna', 'scipy.stats') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"

"""The discriminator baseline: closed forms, nulls, planted and inverted signals, clusters of runs, seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from discreet.baseline import (
    BEST,
    CANONICAL,
    KINDS,
    Baseline,
    Discriminator,
    Prior,
    Runs,
    baseline,
    canonical,
    flat,
    split_runs,
    threshold,
)
from discreet.baseline.discriminator import log_odds_of_loss
from discreet.baseline.mis import _surest
from discreet.baseline.projection import in_span
from discreet.baseline.threshold import _best
from discreet.measure import logits
from discreet.mlp import MLP
from discreet.quantizers import quantize_stack

QUICK = Discriminator(epochs=12, batch_size=256)


def closed_form(shift: float, prior: Prior = Prior()) -> float:  # noqa: B008
    """MIS where members' scores are N(-shift, 1) and others' N(0, 1): the best attack cuts the likelihood ratio."""
    cut = -math.log(prior.gamma) / shift - shift / 2
    return prior.mis(prior.accuracy(float(norm.cdf(cut + shift)), float(1 - norm.cdf(cut))))


def made(
    runs: int = 80, n: int = 64, shift: float = 1.5, seed: int = 0, hard: float = 0.0, own: float = 0.0
) -> tuple[Runs, np.ndarray]:
    """Runs whose losses are softplus of N(0, 1), plus what x tells, plus what the weights tell, less the shift."""
    rng = np.random.default_rng(seed)
    member = np.tile(np.arange(2 * n) < n, (runs, 1))
    x = rng.normal(size=(runs, 2 * n, 8)).astype(np.float32)
    offset = rng.normal(size=(runs, 1))
    weights = rng.normal(size=(runs, 500)) + 2 * offset
    score = rng.normal(size=member.shape) + hard * x[..., 0] + own * offset
    loss = {
        name: np.logaddexp(0, score - sign * shift * member)
        for name, sign in (("leaks", 1), ("inverted", -1), ("null", 0))
    }
    return Runs(x, member, loss, dict.fromkeys(loss, weights)), score


@pytest.fixture(scope="module")
def found() -> Baseline:
    return baseline(made(runs=64, hard=1.5, own=1.0)[0], discriminator=QUICK, seeds=2, folds=2, workers=1)


@given(st.floats(0.01, 0.99), st.floats(0.05, 20))
def test_constant_attacks_leave_full_security_and_a_perfect_one_none(eta: float, lam: float) -> None:
    prior = Prior(eta, lam)
    none, everyone, perfect = (
        prior.mis(prior.accuracy(*rates)) for rates in ((0.0, 1.0), (1.0, 0.0), (1.0, 1.0))
    )
    assert min(none, everyone) == pytest.approx(1)  # eq. 5: the better of the two bounds the supremum
    assert perfect == pytest.approx(0, abs=1e-9)
    assert prior.gamma / (1 + prior.gamma) == pytest.approx(1 / (1 + math.exp(-prior.cut)))


def test_balanced_priors_give_twice_what_accuracy_leaves() -> None:
    assert Prior().mis(0.8) == pytest.approx(2 - 2 * 0.8)
    assert Prior(0.2, 4.0).cut == 0.0
    # eta = 0.25, lambda = 1: Acc = 0.75 TNR + 0.25 TPR, MIS = (1 - Acc) / 0.25
    assert Prior(0.25).mis(Prior(0.25).accuracy(0.6, 0.9)) == pytest.approx((1 - 0.675 - 0.15) / 0.25)


@pytest.mark.parametrize("prior", [Prior(), Prior(0.3, 1.0), Prior(0.3, 5.0)])
def test_gaussian_losses_under_any_prior(prior: Prior) -> None:
    data, _ = made(runs=60)
    wanted = closed_form(1.5, prior)
    told = baseline(data, kinds=["loss-only"], discriminator=QUICK, prior=prior, folds=2, seeds=1, workers=1)
    for variant in ("leaks", "inverted"):
        assert told.mis(variant, "loss-only").value == pytest.approx(wanted, abs=0.05)
        simple = threshold(data.loss[variant], data.member, prior=prior)
        assert simple.mis.value == pytest.approx(wanted, abs=0.05)
        assert simple.mis.low - 0.01 < wanted < simple.mis.high + 0.01


def test_thresholds_move_with_the_prior() -> None:
    data, _ = made(runs=60)
    few = baseline(data, kinds=["loss-only"], discriminator=QUICK, prior=Prior(0.1), seeds=1, workers=1)
    many = baseline(data, kinds=["loss-only"], discriminator=QUICK, prior=Prior(0.9), seeds=1, workers=1)
    rare, usual = few.found["loss-only", "leaks"], many.found["loss-only", "leaks"]
    assert rare.tpr < 0.4 < 0.95 < usual.tpr
    assert usual.tnr < 0.4 < 0.95 < rare.tnr


def test_attacks_that_read_more_find_more_as_the_closed_forms_say(found: Baseline) -> None:
    """Losses vary by what x tells and by what the weights tell: who reads them is not misled (section 5)."""
    wanted = {
        "loss-only": closed_form(1.5 / math.sqrt(1 + 1.5**2 + 1)),
        "black-box": closed_form(1.5 / math.sqrt(1 + 1)),
        "full": closed_form(1.5),
    }
    assert wanted["full"] < wanted["black-box"] < wanted["loss-only"]
    for variant in ("leaks", "inverted"):
        for kind, value in wanted.items():
            assert found.mis(variant, kind).value == pytest.approx(value, abs=0.08), (variant, kind)
        assert found.beyond_loss(variant).low > 0
        assert found.beyond_loss(variant, "black-box").low > 0
        assert found.found["black-box", variant].less(found.found["full", variant]).low > 0


def test_the_best_attack_is_chosen_on_runs_that_do_not_judge_it(found: Baseline) -> None:
    assert found.kinds == (*KINDS, BEST)
    assert found.chosen["leaks"] == ("full", "full")  # one a fold, and it pays here (see above)
    assert found.found[BEST, "leaks"].raw == found.found["full", "leaks"].raw
    data, _ = made(runs=40)  # what is read beside the losses is noise, and more so with few runs
    told = baseline(data, discriminator=Discriminator(epochs=30), seeds=1, folds=2, workers=1)
    assert set(told.chosen) == set(told.variants)
    assert told.chosen["leaks"] == ("loss-only", "loss-only")
    assert told.found[BEST, "leaks"].raw == min(told.found[kind, "leaks"].raw for kind in KINDS)
    alone = baseline(data, kinds=["loss-only"], discriminator=Discriminator(epochs=1), seeds=1, workers=1)
    assert alone.kinds == ("loss-only",)
    assert alone.chosen == {}


def test_the_choice_looks_at_no_judged_run() -> None:
    """Members and others change places in the judged runs alone: every kind fails there, and is chosen as before."""
    data, _ = made(runs=20, n=16)
    quick = {"discriminator": Discriminator(epochs=3), "seeds": 2, "workers": 1}
    [split] = split_runs(20)
    turned = {name: each.copy() for name, each in data.loss.items()}
    for each in turned.values():
        each[split.test] = each[split.test][:, ::-1]
    one, two = baseline(data, **quick), baseline(Runs(data.x, data.member, turned, data.weights), **quick)
    assert one.chosen == two.chosen
    assert two.found[BEST, "leaks"].raw > 1.2 > one.found[BEST, "leaks"].raw
    for variant, (kind,) in one.chosen.items():
        assert one.found[BEST, variant].by_seed == one.found[kind, variant].by_seed
    assert _surest({"full": 1.0, "loss-only": 2.0, "black-box": 3.0}) == "full"
    assert _surest(dict.fromkeys((CANONICAL, *KINDS), 0.7)) == "loss-only"
    assert _surest({CANONICAL: 0.1, "full": 0.2}) == CANONICAL


def test_weights_in_order_are_a_kind_of_their_own() -> None:
    """The weights in order tell how far a run's losses are shifted; those as they come are noise."""
    data, _ = made(runs=48, n=32, own=3.0)
    noise = np.random.default_rng(1).normal(size=data.weights["leaks"].shape)
    both = Runs(data.x, data.member, data.loss, dict.fromkeys(data.loss, noise), dict(data.weights))
    told = baseline(both, kinds=[CANONICAL, "full"], discriminator=QUICK, seeds=1, workers=1)
    for variant in ("leaks", "inverted"):
        assert told.found[CANONICAL, variant].raw < told.found["full", variant].raw - 0.1
    assert both.take(np.array([3, 1])).ordered["leaks"].shape == (2, 500)


def test_nothing_to_find_is_full_security_whatever_is_read(found: Baseline) -> None:
    for kind in found.kinds:
        assert found.found[kind, "null"].raw == pytest.approx(1, abs=0.05)
        assert found.mis("null", kind).high == 1.0
    assert abs(found.beyond_loss("null").value) < 0.05


def test_seeds_are_averaged_and_nothing_else_moves_a_figure(found: Baseline) -> None:
    one = found.found["full", "leaks"]
    assert len(one.by_seed) == 2
    assert one.by_seed[0] != one.by_seed[1]
    assert one.raw == pytest.approx(np.mean(one.by_seed))
    data, _ = made(runs=30, hard=1.0)
    turned = Runs(data.x, data.member, dict(list(data.loss.items())[::-1]), data.weights)
    alone = Runs(data.x, data.member, {"leaks": data.loss["leaks"]}, data.weights)
    quick = {"discriminator": Discriminator(epochs=2), "seeds": 2}
    first = baseline(data, **quick, workers=1)
    again = baseline(data, **quick, workers=2)
    assert first.to_json() == again.to_json()
    for other in (baseline(turned, **quick), baseline(alone, **quick)):
        for kind in first.kinds:
            assert other.found[kind, "leaks"].raw == pytest.approx(first.found[kind, "leaks"].raw, abs=2e-3)
    moved = baseline(data, **quick, seed=1)
    assert moved.found["full", "leaks"].runs != first.found["full", "leaks"].runs


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 0.9), st.floats(0.2, 4))
def test_the_best_threshold_against_trying_all(seed: int, eta: float, lam: float) -> None:
    rng = np.random.default_rng(seed)
    prior, loss = Prior(eta, lam), rng.integers(0, 6, 20).astype(float)
    member = np.arange(20) < 10
    cut, below = _best(loss, member, prior)

    def worth(accused: np.ndarray) -> float:
        return float(prior.accuracy(accused[member].mean(), (~accused[~member]).mean()))

    tried = [worth(loss < c) for c in np.arange(-0.5, 7)] + [worth(loss >= c) for c in np.arange(-0.5, 7)]
    assert worth(loss < cut if below else loss >= cut) == pytest.approx(max(tried))


@given(st.integers(7, 60), st.integers(1, 4), st.integers(0, 5))
def test_runs_are_in_one_part_only_and_all_are_judged_by_folds(runs: int, folds: int, seed: int) -> None:
    splits = split_runs(runs, folds=folds, seed=seed)
    for split in splits:
        parts = np.concatenate([split.train, split.stop, split.test])
        assert np.array_equal(np.sort(parts), np.arange(runs))
    if folds > 1:
        assert np.array_equal(np.sort(np.concatenate([s.test for s in splits])), np.arange(runs))


def test_too_few_runs_to_split() -> None:
    with pytest.raises(
        ValueError, match="runs: expected enough for 1 fold with runs to train, to stop and to judge"
    ):
        split_runs(3)
    with pytest.raises(ValueError, match="folds: expected at least 1, got 0"):
        split_runs(9, folds=0)


def test_a_layer_on_the_span_learns_what_a_layer_on_all_weights_learns() -> None:
    """Gradient descent from zero on all weights, or on coordinates: the same for runs that it never saw."""
    rng = np.random.default_rng(3)
    weights, train = rng.normal(size=(20, 3000)), np.arange(4, 16)
    target = rng.normal(size=len(train))
    coordinates = in_span(weights, train)
    centred = weights - weights[train].mean(axis=0)
    scale = np.sum(centred[train] ** 2) / np.sum(coordinates[train] ** 2)
    whole, short = np.zeros(3000), np.zeros(len(train))
    for _ in range(50):
        whole -= 1e-4 * centred[train].T @ (centred[train] @ whole - target)
        short -= 1e-4 * scale * coordinates[train].T @ (coordinates[train] @ short - target)
    assert np.abs(centred @ whole - coordinates @ short).max() < 1e-9
    assert not in_span(np.ones((4, 9)), np.arange(3)).any()
    with pytest.raises(ValueError, match="weights: expected finite numbers"):
        in_span(np.full((2, 3), np.nan), np.arange(2))


@pytest.mark.parametrize("spec", [None, "sign", "ternary(zeros=0.5)"])
def test_renumbering_hidden_units_changes_no_byte_and_no_output(spec: str | None) -> None:
    network, generator = MLP((5, 6, 4, 1)), torch.Generator().manual_seed(0)
    params = network.init([1, 2, 3])
    params = params if spec is None else quantize_stack(params, spec)
    turned = {name: value.clone() for name, value in params.items()}
    for layer, width in ((0, 6), (2, 4)):
        order = torch.randperm(width, generator=generator)
        turned[f"{layer}.weight"] = turned[f"{layer}.weight"][:, order]
        turned[f"{layer}.bias"] = turned[f"{layer}.bias"][:, order]
        turned[f"{layer + 2}.weight"] = turned[f"{layer + 2}.weight"][:, :, order]
    assert not np.array_equal(flat(turned), flat(params))
    assert np.array_equal(flat(canonical(network, turned)), flat(canonical(network, params)))
    x = torch.randn(50, 5, generator=generator)
    before, after = logits(network, params, x), logits(network, canonical(network, turned), x)
    assert torch.allclose(before, after, atol=1e-5)


def test_log_odds_of_a_cross_entropy_are_its_margin() -> None:
    margin = np.linspace(-300, 300, 601)
    assert np.allclose(log_odds_of_loss(np.logaddexp(0, -margin)), -margin, atol=1e-9)
    assert np.isfinite(log_odds_of_loss(np.array([0.0, 1e300]))).all()


def test_what_does_not_fit_is_refused() -> None:
    data, _ = made(runs=8, n=4)
    parts = {"x": data.x, "member": data.member, "loss": data.loss, "weights": data.weights}
    ones = np.ones((8, 8))

    def refuse(message: str, **changed: object) -> None:
        with pytest.raises(ValueError, match=message):
            Runs(**{**parts, **changed})

    again = data.x.copy()
    again[5, 2] = again[1, 3]
    refuse(r"the same in run 1, row 3 and run 5, row 2", x=again)
    uneven = data.member.copy()
    uneven[2, 0] = False
    refuse(r"expected as many members as non-members in each run, got 3 of 8 rows in run 2", member=uneven)
    refuse("loss: expected at least one variant", loss={})
    refuse(r"loss of 'a': expected shape \[8, 8\], got \[8, 7\]", loss={"a": np.ones((8, 7))})
    refuse(r"loss of 'a': expected finite numbers of at least 0, got -1.0 in run 0, row 0", loss={"a": -ones})
    refuse(
        "weights: expected every variant or none, 'null' is missing",
        weights={"leaks": ones, "inverted": ones},
    )
    refuse("x, member: expected shapes", x=data.x[0])
    bare = Runs(data.x, data.member, data.loss, {})
    for message, changed in {
        "weights: the kind 'full' reads them, got none": {},
        "ordered: the kind 'full, units in order' reads them, got none": {"kinds": [CANONICAL]},
        "kinds: expected some of full, black-box, loss-only, full, units in order, got grey-box": {
            "kinds": ["grey-box"]
        },
        "seeds: expected at least 1, got 0": {"seeds": 0},
    }.items():
        with pytest.raises(ValueError, match=message):
            baseline(bare, **changed)
    for message, wrong in {
        "eta: expected a probability": {"eta": 1.0},
        "lam: expected a positive number, got 0": {"lam": 0.0},
    }.items():
        with pytest.raises(ValueError, match=message):
            Prior(**wrong)
    with pytest.raises(ValueError, match="hidden: expected at least one positive width"):
        Discriminator(hidden=())
    with pytest.raises(ValueError, match="lr: expected a positive number"):
        Discriminator(lr=0.0)


def test_some_runs_are_taken_with_their_weights() -> None:
    data, _ = made(runs=8, n=4)
    some = data.take(np.array([6, 1]))
    assert isinstance(some.weights, Mapping)
    assert list(some.weights) == list(data.loss)
    assert len(some.weights) == 3
    assert np.array_equal(some.weights["leaks"], data.weights["leaks"][[6, 1]])
    assert np.array_equal(some.loss["null"], data.loss["null"][[6, 1]])

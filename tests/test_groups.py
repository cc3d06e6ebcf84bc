"""Rates inside groups: Holm and the binomial by hand, a bad group is seen, and both repairs repair it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from discreet.conformal import calibrate, p_values
from discreet.groups import check_groups, mondrian, named_groups
from discreet.shifts import fit_shifts, pinball


def heavy(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of non-members; in one of five the scores spread more, so that one threshold accuses them more."""
    rng = np.random.default_rng(seed)
    label = np.where(rng.random(n) < 0.2, "wide", "narrow")
    return rng.normal(size=n) * np.where(label == "wide", 1.3, 1.0), label


def test_by_hand() -> None:
    accused = np.zeros(3000, bool)
    accused[:30] = accused[1000:1010] = True
    accused[2900:2901] = True
    label = np.repeat(["a", "b", "c"], [1000, 1900, 100])
    found = check_groups(accused, label, 0.01)
    by_name = {group.group: group for group in found.groups}
    assert [by_name[name].n for name in "abc"] == [1000, 1900, 100]
    assert [by_name[name].accused for name in "abc"] == [30, 10, 1]
    assert by_name["a"].p == stats.binomtest(30, 1000, 0.01).pvalue
    assert by_name["a"].adjusted == pytest.approx(2 * by_name["a"].p)
    assert by_name["b"].adjusted == pytest.approx(max(by_name["b"].p, 2 * by_name["a"].p))
    assert [by_name[name].status for name in "abc"] == ["differs", "differs", "insufficient"]
    joint = stats.binomtest(30, 1000).proportion_ci(0.975, "exact")
    assert (by_name["a"].low, by_name["a"].high) == pytest.approx((joint.low, joint.high))
    assert found.worst is by_name["a"]
    assert found.insufficient == ("c",)
    assert str(found).startswith("FPR 0.01: differs in a, b; furthest: a 0.03 [")
    assert str(found).endswith("(n = 1,000); insufficient: c")


def test_holm_against_a_loop() -> None:
    from discreet.groups import _holm

    rng = np.random.default_rng(0)
    for _ in range(50):
        p = rng.random(6).round(2) ** 2
        expected = np.empty(6)
        running = 0.0
        for place, at in enumerate(sorted(range(6), key=lambda i: p[i])):
            running = max(running, (6 - place) * p[at])
            expected[at] = min(running, 1.0)
        assert _holm(p) == pytest.approx(expected)


def test_a_rate_that_holds_on_average_fails_in_a_group_and_both_repairs_hold() -> None:
    alpha = 0.01
    scores, label = heavy(0, 60_000)
    fresh, fresh_label = heavy(1, 60_000)
    threshold = calibrate(scores, alpha).threshold
    plain = check_groups(fresh > threshold, fresh_label, alpha)
    assert plain.differing == ("narrow", "wide")
    assert plain.worst is not None
    assert plain.worst.group == "wide"
    assert plain.worst.low > 1.5 * alpha

    p, by_group = mondrian(fresh, fresh_label, scores, label, alpha)
    assert check_groups(p <= alpha, fresh_label, alpha).differing == ()
    assert {name: done.resolvable for name, done in by_group.items()} == {"narrow": True, "wide": True}
    by_threshold = fresh > np.array([by_group[name].threshold for name in fresh_label])
    assert np.array_equal(p <= alpha, by_threshold)

    fitted = fit_shifts(scores, label, alpha)
    assert fitted.loss < fitted.before
    assert fitted.check(fresh, fresh_label).differing == ()


def test_intersecting_groups_are_repaired_by_shifts() -> None:
    alpha, n = 0.02, 20_000

    def draw(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        rng = np.random.default_rng(seed)
        groups = {"old": rng.random(n) < 0.4, "rural": rng.random(n) < 0.3, "all": np.ones(n, bool)}
        return rng.gumbel(size=n) + groups["old"] - 1.5 * groups["rural"], groups

    scores, groups = draw(0)
    fresh, fresh_groups = draw(1)
    assert len(check_groups(fresh > calibrate(scores, alpha).threshold, fresh_groups, alpha).differing) >= 2
    fitted = fit_shifts(scores, groups, alpha)
    held_out = fitted.check(fresh, fresh_groups)
    assert held_out.differing == ()
    assert fitted.by_group["old"] == pytest.approx(1.0, abs=0.5)
    assert fitted.by_group["rural"] == pytest.approx(-1.5, abs=0.5)
    # Shifted scores calibrated once more: the guarantee over everybody, on rows not fitted.
    again = p_values(fitted.apply(fresh, fresh_groups), fitted.apply(*draw(2)))
    assert (again <= alpha).mean() == pytest.approx(alpha, abs=0.005)


def naive_shifts(t: np.ndarray, design: np.ndarray, level: float) -> float:
    """The primal programme, two slacks a row."""
    n, k = design.shape
    cost = np.r_[np.zeros(2 * k), np.full(n, level), np.full(n, 1 - level)]
    rows = np.hstack([design, -design, np.eye(n), -np.eye(n)])
    return optimize.linprog(cost, A_eq=rows, b_eq=t, method="highs").fun / n


@pytest.mark.parametrize("seed", range(4))
def test_shifts_minimise_the_pinball_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = {name: rng.random(150) < 0.4 for name in "abc"}
    t = rng.normal(size=150).round(1 if seed % 2 else 9)
    fitted = fit_shifts(t, masks, 0.1)
    design = np.column_stack([np.ones(150), *masks.values()]).astype(float)
    assert fitted.loss == pytest.approx(naive_shifts(t, design, 0.9), rel=1e-9)
    order = rng.permutation(150)
    moved = fit_shifts(t[order], {name: mask[order] for name, mask in masks.items()}, 0.1)
    assert moved == fitted


def test_many_rows_take_the_short_way_to_the_same_loss() -> None:
    from discreet.shifts import _dual

    rng = np.random.default_rng(0)
    masks = {"a": rng.random(6000) < 0.3, "b": rng.random(6000) < 0.5}
    t = rng.normal(size=6000) * (1 + 2 * masks["a"]) + masks["b"]
    design = np.column_stack([np.ones(6000), *masks.values()]).astype(float)
    whole = pinball(t - design @ _dual(t, design, 0.98, np.zeros(3)), 0.98)
    assert fit_shifts(t, masks, 0.02).loss == pytest.approx(whole, rel=1e-12)
    ties = fit_shifts(np.round(t), masks, 0.02)
    assert ties.loss == pytest.approx(
        pinball(np.round(t) - design @ _dual(np.round(t), design, 0.98, np.zeros(3)), 0.98)
    )


@pytest.mark.parametrize("seed", [0, 53, 56, 75])
def test_a_wrong_first_guess_is_corrected(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few rows at once that the first fit puts many others on the wrong side."""
    monkeypatch.setattr("discreet.shifts._AT_ONCE", 24)
    rng = np.random.default_rng(seed)
    masks = {name: rng.random(120) < 0.5 for name in "abc"}
    t = rng.normal(size=120) * (1 + 5 * masks["a"]) + 3 * masks["b"]
    design = np.column_stack([np.ones(120), *masks.values()]).astype(float)
    assert fit_shifts(t, masks, 0.2).loss == pytest.approx(naive_shifts(t, design, 0.8), rel=1e-9)


def test_pinball_is_least_at_the_quantile() -> None:
    s = np.arange(1.0, 101)
    losses = [round(pinball(s - q, 0.99), 6) for q in (98, 99, 99.5, 100, 101)]
    assert losses == [0.505, 0.495, 0.495, 0.495, 0.505]


def test_order_of_samples_changes_nothing() -> None:
    scores, label = heavy(3, 3000)
    order = np.random.default_rng(0).permutation(3000)
    accused = scores > 2
    assert check_groups(accused, label, 0.02) == check_groups(accused[order], label[order], 0.02)
    p, _ = mondrian(scores[:500], label[:500], scores[500:], label[500:], 0.02)
    shuffled = np.random.default_rng(1).permutation(2500)
    moved, _ = mondrian(scores[:500], label[:500], scores[500:][shuffled], label[500:][shuffled], 0.02)
    assert np.array_equal(p, moved)


def test_small_groups_say_so() -> None:
    found = check_groups(np.zeros(100, bool), np.arange(100) % 2, 0.01)
    assert str(found) == "FPR 0.01: no group is large enough to test; insufficient: 0, 1"
    assert found.worst is None
    _, by_group = mondrian(np.zeros(1), np.array(["a"]), np.zeros(60), np.repeat(["a", "b"], 30), 0.01)
    assert str(by_group["a"]) == "FPR 0.01 is not resolvable (needs 99 calibration rows, has 30)"
    assert by_group["a"].threshold == math.inf


def test_messages() -> None:
    accused = np.zeros(4, bool)
    with pytest.raises(
        ValueError, match=r"^groups: expected one label for each of 4 samples, got shape \[3\]$"
    ):
        check_groups(accused, np.zeros(3), 0.1)
    with pytest.raises(ValueError, match=r"^groups: expected 4 booleans for 'a', got float64 \[4\]$"):
        check_groups(accused, {"a": np.zeros(4)}, 0.1)
    with pytest.raises(ValueError, match=r"^groups: 'a' has no sample$"):
        named_groups({"a": accused}, 4)
    with pytest.raises(ValueError, match=r"^groups: expected at least one group, got none$"):
        named_groups({}, 4)
    with pytest.raises(ValueError, match=r"^calibration: no row of group 'b' \(1 such groups\)$"):
        mondrian(np.zeros(2), np.array(["a", "b"]), np.zeros(2), np.array(["a", "a"]), 0.1)
    with pytest.raises(
        ValueError, match=r"^groups: '1' has 50 rows; FPR 0.01 is not resolvable \(needs 99\)$"
    ):
        fit_shifts(np.zeros(250), (np.arange(250) < 50).astype(int), 0.01)
    with pytest.raises(ValueError, match=r"^scores: expected finite numbers, got 1 others$"):
        fit_shifts(np.array([np.nan, 1.0]), np.array(["a", "a"]), 0.5)
    fitted = fit_shifts(np.zeros(20), np.arange(20) % 2, 0.2)
    with pytest.raises(ValueError, match=r"^groups: no shift was fitted for '2'; there are 0, 1$"):
        fitted.apply(np.zeros(3), np.arange(3))

"""Corrections of r: exact for one candidate, what the minimum does to each, coverage where the truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from discreet.bias import METHODS, corrected, corrected_run, split_run, unbiased
from discreet.indicator import indicator, measure_run
from discreet.moments import LossMoments
from discreet.studies.bias import CASES, Judged, judge, run
from discreet.trajectory import Trajectory


def drawn(seed: int, gaps: tuple[float, ...], n: int = 400) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.exponential(size=n)
    return np.vstack([base, base + np.array(gaps)[:, None] + rng.standard_normal((len(gaps), n))])


def test_one_candidate_is_unbiased_to_the_last_factor() -> None:
    n, delta, repeats = 6, 0.7, 200_000  # so few samples that the factor (n - 3)/n matters
    d = delta + np.random.default_rng(0).standard_normal((repeats, n))
    found = unbiased(0.5 * d.mean(axis=1) ** 2 / d.var(axis=1), n)
    truth = 0.5 * delta**2
    assert abs(found.mean() - truth) < 4 * found.std() / np.sqrt(repeats)
    with pytest.raises(ValueError, match="n: expected at least 4 samples, got 3"):
        unbiased(1.0, 3)


def test_nothing_of_the_indicator_changes_and_units_do_not_matter() -> None:
    losses = np.array([drawn(seed, (0.2, 0.3)) for seed in range(4)])
    plain = indicator(losses)
    before = plain.to_json()
    for how in METHODS:
        found = corrected(plain, how)
        assert found.low <= found.value <= found.high
        assert found.n == 4
        # a binary factor keeps every digit
        assert corrected(indicator(4 * losses), how).value == pytest.approx(found.value, rel=1e-9)
    assert plain.to_json() == before


def test_the_jackknife_by_a_loop_over_blocks() -> None:
    run = measure_run(Trajectory(drawn(1, (0.2, 0.3))))
    b = len(run.dropped)
    assert corrected_run(run, "jackknife") == pytest.approx(b * run.r - (b - 1) * np.mean(run.dropped))
    assert corrected_run(run, "bootstrap") == pytest.approx(2 * run.r - np.mean(run.drawn))


def test_a_split_by_hand_and_from_moments() -> None:
    losses = drawn(2, (0.1, 0.2, 0.3), n=640)
    trajectory = Trajectory(losses)
    found = split_run(trajectory, splits=1, seed=3)
    block = np.empty(640, int)
    from discreet.moments import grid

    for number, piece in grid(640):
        block[piece] = number
    half = np.isin(np.arange(32), np.random.default_rng([3, 0xB1A5]).permutation(32)[:16])[block]
    values = []
    for choosing in (half, ~half):
        best = losses[:, choosing].mean(axis=1).argmin()
        gap = losses - losses[best]
        with np.errstate(invalid="ignore"):
            chosen, rest = (
                0.5 * gap[:, w].mean(axis=1) ** 2 / gap[:, w].var(axis=1) for w in (choosing, ~choosing)
            )
        values.append(unbiased(rest[np.nanargmin(chosen)], int((~choosing).sum())))
    assert found == pytest.approx(np.mean(values))
    assert split_run(LossMoments.of(losses), splits=1, seed=3) == pytest.approx(found)
    assert split_run(trajectory, seed=1) == split_run(trajectory, seed=1) != split_run(trajectory, seed=2)


def test_what_cannot_be_corrected() -> None:
    same = Trajectory(np.tile(np.arange(8.0), (2, 1)))
    assert np.isnan(corrected_run(measure_run(same)))
    assert np.isnan(split_run(same))
    with pytest.raises(ValueError, match="variant 'losses': no run has a finite r to correct"):
        corrected(indicator(np.tile(np.arange(8.0), (2, 1))))
    with pytest.raises(ValueError, match="how: expected one of normal, jackknife, bootstrap, got 'magic'"):
        corrected_run(measure_run(Trajectory(drawn(0, (0.2,)))), "magic")
    with pytest.raises(ValueError, match="samples: expected at least 8 to split, got 4"):
        split_run(Trajectory(drawn(0, (0.2,), n=4)))
    found = indicator(np.array([drawn(seed, (0.2,)) for seed in range(2)]))
    with pytest.raises(ValueError, match="the correction of 1 runs is not finite"):
        corrected(found, values={"0": 0.1, "1": float("nan")})


def test_one_run_has_the_runs_own_interval_moved() -> None:
    found = indicator(drawn(4, (0.2, 0.3)))
    other = corrected(found)
    assert found.low is not None
    assert other.low < found.low
    assert other.high == found.high


def below(row: Judged) -> bool:
    """Too low on average, beyond what the repetitions leave open."""
    return row.bias < -4 * row.bias_error


def test_neither_plug_in_nor_split_is_never_too_low() -> None:
    rows = {row.how: row for row in judge("20 candidates, t = 2 each", repeats=12, draws=8)}
    assert below(rows["plug-in"])
    assert below(rows["split"])


def test_the_study_writes_its_files_and_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    changed = ["n=40", "runs=2", "repeats=2", "draws=5"]
    page = run(tmp_path, "small", changed)
    files = {name: (tmp_path / name).read_bytes() for name in ("study.json", "study.md", "bias.svg")}
    assert page == files["study.md"].decode("utf-8")
    assert page.count("\n") == 2 + 5 * len(CASES)
    kept = sorted((tmp_path / "cases").glob("*.json"))
    assert len(kept) == len(CASES)
    stamp = kept[0].stat().st_mtime_ns
    kept[1].unlink()  # as if it had been stopped before
    assert run(tmp_path, "small", changed) == page
    assert {name: (tmp_path / name).read_bytes() for name in files} == files
    assert kept[0].stat().st_mtime_ns == stamp
    with pytest.raises(ValueError, match="repeats: expected at least 2, got 1"):
        run(tmp_path, "small", ["repeats=1"])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bias_and_coverage_where_the_truth_is_known(case: str) -> None:
    rows = {row.how: row for row in judge(case, repeats=100, draws=60, seed=1)}
    single = case.startswith("one candidate")
    if single:
        assert abs(rows["plug-in"].bias - 1) < 4 * rows["plug-in"].bias_error + 0.1
        for how in ("normal", "split"):
            assert abs(rows[how].bias) < 4 * rows[how].bias_error + 0.1
    if "each" in case:  # ties: the pull of the minimum is larger than the bias of the square
        assert below(rows["plug-in"])
        assert rows["normal"].bias < rows["plug-in"].bias
    if case in ("20 candidates, t = 1 each", "20 candidates, t = 2 each"):
        # a half takes another candidate for the best: a split is too low as well, so the two do not bracket the truth
        assert below(rows["split"])
    if case in (
        "20 candidates, t = 4 each",
        "20 candidates, t = 10 each",
    ):  # only here a split undoes the pull
        assert rows["plug-in"].bias < -5
        assert rows["plug-in"].bias < rows["bootstrap"].bias < -3
        assert abs(rows["split"].bias) < 4 * rows["split"].bias_error + 0.5
    if case == "20 candidates, t = 4 to 12":
        assert below(rows["plug-in"])
        assert (
            rows["split"].bias > 4 * rows["split"].bias_error
        )  # the half picks another candidate than the least
    for row in rows.values():
        assert row.coverage >= 0.91, row

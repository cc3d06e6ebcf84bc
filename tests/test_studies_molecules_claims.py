"""Verdicts on molecules: planted results that must give each verdict of each claim, under both readings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet._json import dumps, loads
from discreet._words import percent
from discreet.data.molecule_set import MoleculeSet
from discreet.indicator import measure_run
from discreet.ranking import rank_runs
from discreet.studies import molecules_plan as plan
from discreet.studies.claim import Claim
from discreet.studies.molecules import Measured, Molecules, TaskData
from discreet.studies.molecules_claims import _cost, _order_stays, _r2_gone, _step_verdict, claims
from discreet.studies.molecules_figures import draw
from discreet.studies.molecules_judging import ENOUGH, MILD, RULES, STRONG, over_tasks, share_of_tasks
from discreet.studies.molecules_page import to_json, to_markdown
from discreet.studies.molecules_plan import Parts
from discreet.studies.molecules_security import (
    _by_chance,
    _is_low,
    _low_ranks,
    _low_ranks_judged,
    _mild_alike,
    _Pairs,
    _pairs,
    _strong_safer,
    _trade_judged,
)
from discreet.studies.molecules_tables import Cell, Scores, _cell, shares, tables
from discreet.studies.molecules_unit import FULL, VARIANTS
from discreet.trajectory import Trajectory

FEW = ("uniform(bits=2)", "uniform(bits=3)")


def cell(value: float, share: float = 1.0, half: float = 0.01) -> Cell:
    return Cell(value, value - half, value + half, share, share - half, share + half, 4, 1)


def costing(drops: list[float]) -> dict[tuple[str, str, str], Cell]:
    """AUROC tables in which the strong quantizers lose this much on each task."""
    return {
        ("auroc", f"t{at}", v): cell(0.8, 1 - drop if v in STRONG else 1.0)
        for at, drop in enumerate(drops)
        for v in VARIANTS
    }


NAMES = [f"t{at}" for at in range(4)]


@pytest.mark.parametrize(
    ("first", "own", "verdict"),
    [
        ([0.09, 0.10, 0.11, 0.10], [0.10, 0.11, 0.10, 0.09], "holds"),
        ([0.01, 0.00, 0.01, 0.02], [0.02, 0.01, 0.00, 0.01], "does not"),
        ([0.28, 0.29, 0.28, 0.30], [0.28, 0.29, 0.28, 0.30], "does not"),
        ([0.01, 0.20, 0.10, 0.05], [0.01, 0.20, 0.10, 0.05], "cannot tell"),
        ([0.01, 0.00, 0.01, 0.02], [0.09, 0.10, 0.11, 0.10], "cannot tell"),  # the two readings disagree
    ],
)
def test_the_cost_of_the_strong_ones(first: list[float], own: list[float], verdict: str) -> None:
    found = _cost({RULES[0]: costing(first), RULES[1]: costing(own)}, NAMES)
    assert found.verdict == verdict
    if first[0] == 0.01 and own[0] == 0.09:
        assert found.needs.startswith("depends on which checkpoint is the best one")
        assert "*does not* by full precision's best checkpoint for all" in found.needs
        assert "*holds* by each variant's own" in found.needs
    assert (found.needs == "") == (verdict != "cannot tell")
    assert all(rule in found.numbers for rule in RULES)


def test_one_or_two_tasks_carry_no_firm_verdict_on_what_differs_between_tasks() -> None:
    one = costing([0.10])
    assert _cost(dict.fromkeys(RULES, one), ["t0"]).verdict == "cannot tell"
    two = costing([0.08, 0.12])
    found = _cost(dict.fromkeys(RULES, two), ["t0", "t1"])
    assert found.verdict == "cannot tell"
    assert "more tasks than these 2" in found.needs


@pytest.mark.parametrize(
    ("values", "single", "verdict"),
    [
        ([0.05, 0.06, 0.05], (0.01, 0.1), "holds"),
        ([-0.05, -0.06, -0.05], (-0.1, -0.01), "does not"),
        ([0.05, -0.06, 0.05], (0.01, 0.1), "cannot tell"),
        ([0.05, 0.06, 0.05], (-0.1, 0.1), "cannot tell"),
    ],
)
def test_a_threshold_of_performance(values: list[float], single: tuple[float, float], verdict: str) -> None:
    assert _step_verdict(values, [single] * len(values)) == verdict


def gone(tasks: int, kept: Mapping[int, tuple[str, ...]], fine: float = 0.7) -> dict[Any, Cell]:
    """R2 tables, below 0 under 4 bits but for some quantizers of some tasks."""
    return {
        ("r2", f"t{at}", v): cell(fine if v in ("uniform(bits=4)", "uniform(bits=5)", FULL) else 0.4)
        if v in (*kept.get(at, ()), "uniform(bits=4)", "uniform(bits=5)", FULL)
        else cell(-2.0)
        for at in range(tasks)
        for v in VARIANTS
    }


@pytest.mark.parametrize(
    ("tasks", "kept", "fine", "verdict"),
    [
        (4, {}, 0.7, "holds"),
        (4, dict.fromkeys(range(4), (*STRONG, *FEW)), 0.7, "does not"),
        (2, dict.fromkeys(range(2), (*STRONG, *FEW)), 0.7, "does not"),
        (2, {0: FEW[1:], 1: FEW[1:]}, 0.7, "cannot tell"),  # 2 of 12 cells, as measured
        (2, {}, 0.7, "cannot tell"),  # two tasks that agree
        (4, {}, -0.5, "cannot tell"),  # gone at 4 and 5 bits too
    ],
)
def test_r2_under_four_bits(tasks: int, kept: dict, fine: float, verdict: str) -> None:
    names = [f"t{at}" for at in range(tasks)]
    found = _r2_gone(dict.fromkeys(RULES, gone(tasks, kept, fine)), names)
    assert found.verdict == verdict
    assert "above 0 in 2 of 42 cells under 4 bits" in found.numbers  # the paper's own


def test_cells_of_r2_not_told_from_0_refute_nothing() -> None:
    wide = {
        key: cell(-0.3, half=0.5) if key[2] in (*STRONG, *FEW) else each for key, each in gone(4, {}).items()
    }
    found = _r2_gone(dict.fromkeys(RULES, wide), NAMES)
    assert found.verdict == "cannot tell"
    assert f"R2 is below 0 in {percent(0.0)}" in found.numbers


def ordered(least: list[float], half: float = 0.01) -> dict[tuple[str, str, str], Cell]:
    return {
        ("spearman", f"t{at}", v): cell(0.8, share if v == "sign" else 0.99, half)
        for at, share in enumerate(least)
        for v in VARIANTS
    }


@pytest.mark.parametrize(
    ("first", "own", "verdict"),
    [
        ([0.94, 0.95, 0.93, 0.95], [0.90, 0.92, 0.91, 0.92], "holds"),
        ([0.5, 0.52, 0.55, 0.5], [0.5, 0.52, 0.55, 0.5], "does not"),
        ([0.94, 0.95, 0.60, 0.95], [0.94, 0.95, 0.60, 0.95], "cannot tell"),
        ([0.94, 0.95, 0.93, 0.95], [0.5, 0.52, 0.55, 0.5], "cannot tell"),
    ],
)
def test_the_order_of_predictions(first: list[float], own: list[float], verdict: str) -> None:
    found = _order_stays({RULES[0]: ordered(first), RULES[1]: ordered(own)}, NAMES)
    assert found.verdict == verdict
    assert ("depends on which checkpoint" in found.needs) == (first != own and verdict == "cannot tell")


def test_an_order_that_wide_cells_leave_open_is_not_refuted() -> None:
    wide = ordered([0.70, 0.71, 0.69, 0.70], half=0.2)  # each cell's interval holds the floor
    assert _order_stays(dict.fromkeys(RULES, wide), NAMES).verdict == "cannot tell"
    three = ordered([0.70, 0.71, 0.69]) | {k: v for k, v in wide.items() if k[1] == "t3"}
    found = _order_stays(dict.fromkeys(RULES, three), NAMES)
    assert found.verdict == "cannot tell"
    assert f"told to be below {percent(0.77)} in 3 of 4 tasks" in found.numbers


def test_nothing_is_a_share_of_an_original_that_is_not_above_0() -> None:
    def scored(*values: float) -> Scores:
        return Scores(np.array(values), np.tile(np.array(values)[:, None], (1, 4)))

    good, bad = scored(0.5, 0.5), scored(-0.6, -0.4)
    assert shares(scored(0.2, 0.3), good).values.mean() == pytest.approx(0.5)
    for original in (scored(-0.003, -0.005), scored(0.0, 0.0)):  # the ratio would be 125, or infinite
        assert np.isnan(shares(bad, original).values).all()
        one = _cell([good, bad], [good, original], 0)
        assert np.isnan([one.share, one.share_low, one.share_high]).all()
        assert one.value == pytest.approx(0.0)
        assert one.low < 0 < one.high


def without(cells: Mapping[Any, Cell], task: str) -> dict[Any, Cell]:
    """The same tables and one more task, whose original is not above 0."""
    metric = next(iter(cells))[0]
    return {**cells, **{(metric, task, v): cell(-0.3, float("nan")) for v in VARIANTS}}


def by_both(cells: dict[Any, Cell]) -> dict[str, dict[Any, Cell]]:
    return dict.fromkeys(RULES, cells)


def test_tasks_whose_original_is_not_above_0_are_left_out_and_counted() -> None:
    kept = by_both(without(ordered([0.94, 0.95, 0.93, 0.95]), "t4"))
    found = _order_stays(kept, [*NAMES, "t4"])
    assert found.verdict == "holds"
    assert found.numbers.count("; left out 1 of 5 tasks, where the original itself is not above 0") == 2
    assert found.numbers.count("in 0 of 4 tasks") == 2
    fallen = by_both(without(ordered([0.5, 0.52, 0.55, 0.5]), "t4"))
    assert _order_stays(fallen, [*NAMES, "t4"]).verdict == "does not"
    nothing = _order_stays(kept, ["t4"])
    assert nothing.verdict == "cannot tell"
    assert "no task left; left out 1 of 1 tasks" in nothing.numbers
    costly = by_both(without(costing([0.09, 0.10, 0.11, 0.10]), "t4"))
    assert _cost(costly, [*NAMES, "t4"]).verdict == "holds"
    assert "left out" not in _order_stays(kept, NAMES).numbers


def test_a_share_that_is_not_defined_is_null_and_a_dash(tmp_path: Path) -> None:
    found = planted(dict.fromkeys(VARIANTS, -0.5), STRONG, task="regression", tasks=1)  # R2 of 1 - 1.5^2
    rows = {(row["metric"], row["variant"]): row for row in loads(dumps(to_json(found)))["tables"]}
    for each in (rows["r2", "sign"], rows["r2", "sign"]["each variant at its own best checkpoint"]):
        assert each["share"] is each["share_low"] is each["share_high"] is None
        assert each["value"] < -1
    assert rows["spearman", FULL]["share"] == 1
    page = to_markdown(found)
    assert "| demo 0 | -inf (–) | -inf (–) |" in page
    assert "| demo 0, r2 | – | – |" in page
    assert "–: no share of the original, whose mean over runs is not above 0 on every embedder." in page
    drawn = draw(found, tmp_path)[0].read_text("utf-8")
    assert drawn.count("the original is not above 0") == 1


def test_better_and_less_secure_counts_a_task_once() -> None:
    firm = {f"t{at}": [-0.6, -0.7, -0.5] for at in range(4)}
    firm["t0"] = [-0.7, -0.7, -0.6]
    assert _trade_judged(firm).verdict == "holds"
    assert _trade_judged({k: [-v for v in each] for k, each in firm.items()}).verdict == "does not"
    # of two tasks, embedders alike: twelve values would be told from 0, two tasks are not
    two = {"t0": [-0.9] * 6, "t1": [-0.4] * 6}
    found = _trade_judged(two)
    assert found.verdict == "cannot tell"
    assert "over 2 tasks" in found.numbers
    assert _trade_judged({"t0": [-0.9, -0.9]}).verdict == "cannot tell"
    assert _trade_judged({}).verdict == "cannot tell"


def test_who_decides_counts_a_run_once() -> None:
    fewest = {"sign": 0.6, "uniform(bits=2)": 0.9}

    def verdict(*shares: float, runs: int = 12, chance: float = 0.1) -> Claim:
        return _low_ranks_judged(
            {f"t{at}": [share] * runs for at, share in enumerate(shares)}, fewest, chance
        )

    assert verdict(0.98, 0.97, 0.99, 0.98).verdict == "holds"
    few = verdict(0.98, 0.97, 0.99, 0.98, chance=0.5)  # two candidates a run
    assert few.verdict == "cannot tell"
    assert f"by chance it would be {percent(0.5)}" in few.numbers
    assert "more checkpoints" in few.needs
    assert verdict(0.3, 0.32, 0.35, 0.31).verdict == "does not"
    # 48 runs of 85 %: the interval is over 4 tasks, whatever the number of runs and quantizers
    found = verdict(0.70, 0.99, 0.72, 0.99)
    assert found.verdict == "cannot tell"
    assert "48 runs in all" in found.numbers
    assert "fewest for sign, 60.0" in found.numbers
    assert "0.85 lies between" in found.needs
    assert verdict(0.70, 0.99, 0.72, 0.99, runs=4800).verdict == "cannot tell"
    assert _low_ranks_judged({}, {}, 1.0).verdict == "cannot tell"


def erratic(count: int) -> Trajectory:
    """One run whose candidate of highest loss decides: the others differ from the best checkpoint steadily."""
    steady = [k + 0.01 * np.linspace(-1, 1, 50) for k in range(1, count)]
    return Trajectory(np.vstack([np.zeros(50), *steady, count + 100 * np.linspace(-1, 1, 50)]))


@pytest.mark.parametrize("count", [1, 5, 9, 10, 20, 21])
def test_who_decides_in_one_run(count: int) -> None:
    spread = np.linspace(-4.5, 4.5, 50)
    run = measure_run(Trajectory(np.vstack([np.zeros(50), *(k + spread for k in range(1, count + 1))])))
    assert _is_low(run) is True  # the candidate of lowest loss decides, however few there are
    assert _by_chance(run) == {1: 1.0, 5: 0.2, 9: 1 / 9, 10: 0.1, 20: 0.1, 21: 3 / 21}[count]
    if count > 1:
        assert _is_low(measure_run(erratic(count))) is False
    assert _is_low(measure_run(Trajectory(np.zeros((2, 8))))) is None


@pytest.mark.parametrize(
    ("each", "tasks", "verdict"),
    [
        (_Pairs(15, 0, 1), 4, "holds"),
        (_Pairs(15, 0, 1), 2, "cannot tell"),
        (_Pairs(2, 8, 6), 4, "does not"),
        (_Pairs(7, 0, 9, 4), 4, "cannot tell"),
    ],
)
def test_strong_quantizers_safer(each: _Pairs, tasks: int, verdict: str) -> None:
    found = _strong_safer({f"t{at}": each for at in range(tasks)}, "4 runs")
    assert (found.verdict, found.needs == "") == (verdict, verdict != "cannot tell")
    assert f"of {16 * tasks} pairs on {tasks} tasks" in found.numbers


@pytest.mark.parametrize(
    ("each", "tasks", "verdict"),
    [
        (_Pairs(0, 0, 10, 10), 4, "cannot tell"),  # not told apart: no bound on the gain
        (_Pairs(0, 0, 10, 10), 40, "cannot tell"),
        (_Pairs(0, 0, 10, 10, alike=10), 4, "holds"),
        (_Pairs(0, 0, 10, 0, alike=10), 3, "cannot tell"),
        (_Pairs(0, 0, 10, 0, alike=8), 4, "cannot tell"),
        (_Pairs(8, 0, 2, 2, gained=8), 4, "does not"),
        (_Pairs(1, 0, 9, 9, gained=1), 4, "cannot tell"),
        (_Pairs(10, 0, 0, 0, alike=10), 4, "holds"),  # told apart, by less than the margin
        (_Pairs(10, 0, 0, 0, alike=5), 4, "cannot tell"),
    ],
)
def test_two_bits_and_more(each: _Pairs, tasks: int, verdict: str) -> None:
    found = _mild_alike({f"t{at}": each for at in range(tasks)})
    assert (found.verdict, found.needs == "") == (verdict, verdict != "cannot tell")
    assert _mild_alike({}).verdict == "cannot tell"


@pytest.mark.parametrize(
    ("gap", "n", "alike", "right", "gained"),
    [
        (0.05, 200, 0, 0, 0),  # few molecules: the gain is not bounded
        (0.05, 4000, 4, 0, 0),
        (0.1, 20000, 4, 4, 0),  # told apart, by less than the margin
        (0.3, 4000, 0, 4, 4),  # 2 bits gain 0.04
    ],
)
def test_enough_molecules_bound_a_gain(gap: float, n: int, alike: int, right: int, gained: int) -> None:
    rng = np.random.default_rng(5)
    per_variant = {}
    for variant in (*MILD, FULL):
        mean = gap if variant == FEW[0] else 0.05
        losses = [np.vstack([np.zeros(n), mean + rng.normal(size=n)]) for _ in range(3)]
        per_variant[variant] = {str(r): measure_run(Trajectory(row)) for r, row in enumerate(losses)}
    row = Measured(
        "demo",
        "ecfp4",
        rank_runs(per_variant, n_train=n),
        np.zeros((5, 3, 1)),
        np.zeros((5, 3, 1)),
        (1, 1, 1),
    )
    found = Molecules(plan.SCALES["small"], {}, (row,), {}, 0)
    counted = _pairs(found, lambda a, b: a == FEW[0] and b != FEW[0])["demo"]
    assert (counted.all, counted.alike, counted.right, counted.gained) == (4, alike, right, gained)


def test_intervals_over_tasks() -> None:
    assert over_tasks([0.5]).low == -np.inf
    assert over_tasks([0.5]).told(str) == "0.5 (one task: no interval)"
    assert share_of_tasks([1.0] * 4).low == pytest.approx(4 / (4 + 1.959964**2))
    assert share_of_tasks([0.0, 0.0]).high == pytest.approx(1.959964**2 / (2 + 1.959964**2))


def planted(
    share: Mapping[str, float],
    safe: tuple[str, ...],
    own: Mapping[str, float] | None = None,
    *,
    task: str = "classification",
    tasks: int = 4,
) -> Molecules:
    """Results with the AUROC (or R2) wanted at both checkpoints and r nine times as high for some variants."""
    n, runs, names, measured = 600, 3, {}, []
    for number in range(tasks):
        rng = np.random.default_rng(number)
        truth = (np.arange(n) % 2).astype(np.float32) if task == "classification" else rng.normal(size=n)
        name = f"demo {number}"
        data = MoleculeSet(name, task, (), truth, np.arange(n), "", {}, "", "", {})  # type: ignore[arg-type]
        outputs, others = [], []
        for variant in VARIANTS:
            noise = rng.normal(size=(runs, n))
            for kept, wanted in ((outputs, share), (others, own or share)):
                signal = wanted[variant] * truth
                kept.append(
                    signal + noise if task == "classification" else truth + (1 - wanted[variant]) * noise
                )
        per_variant = {}
        for variant in VARIANTS:
            gap = 0.45 if variant in safe else 0.15
            losses = [np.vstack([np.zeros(n), gap + rng.normal(size=n)]) for _ in range(runs)]
            per_variant[variant] = {str(r): measure_run(Trajectory(row)) for r, row in enumerate(losses)}
        ranking = rank_runs(per_variant, n_train=n)
        measured.append(Measured(name, "ecfp4", ranking, np.array(outputs), np.array(others), (1,) * runs))
        names[name] = TaskData(data, Parts(np.arange(n), np.arange(n), n), np.asarray(truth, np.float32))
    return Molecules(plan.SCALES["small"], names, tuple(measured), {}, 0)


def verdicts(found: Molecules) -> dict[str, str]:
    told = claims(found, tables(found), tables(found, own=True))
    return {claim.says.split(",")[0].split(":")[0]: claim.verdict for claim in told}


COST = "The strongest quantizers (1 and 1.58 bits) cost about 10 % of the AUROC."
THRESHOLD = "Performance has a threshold between 2 and 1.58 bits."
SAFER = "1 and 1.58 bits are more secure than 2 to 5 bits"
TRADE = "The better a quantizer performs"
GONE = "R2 is gone under 4 bits"
ORDER = "The order of the predictions stays where R2 is gone"


def test_pairs_are_counted_by_task() -> None:
    found = planted(dict.fromkeys(VARIANTS, 2.0), (FEW[0], "sign"), tasks=2)
    counted = _pairs(found, lambda a, b: a in STRONG and b in MILD)
    assert list(counted) == ["demo 0", "demo 1"]
    for row in found.measured:
        told = [
            (p["safer"] in STRONG, p["told_apart"])
            for p in row.ranking.to_json()["pairwise"]
            if {p["safer"] in STRONG, p["than"] in STRONG} == {True, False}
            and FULL not in (p["safer"], p["than"])
        ]
        mine = counted[row.task]
        assert (mine.right, mine.wrong, mine.open) == (
            told.count((True, True)),
            told.count((False, True)),
            told.count((True, False)) + told.count((False, False)),
        )
        assert mine.right > 0
        assert mine.wrong > 0
        assert mine.all == 16
    # one candidate a run is always in the lowest tenth
    decided = _low_ranks(found)
    assert (decided.verdict, f"by chance it would be {percent(1.0)}" in decided.numbers) == (
        "cannot tell",
        True,
    )


def test_three_tasks_that_agree_are_too_few_for_a_share() -> None:
    assert share_of_tasks([1.0] * 3).low < ENOUGH < share_of_tasks([15 / 16] * 4).low


@pytest.mark.slow
def test_verdicts_from_outputs_and_rankings() -> None:
    costly = {v: 0.6 if v in STRONG else 2.0 for v in VARIANTS}  # AUROC 0.66 against 0.92: 28 %, not 10
    found = verdicts(planted(costly, STRONG))
    assert found[COST] == "does not"
    assert (found[THRESHOLD], found[SAFER], found[TRADE]) == ("holds",) * 3
    alike = dict.fromkeys(VARIANTS, 2.0)
    turned = verdicts(planted(alike, MILD))
    assert (turned[COST], turned[SAFER]) == ("does not", "does not")  # no cost at all
    assert turned[THRESHOLD] == "cannot tell"
    better = {v: 0.6 if v in STRONG else 2.0 for v in VARIANTS}
    assert verdicts(planted(better, MILD))[TRADE] == "does not"
    ten = {v: 1.39 if v in STRONG else 2.0 for v in VARIANTS}  # AUROC 0.837 against 0.921: 9 %
    assert verdicts(planted(ten, STRONG))[COST] == "holds"
    split = verdicts(planted(ten, STRONG, own=alike))  # one reading has a cost, the other none
    assert (split[COST], split[THRESHOLD]) == ("cannot tell", "cannot tell")


@pytest.mark.slow
def test_verdicts_on_regression_from_outputs() -> None:
    bad = {v: -0.5 if v in (*STRONG, *FEW) else 0.9 for v in VARIANTS}
    good = dict.fromkeys(VARIANTS, 0.9)
    assert verdicts(planted(bad, STRONG, task="regression"))[GONE] == "holds"  # 1 - 1.5^2 < 0
    kept = verdicts(planted(good, STRONG, task="regression"))
    assert (kept[GONE], kept[ORDER]) == ("does not", "holds")
    assert verdicts(planted(bad, STRONG, own=good, task="regression"))[GONE] == "cannot tell"

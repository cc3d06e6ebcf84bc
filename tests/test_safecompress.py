"""SafeCompress: with one candidate it is plain sparse training; runs, resumes and losers leave no trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from discreet._find import SpecError
from discreet.compressors import parse
from discreet.compressors._rounds import _score
from discreet.defences import parse as defence
from discreet.ensemble import Diverged
from discreet.estimate import Estimate
from discreet.methods import check
from discreet.mlp import MLP
from discreet.phase import Outcome, Setting
from discreet.recipe import Recipe
from discreet.roles import Sizes, deal
from discreet.safety import Case, Found
from discreet.selection_rules import Candidate
from discreet.sparse import Plan, Schedule, train_sparse
from tests.compression import Fuse

SIZES = Sizes(fit=80, loop=40, audit=40, validation=40, test=40, reference=20)
RECIPE = Recipe(
    "ce", "sgd", lr=0.05, epochs=12, batch_size=20, momentum=0.9, nesterov=True, weight_decay=1e-3
)
ONE = "safecompress(rule='least', test='loss', prune=('magnitude',), grow=('{}',), interval=2, fraction=0.3)"
QUICK = "safecompress(rule='{}', test='loss', interval=3)"


def setting(runs: int = 3, **changes: Any) -> Setting:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    x = rng.normal(size=(300, 6)) + np.eye(6)[y]
    given = {"recipe": RECIPE, "density": 0.4, "seed": 5, "model": MLP((6, 12, 3))}
    given |= {"x": torch.from_numpy(x).float(), "y": torch.from_numpy(y)}
    return Setting(roles=deal(300, runs, SIZES, seed=1), **(given | changes))


def quiet(doing: str, share: float) -> None:
    assert 0 <= share <= 1


def fit(spec: str, given: Setting | None = None, defences: Sequence[str] = ()) -> Outcome:
    return parse(spec)(setting() if given is None else given, [defence(each) for each in defences], quiet)


def the_same(one: Outcome, other: Outcome) -> None:
    for name in one.params:
        assert torch.equal(one.params[name], other.params[name]), name
    for name in one.masks:
        assert torch.equal(one.masks[name], other.masks[name]), name
    assert one.history == other.history


@pytest.mark.parametrize("grow", ["random", "gradient", "least_gradient"])
def test_one_candidate_is_plain_sparse_training(grow: str) -> None:
    given = setting()
    plan = Plan(0.4, prune="magnitude", grow=grow, schedule=Schedule(2, 0.3, 0.75))
    plain = train_sparse(given.model, given.x, given.y, given.roles.fit, RECIPE, plan, seed=5)
    found = fit(ONE.format(grow), given)
    for name, value in plain.params.items():
        assert torch.equal(found.params[name], value)
    for name, mask in plain.masks.items():
        assert torch.equal(found.masks[name], mask)
    assert found.epochs == found.spent == 12


def test_counts_budget_and_history() -> None:
    found = fit(QUICK.format("tm"))
    weights = 6 * 12 + 12 * 3
    for run in range(3):
        kept = sum(int(mask[run].sum()) for mask in found.masks.values())
        assert weights * 0.4 - 2 < kept <= weights * 0.4
        for name, mask in found.masks.items():
            assert not bool(found.params[name][run][~mask[run]].any())
    assert found.epochs == 12
    rounds = found.history["rounds"]  # after epoch 9 nothing is exchanged any more
    assert [(each["run"], each["epoch"]) for each in rounds] == [
        (run, at) for at in (3, 6) for run in range(3)
    ]
    thrown = [sum(each["distinct"] - 1 for each in rounds if each["run"] == run) for run in range(3)]
    assert found.history["extra"] == thrown
    assert found.spent == 12 + sum(thrown) / 3
    names = ["magnitude+gradient", "magnitude+random", "threshold+gradient", "threshold+random"]
    assert [each["name"] for each in rounds[0]["candidates"]] == names
    for each in rounds:
        scores = [c["task"]["value"] / c["leak"] for c in each["candidates"]]
        assert each["chosen"] == names[int(np.argmax(scores))]
        assert each["difference"] == (len(set(scores)) > 1)
    points = found.history["points"]
    assert [each["epoch"] for each in points[::3]] == [3, 6, 12]


@pytest.mark.parametrize(
    "rule", ["indicator", *(pytest.param(each, marks=pytest.mark.slow) for each in ("tm", "random"))]
)
def test_a_run_alone_is_as_among_others(rule: str) -> None:
    together = fit(QUICK.format(rule), setting(3))
    alone = fit(QUICK.format(rule), setting(1))
    for name in together.params:
        assert torch.equal(together.params[name][0], alone.params[name][0])
    ours = [each for each in together.history["rounds"] if each["run"] == 0]
    assert ours == alone.history["rounds"]


class _Killed(Exception):
    pass


@pytest.mark.parametrize(
    ("rule", "at"),
    [("indicator", 2), *(pytest.param("tm", at, marks=pytest.mark.slow) for at in (1, 2))],
)
def test_a_stop_at_any_round_changes_nothing(tmp_path: Path, rule: str, at: int) -> None:
    def killer(doing: str, share: float) -> None:
        if doing.startswith(f"round {at}"):
            raise _Killed

    spec = f"safecompress(rule='{rule}', test='{'loss' if rule == 'indicator' else 'basket'}', interval=3)"
    given = setting(2, scratch=tmp_path)
    with pytest.raises(_Killed):
        parse(spec)(given, [], killer)
    seen: list[str] = []
    resumed = parse(spec)(given, [], lambda doing, share: seen.append(doing))
    assert seen[0] == f"round {at} of 2"
    the_same(resumed, fit(spec, setting(2)))
    assert len(list(tmp_path.glob("state-*"))) == 1


def test_what_was_kept_of_other_rounds_is_not_taken_up(tmp_path: Path) -> None:
    fit(QUICK.format("tm"), setting(1, scratch=tmp_path))
    other = fit(QUICK.format("random"), setting(1, scratch=tmp_path))
    the_same(other, fit(QUICK.format("random"), setting(1)))


def test_what_was_kept_of_another_training_is_not_taken_up(tmp_path: Path) -> None:
    """Though its rounds are at their end, and nothing would be trained that could compare its key."""
    fit(QUICK.format("tm"), setting(1, scratch=tmp_path))
    others: list[tuple[dict[str, Any], list[str]]] = [
        ({"recipe": replace(RECIPE, lr=0.01)}, []),
        ({"model": MLP((6, 12, 3), "tanh")}, []),
        ({"x": setting(1).x + 0.1}, []),
        ({}, ["re1"]),
    ]
    for changes, defences in others:
        kept = fit(QUICK.format("tm"), setting(1, scratch=tmp_path, **changes), defences)
        the_same(kept, fit(QUICK.format("tm"), setting(1, **changes), defences))


def test_what_was_kept_and_is_damaged_is_not_taken_up(tmp_path: Path) -> None:
    whole = fit(QUICK.format("tm"), setting(1, scratch=tmp_path))
    state = next(tmp_path.glob("state-*"))
    state.write_bytes(state.read_bytes()[:100])
    the_same(fit(QUICK.format("tm"), setting(1, scratch=tmp_path)), whole)
    (tmp_path / "course.json").write_text("{")
    the_same(fit(QUICK.format("tm"), setting(1, scratch=tmp_path)), whole)


def test_equal_candidates_are_no_difference() -> None:
    found = fit(ONE.format("random"))
    assert not any(each["difference"] for each in found.history["rounds"])


def test_a_loss_that_is_not_finite_keeps_the_last_good_models() -> None:
    blown = replace(RECIPE, milestones=(7,), gamma=1e30)
    found = fit(QUICK.format("tm"), setting(recipe=blown))
    assert found.epochs == 7  # the update after epoch 6 and one epoch of its candidates
    assert all(bool(torch.isfinite(value).all()) for value in found.params.values())
    assert "stopped after epoch 7, the last good one: model 0: " in found.notes[-1]
    with pytest.raises(Diverged, match="is not finite after epoch 1"):
        fit(QUICK.format("tm"), setting(recipe=replace(RECIPE, lr=1e30)))


def test_a_run_that_diverges_stops_alone() -> None:
    """Its last good model stays, and the others are as they would be without it."""
    spec = "safecompress(rule='indicator', test='loss', interval=3)"
    whole = parse(spec)(setting(), [Fuse(9, 1, 1)], quiet)
    found = parse(spec)(setting(), [Fuse(1, 8, 12)], quiet)
    for name, value in found.params.items():
        assert torch.equal(value[0], whole.params[name][0])
        assert torch.equal(value[2], whole.params[name][2])
        assert not torch.equal(value[1], whole.params[name][1])
        assert bool(value.isfinite().all())
    assert found.notes[-1].startswith("stopped after epoch 7, the last good one: model 1: ")
    assert found.epochs == (12 + 7 + 12) / 3
    others = [each for each in whole.history["rounds"] if each["run"] != 1]
    assert [each for each in found.history["rounds"] if each["run"] != 1] == others


def test_a_candidate_that_diverges_is_not_chosen() -> None:
    steps = 80 // 20
    found = parse(QUICK.format("tm"))(setting(), [Fuse(1, 4, 4, [steps])], quiet)  # the first candidate alone
    rounds = {each["epoch"]: each for each in found.history["rounds"] if each["run"] == 1}
    assert [each["name"] for each in rounds[3]["candidates"]] == [
        "magnitude+random",
        "threshold+gradient",
        "threshold+random",
    ]
    assert len(rounds[6]["candidates"]) == 4
    assert found.epochs == 12
    assert not found.notes


def test_what_equals_a_candidate_that_diverges_is_not_chosen_either() -> None:
    one = ONE.format("random").replace("('magnitude',)", "('magnitude', 'threshold(below=100.0)')")
    found = parse(one)(setting(), [Fuse(1, 5, 5, [1])], quiet)
    assert found.notes[-1].endswith("after epoch 4, the last good one: model 1: no candidate stayed finite")


def test_a_run_none_of_whose_candidates_stays_finite_stops_as_it_was() -> None:
    found = parse(QUICK.format("tm"))(setting(), [Fuse(1, 7, 7)], quiet)
    assert found.notes[-1].endswith("after epoch 6, the last good one: model 1: no candidate stayed finite")
    assert bool(torch.isfinite(found.params["0.weight"]).all())
    rounds = [each for each in found.history["rounds"] if each["run"] == 1]
    assert [each["epoch"] for each in rounds] == [3]
    assert found.history["extra"][1] > rounds[0]["distinct"]


def test_a_training_too_short_for_any_round_says_so() -> None:
    short = setting(recipe=replace(RECIPE, epochs=2))
    check("safecompress(test='loss')", short)
    found = fit("safecompress(test='loss')", short)
    assert found.history["rounds"] == []
    assert [note for note in found.notes if "no candidates were tested" in note]
    static = fit("static", short)
    for name, value in static.params.items():
        assert torch.equal(found.params[name], value)
    assert not [note for note in fit(QUICK.format("tm")).notes if "no candidates" in note]


@pytest.mark.parametrize("fields", ["interval=10", "interval=9", "stop=0.1", "tune=7"])
def test_fields_that_leave_no_round_are_refused(fields: str) -> None:
    with pytest.raises(
        ValueError, match="interval, tune, stop: expected an update before the masks stay, with time"
    ):
        check(f"safecompress(test='loss', {fields})", setting())
    check("safecompress(test='loss', interval=8, tune=4)", setting())


def test_patience_stops_a_run() -> None:
    given = setting(recipe=replace(RECIPE, epochs=20))
    spec = "safecompress(rule='tm', test='loss', interval=2, prune=('magnitude',), patience=1, tolerance={})"
    patient, hasty = fit(spec.format(0.0), given), fit(spec.format(5.0), given)
    last = {each["run"]: each["epoch"] for each in hasty.history["rounds"]}
    assert last == {0: 4, 1: 4, 2: 4}  # no second score is better by 5
    assert hasty.epochs == 5
    assert len(patient.history["rounds"]) > len(hasty.history["rounds"])


def score(outputs: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.abs(outputs[:, 0])


@pytest.mark.parametrize("rule", ["tm", "constrained"])
def test_patience_with_a_performance_below_zero(rule: str) -> None:
    spec = f"safecompress(rule='{rule}', test='loss', interval=2, patience=1, tolerance=None)"
    found = fit(spec, setting(metric=f"{__name__}:score"))
    assert all(each["task"]["value"] < 0 for each in found.history["points"])
    assert 3 <= found.epochs <= 12


def test_a_performance_below_zero_is_worth_less_the_more_leaks() -> None:
    def of(task: float, leak: float) -> tuple[float, float]:
        return _score(Candidate("", Estimate(task, task, task, 9, 0.95), leak, 0.01))

    assert of(-1.0, 0.6)[0] > of(-1.0, 0.9)[0]
    assert of(-1.0, 0.6)[1] == pytest.approx(0.01)
    assert of(0.5, 0.6) == pytest.approx((0.5 / 0.6, 0.5 * 0.01 / 0.36))


@pytest.mark.parametrize("growth", ["gap", pytest.param("held-out", marks=pytest.mark.slow)])
def test_growth_may_look_at_others(growth: str) -> None:
    found = fit(f"safecompress(rule='tm', test='loss', interval=3, growth='{growth}')")
    plain = fit(QUICK.format("tm"))
    assert any(not torch.equal(found.masks[name], plain.masks[name]) for name in plain.masks)


def test_the_seed_counts() -> None:
    one, other = fit(QUICK.format("random")), fit(QUICK.format("random"), setting(seed=6))
    assert any(not torch.equal(one.masks[name], other.masks[name]) for name in one.masks)


@dataclass(frozen=True)
class Planted:
    """A test of one's own: one candidate leaks least, by its number."""

    best: int = 0

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        del seeds
        order = [(at // 3 - self.best) % 3 for at in range(len(cases))]
        leaks = [0.5 + 0.1 * each for each in order] if init else [0.9] * len(cases)
        return [Found(leak, Estimate(leak, leak, leak, 10, 0.95), "accuracy") for leak in leaks]


THREE = "safecompress(rule='least', test='{}', prune=('magnitude',), grow={}, interval=3)"
GROW = ("gradient", "least_gradient", "random")


def test_a_safety_test_of_ones_own() -> None:
    found = fit(THREE.format(f"{__name__}:Planted", GROW))
    assert {each["chosen"] for each in found.history["rounds"]} == {"magnitude+gradient"}
    assert [c["leak"] for c in found.history["rounds"][0]["candidates"]] == [0.5, 0.6, 0.7]


@pytest.mark.parametrize("best", [0, 2])
def test_the_chosen_one_goes_on_and_losers_leave_no_trace(best: int) -> None:
    among = fit(THREE.format(f"{__name__}:Planted(best={best})", GROW))
    alone = fit(THREE.format("loss", (GROW[best],)))
    for name, value in alone.params.items():
        assert torch.equal(among.params[name], value)
    for name, mask in alone.masks.items():
        assert torch.equal(among.masks[name], mask)


def test_binary_and_convolution() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    x = rng.normal(size=(300, 1, 6, 6)) + y[:, None, None, None]

    def build() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3),
            torch.nn.BatchNorm2d(4),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(64, 1),
        )

    given = Setting(
        build,
        torch.from_numpy(x).float(),
        torch.from_numpy(y),
        deal(300, 2, SIZES),
        replace(RECIPE, loss="bce", epochs=6),
        0.5,
    )
    found = fit("safecompress(rule='tm', test='whitebox', interval=2)", given)
    assert sum(int(mask[0].sum()) for mask in found.masks.values()) == 50
    assert int(found.params["1.num_batches_tracked"][0]) == 6 * 4


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("safecompress(rule='best')", "unknown selection_rule 'best'"),
        ("safecompress(test='lira')", "unknown safety 'lira'"),
        ("safecompress(tune=0)", "tune: expected at least 1, got 0"),
        (
            "safecompress(interval=1, tune=2)",
            "interval: expected at least 2, as candidates are tuned so long, got 1",
        ),
        ("safecompress(growth='all')", "growth: expected fit, held-out or gap, got 'all'"),
        ("safecompress(patience=0)", "patience: expected at least 1, got 0"),
        ("safecompress(prune=())", r"prune, grow: expected tuples of rules, got \(\)"),
        ("safecompress(stop=0.0)", "stop: expected above 0, at most 1, got 0.0"),
    ],
)
def test_settings_that_there_are_not(spec: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        parse(spec)


def test_an_attribute_that_is_missing() -> None:
    with pytest.raises(ValueError, match="attribute: this test infers an attribute, but the data have none"):
        fit("safecompress(test='attribute')")
    with pytest.raises(
        ValueError, match="runs: this test compares the models of several runs, but there is one run"
    ):
        fit("safecompress(test='attack')", setting(1))

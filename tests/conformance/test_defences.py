"""What every defence must do, found by file name: a new one needs no edit here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.compression import Drifting, setting
from torch import Tensor

from discreet import _find, defences
from discreet.compressors._magnitude import largest
from discreet.compressors._masked import of_setting
from discreet.defences import Defence
from discreet.forward import check_names
from discreet.initial import as_model
from discreet.measure import logits
from discreet.mlp import MLP
from discreet.phase import Phase, Setting, Teacher, Trained, defended, fresh_phase, run, start_of
from discreet.sparse import Plan, Schedule, close, maskable
from discreet.sparse.counts import portion
from discreet.training import train
from discreet.training_state import TrainingState

every = pytest.mark.parametrize("name", defences.names())
EVERY_EPOCH = Schedule(interval=1)
PLANS = {
    "static": Plan(0.3),
    "set": Plan(0.3, prune="magnitude", grow="random", schedule=EVERY_EPOCH),
    "rigl": Plan(0.3, prune="magnitude", grow="gradient", schedule=EVERY_EPOCH),
}
REFUSED = {("dpsgd", "rigl"): "growth by gradient reads gradients without noise"}


def silent(what: str, share: float) -> None:
    assert what
    assert 0 <= share <= 1


def teacher(task: Setting) -> Teacher:
    """Weights that no training has seen; what they say does not matter here."""
    network = task.model
    assert isinstance(network, MLP)
    return Teacher(network, network.init(list(range(task.runs)), task.x.dtype))


def phase_of(name: str, kind: str = "dense", runs: int = 2, **changes: Any) -> Phase:
    """A phase of a kind with the defence; every kind has a teacher."""
    task = setting(runs, **changes)
    start = fresh_phase(task, teacher=teacher(task))
    if kind in PLANS:
        start = replace(start, plan=PLANS[kind])
    if kind == "fine-tuned":
        masks = largest(start.teacher.params, of_setting(task).shapes, task.density)  # type: ignore[union-attr]
        start = replace(start, masks=masks, init=close(start.teacher.params, masks))  # type: ignore[union-attr]
    return defences.parse(name).apply(start)


def same(one: Any, other: Any) -> None:
    assert set(one) == set(other)
    for name, value in one.items():
        assert value.contiguous().numpy().tobytes() == other[name].contiguous().numpy().tobytes(), name


def check(phase: Phase, done: Trained) -> None:
    """Finite, of the released model, exact in number, zero where masked."""
    built = as_model(done.model)
    check_names(built, done.params)
    assert all(bool(value.isfinite().all()) for value in done.params.values())
    assert logits(built, done.params, phase.setting.x[:5]).isfinite().all()
    if phase.plan is None and phase.masks is None:
        assert not done.masks
        return
    weights = sum(value[0].numel() for value in done.masks.values())
    for row in range(phase.setting.runs):
        assert sum(int(mask[row].sum()) for mask in done.masks.values()) == portion(0.3, weights)
    for name, mask in done.masks.items():
        assert (done.params[name][~mask.bool()] == 0).all()
    assert set(done.masks) == set(maskable(phase.setting.model).shapes)


@every
def test_the_spec_round_trips_and_the_file_says_what_it_is(name: str) -> None:
    defence = defences.parse(name)
    assert isinstance(defence, Defence)
    assert _find.parse(_find.spec(defence, defences.__name__), defences.__name__) == defence
    assert hash(defence) == hash(defences.parse(name))
    assert len(_find.about(defences.__name__)[name]) > 10
    assert isinstance(defence.needs_teacher, bool)


@every
@pytest.mark.parametrize(
    "kind",
    [
        "dense",
        "set",
        "fine-tuned",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("static", "rigl")),
    ],
)
def test_models_are_finite_and_exactly_as_sparse_as_without(name: str, kind: str) -> None:
    phase = phase_of(name, kind)
    if (name, kind) in REFUSED:
        with pytest.raises(ValueError, match=REFUSED[name, kind]):
            run(phase)
        return
    check(phase, run(phase))


@every
def test_same_seed_same_bytes_and_nothing_of_the_caller_changes(name: str) -> None:
    phase = phase_of(name, "static")
    task = phase.setting
    before = task.x.clone(), task.y.clone(), task.roles.fit.copy()
    one, again = run(phase, workers=1), run(phase_of(name, "static"), workers=2)
    same(one.params, again.params)
    assert torch.equal(before[0], task.x)
    assert torch.equal(before[1], task.y)
    assert np.array_equal(before[2], task.roles.fit)
    other = run(phase_of(name, "static", seed=1))
    assert not torch.equal(one.params["0.weight"], other.params["0.weight"])


@every
@pytest.mark.parametrize("kind", [pytest.param("dense", marks=pytest.mark.slow), "set"])
def test_a_run_does_not_depend_on_the_others(name: str, kind: str) -> None:
    two = run(phase_of(name, kind, dtype=torch.float64))
    three = run(phase_of(name, kind, runs=3, dtype=torch.float64))
    for key, value in two.params.items():
        torch.testing.assert_close(value, three.params[key][:2], rtol=1e-7, atol=1e-7)


@every
def test_a_training_that_stopped_goes_on_to_the_same_bytes(name: str) -> None:
    phase = phase_of(name, recipe={"optimizer": "adam", "momentum": 0.0, "lr": 0.01})
    states: list[TrainingState] = []
    given = (phase.model, phase.x, phase.y, phase.subsets, phase.recipe)
    more = {"seed": phase.setting.seed, "init": start_of(phase), "gradients": phase.gradients}
    whole = train(*given, **more, on_state=states.append)
    rest = train(*given, **{**more, "init": None}, resume=states[0])
    same(whole, rest)


@every
def test_one_logit_will_do(name: str) -> None:
    phase = phase_of(name, "dense", task="bce")
    check(phase, run(phase))


@every
def test_running_statistics_and_random_layers(name: str) -> None:
    task = setting(model=Drifting, recipe={"epochs": 2})
    try:
        phase, _ = defended(fresh_phase(task), [defences.parse(name)], silent)
        done = run(phase)
    except ValueError as error:
        assert "BatchNorm1d" in str(error)  # noqa: PT017
        assert name == "dpsgd"
        return
    check(phase, done)
    assert int(done.params["norm.num_batches_tracked"][0]) > 0


@every
def test_no_privacy_is_claimed_where_there_is_none(name: str) -> None:
    for kind in ("set", "fine-tuned"):
        assert phase_of(name, kind).epsilon is None
    private = {kind for kind in ("dense", "static") if phase_of(name, kind).epsilon is not None}
    assert private == ({"dense", "static"} if name == "dpsgd" else set())


@pytest.mark.slow
@every
def test_goes_with_every_other_or_says_why_not(name: str) -> None:
    for other in defences.names():
        if other <= name:
            continue
        try:
            phase = defences.parse(other).apply(phase_of(name, recipe={"epochs": 1}))
            done = run(phase)
        except ValueError as error:
            assert str(error).startswith((f"{name}: ", f"{other}: ")), str(error)  # noqa: PT017
        else:
            check(phase, done)


@pytest.mark.slow
@every
def test_order_does_not_matter_but_for_losses_of_losses(name: str) -> None:
    for other in ("re1", "dropout", "augment"):
        if other == name:
            continue
        given: list[dict[str, Tensor]] = []
        for first, second in ((name, other), (other, name)):
            phase = defences.parse(second).apply(phase_of(first, recipe={"epochs": 1}))
            given.append(dict(run(phase).params))
        if other != "re1" or name not in ("relaxloss", "distil", "even"):
            same(*given)

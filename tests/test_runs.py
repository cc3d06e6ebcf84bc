"""Runs dealt out, followed, worked off and judged: the parts that the demo and audits of own models share."""

from __future__ import annotations

import time
from importlib import util
from threading import Barrier

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(util.find_spec("torch") is None, reason="needs discreet[torch]")

if util.find_spec("torch") is not None:
    import torch

    from discreet.auditing_spec.fitting import fit_module, seeded
    from discreet.measure import logits, measure_stack
    from discreet.mlp import MLP
    from discreet.quantizers import quantize_stack
    from discreet.records import Record
    from discreet.runs.dealing import deal
    from discreet.runs.following import Note, Panel, follow, measure_release
    from discreet.runs.units import Tick, do_units
    from discreet.runs.worth import worth
    from discreet.spec import CalledError, Named
    from discreet.stats import auc

SAMPLES = 60


def panel(validation: np.ndarray, task: str = "bce") -> Panel:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((SAMPLES, 4), dtype=np.float32))
    y = torch.from_numpy((x[:, 0].numpy() > 0).astype(np.int64))
    return Panel(
        MLP((4, 3, 1)),
        task,
        {"full": "full", "one bit": "sign(scale='absmean')"},
        x,
        y,
        np.arange(SAMPLES),
        None,
        np.arange(20),
        validation,
        np.arange(30, SAMPLES),
        {"task": task, "n_train": 10},
    )


def stacks(count: int = 3, runs: int = 2) -> list[dict[str, torch.Tensor]]:
    return [MLP((4, 3, 1)).init([10 * step + run for run in range(runs)]) for step in range(count)]


def noting(params: list[dict[str, torch.Tensor]]):
    def train(note: Note) -> None:
        for step, each in enumerate(params, start=1):
            note(float(step), each)

    return train


def test_every_variant_is_measured_at_every_checkpoint() -> None:
    own, params = panel(np.arange(20, 30)), stacks()
    record = follow(own, ("a", "b"), noting(params)).followed
    assert len(record.run) == 2 * 2 * 3
    for step, each in enumerate(params, start=1):
        small = quantize_stack(each, "sign(scale='absmean')")
        for variant, stack in (("full", each), ("one bit", small)):
            at = torch.arange(30, SAMPLES)
            expected = measure_stack(own.network, {"": stack}, own.x[at], own.y[at])["loss"][:, 0]
            for run, row in zip("ab", expected, strict=True):
                (found,) = record.rows(variant, run, float(step))
                np.testing.assert_allclose(record.signal("loss")[found], row, rtol=1e-6)


def test_the_lowest_validation_loss_ships_of_each_run_its_own() -> None:
    own, params = panel(np.arange(20, 30)), stacks(5)
    trained = follow(own, ("a", "b"), noting(params), trajectory=False)
    assert trained.trajectory is None
    at = torch.arange(20, 30)
    losses = np.array(
        [
            measure_stack(own.network, {"": each}, own.x[at], own.y[at])["loss"][:, 0].mean(axis=1)
            for each in params
        ]
    )
    assert trained.steps == tuple(float(step) for step in losses.argmin(axis=0) + 1)
    assert len(set(trained.steps)) == 2  # else this would show little
    for run, step in enumerate(trained.steps):
        assert torch.equal(trained.shipped["0.weight"][run], params[int(step) - 1]["0.weight"][run])


def test_without_validation_the_last_one_ships() -> None:
    trained = follow(panel(np.empty(0, np.int64)), ("a", "b"), noting(stacks()))
    assert trained.steps == (3.0, 3.0)
    assert torch.equal(trained.shipped["0.weight"], stacks()[-1]["0.weight"])
    with pytest.raises(ValueError, match="expected at least one checkpoint of a run, got none"):
        follow(panel(np.arange(20, 30)), ("a", "b"), lambda note: None)


def test_what_ships_is_measured_on_members_and_others() -> None:
    own, member = panel(np.arange(20, 30)), np.zeros((2, 20), bool)
    member[0, :10] = member[1, 10:] = True
    record = measure_release(own, ("a", "b"), stacks(1)[0], (3.0, 5.0), member)
    assert record.sample.tolist() == list(range(20))
    assert np.asarray(record.membership("b")).tolist() == member[1].tolist()
    assert record.step[record.rows(run="b")].tolist() == [5.0, 5.0]


def test_raw_outputs_are_kept_where_attacks_read_them() -> None:
    from dataclasses import replace

    from discreet.auditing_spec.outputs import record_of

    own, params = replace(panel(np.arange(20, 30)), which=("loss", "outputs")), stacks(1)[0]
    record = measure_release(own, ("a", "b"), params, (1.0, 1.0), np.eye(2, 20, dtype=bool))
    expected = logits(own.network, params, own.x[:20])
    assert record.axes["outputs"] == ("row", "sample", "class")
    np.testing.assert_allclose(record.signal("outputs")[record.rows("full")][..., 0], expected, rtol=1e-6)
    by_outputs = record_of(
        own,
        own.released,
        "a",
        1.0,
        {"full": expected[0].double().numpy()[:, None]},
        np.arange(20) < 1,
        which=own.which,
    )
    for name in ("loss", "outputs"):
        one, other = record.signal(name)[record.rows("full", "a")], by_outputs.signal(name)
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_groups_are_not_cut_and_halves_complement_each_other() -> None:
    group = np.repeat(np.arange(40), 3)[:-1]
    with pytest.raises(
        ValueError, match=r"expected a sample that is alone in its group, so that \d+ training"
    ):
        deal(np.repeat(np.arange(9), 3), (1 / 3, 1 / 3, 1 / 3), 1, seed=0)
    parts = deal(np.concatenate([group, np.arange(100, 160)]), (0.5, 0.1, 0.4), 3, seed=1)
    names = np.concatenate([group, np.arange(100, 160)])
    sides = [set(names[part]) for part in (parts.training, parts.validation, parts.evaluation)]
    assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]
    assert (parts.halves[0::2] ^ parts.halves[1::2]).all()
    assert len(set(names[parts.evaluation])) == len(parts.evaluation)


def test_units_stop_at_the_time_and_at_errors() -> None:
    done: list[int] = []
    left = do_units(
        [1, 2, 3],
        lambda unit, tick: done.append(unit),
        3,
        workers=1,
        progress=lambda share: None,
        until=time.monotonic() - 1,
    )
    assert (done, left) == ([], [1, 2, 3])

    def fail(unit: int, tick: object) -> None:
        if unit == 2:
            raise ValueError("two")
        done.append(unit)

    with pytest.raises(ValueError, match="two"):
        do_units([1, 2, 3], fail, 3, workers=1, progress=lambda share: None)
    assert done == [1]


@pytest.mark.parametrize("workers", [1, 2])
def test_units_have_one_torch_thread_each_however_many_work(workers: int) -> None:
    found: list[int] = []
    torch.set_num_threads(2)
    try:
        do_units(
            [1, 2],
            lambda unit, tick: found.append(torch.get_num_threads()),
            2,
            workers=workers,
            progress=lambda share: None,
        )
        assert (found, torch.get_num_threads()) == ([1, 1], 2)
    finally:
        torch.set_num_threads(1)


def test_the_unit_that_failed_is_told_and_not_those_it_stopped() -> None:
    def work(unit: int, tick: Tick) -> None:
        together.wait()
        if unit == 0:
            raise ValueError("this one")
        while True:
            tick(0)

    for _ in range(20):
        together = Barrier(6)
        with pytest.raises(ValueError, match="this one"):
            do_units(range(6), work, 6, workers=6, progress=lambda share: None)


@pytest.mark.parametrize("task", ["bce", "ce", "mse"])
def test_task_performance_against_its_definition(task: str) -> None:
    rng = np.random.default_rng(3)
    label = rng.integers(0, 2, 200) if task != "mse" else rng.standard_normal(200)
    signals = {"loss": rng.exponential(size=(2, 200)), "label": label}
    if task != "mse":
        signals["margin"] = rng.standard_normal((2, 200)) + 0.5
    record = Record(("a", "b"), np.ones(2), ("full",) * 2, np.arange(200), signals)
    found = worth(record, np.arange(2), task)
    if task == "bce":
        logit = np.where(label == 1, 1, -1) * signals["margin"]
        expected = [auc(row, label == 1).value for row in logit]
    elif task == "ce":
        expected = (signals["margin"] > 0).mean(axis=1)
    else:
        expected = 1 - signals["loss"].mean(axis=1) / label.var()
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)
    estimate = found.estimate(np.arange(2), level=0.95)
    assert estimate.low < estimate.value < estimate.high
    if task == "ce":  # one run: the variance of a share
        one = worth(record, np.arange(1), task)
        p = one.values[0]
        assert (one.influence**2).sum() == pytest.approx(p * (1 - p) / 199, rel=1e-6)


def test_a_model_that_is_returned_is_one_more_checkpoint_if_it_is_another() -> None:
    seen: list[tuple[float, float]] = []

    def note(step: float, params: dict[str, torch.Tensor]) -> None:
        seen.append((step, float(params["weight"][0, 0, 0])))

    def fit(model, x, y, *, seed, checkpoint, restore):
        for value in (1.0, 2.0):
            model.weight.data.fill_(value)
            checkpoint(model)
        if restore:
            model.weight.data.fill_(1.0)
        return model

    named = Named(fit, "mine:fit", "spec.toml")
    for restore, expected in ((False, [(1, 1), (2, 2)]), (True, [(1, 1), (2, 2), (3, 1)])):
        seen.clear()
        fit_module(
            named,
            {"restore": restore},
            torch.nn.Linear(1, 1),
            torch.zeros(2, 1),
            torch.zeros(2),
            run="0",
            seed=1,
            note=note,
        )
        assert seen == expected


def test_a_function_that_draws_without_a_seed_gives_the_same_and_disturbs_nobody() -> None:
    def draws() -> tuple[float, float]:
        return float(torch.rand(1)), float(np.random.rand())  # noqa: NPY002

    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = draws()
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    with seeded(3):
        one = draws()
    with seeded(3):
        assert draws() == one
    assert draws() == expected


def test_diverged_training_is_told() -> None:
    def fit(model, x, y, *, seed, checkpoint):
        checkpoint(model)
        model.weight.data.fill_(float("inf"))
        return model

    with pytest.raises(
        CalledError, match=r"infinite values in 'weight': the training of run 0 after 1 checkpoints diverged"
    ):
        fit_module(
            Named(fit, "mine:fit", "spec.toml"),
            {},
            torch.nn.Linear(1, 1),
            torch.zeros(2, 1),
            torch.zeros(2),
            run="0",
            seed=1,
            note=lambda step, params: None,
        )

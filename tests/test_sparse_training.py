"""Sparse training of many models: exact at every moment, each as if alone, resumed to the same bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from discreet.initial import initialise
from discreet.measure import logits
from discreet.mlp import MLP
from discreet.model_seeds import init_seed
from discreet.recipe import Recipe
from discreet.sparse import (
    Plan,
    Schedule,
    Sparse,
    SparseError,
    Update,
    attach,
    close,
    draw_masks,
    preset,
    rescale,
    train_sparse,
)
from discreet.sparse.growth import Growth
from discreet.training import train
from discreet.training_paths.choice import choose, traits
from discreet.training_state import TrainingState

SAMPLES, MODELS = 48, 3
RECIPE = Recipe(loss="ce", epochs=8, batch_size=8, lr=0.05, optimizer="sgd", momentum=0.9, weight_decay=0.01)
EVERY = Schedule(interval=1)
PRESETS = ("static", "set", "rigl")


def data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, np.ndarray]:
    rng = np.random.default_rng(2)
    x = torch.from_numpy(rng.normal(size=(SAMPLES, 6))).to(dtype)
    y = torch.from_numpy((rng.normal(size=(SAMPLES, 3)) + x[:, :3].numpy()).argmax(1))
    return x, y, np.stack([rng.permutation(SAMPLES)[:30] for _ in range(MODELS)])


def convolutions() -> nn.Sequential:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6)),
        nn.Conv1d(1, 4, 3),
        nn.BatchNorm1d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


def same(one: Sparse, other: Sparse) -> None:
    for stack, again in ((one.params, other.params), (one.masks, other.masks)):
        assert set(stack) == set(again)
        for name, value in stack.items():
            assert value.contiguous().numpy().tobytes() == again[name].contiguous().numpy().tobytes(), name


@pytest.mark.parametrize(("name", "optimizer"), [("static", "sgd"), ("set", "adam"), ("rigl", "adamw")])
def test_counts_are_exact_after_every_epoch_and_no_weight_comes_back(name: str, optimizer: str) -> None:
    x, y, subsets = data()
    states: list[TrainingState] = []
    updates: list[Update] = []
    plan = preset(name, 0.3, schedule=EVERY)
    recipe = replace(RECIPE, optimizer=optimizer)
    done = train_sparse(
        MLP((6, 9, 3)), x, y, subsets, recipe, plan, on_state=states.append, on_update=updates.append
    )
    assert sum(done.counts.values()) == int(0.3 * (54 + 27))
    assert done.density == pytest.approx(24 / 81)
    for state in states:
        for each, mask in state.masks.items():
            assert mask.flatten(1).sum(1).tolist() == [done.counts[each]] * MODELS
            for stack in (state.params, *state.moments.values()):
                assert (stack[each][~mask] == 0).all()
    assert [update.epoch for update in updates] == ([] if name == "static" else [1, 2, 3, 4, 5])
    moved = not torch.equal(states[0].masks["0.weight"], done.masks["0.weight"])
    assert moved == (name != "static")
    assert torch.equal(states[-2].masks["0.weight"], done.masks["0.weight"])
    for update in updates[:3]:  # later ones exchange less than one weight
        assert int(update.exchanged["0.weight"].sum()) > 0


@pytest.mark.parametrize(
    ("kind", "name"), [("written", "set"), ("written", "rigl"), ("func", "rigl"), ("batch norm", "rigl")]
)
def test_each_model_is_as_trained_alone(name: str, kind: str) -> None:
    x, y, subsets = data()
    model: Any = convolutions() if kind == "batch norm" else MLP((6, 9, 3))
    more: dict[str, Any] = {} if kind == "batch norm" else {"path": kind}
    plan = preset(name, 0.4, schedule=EVERY)
    whole = train_sparse(model, x, y, subsets, RECIPE, plan, seed=4, model_ids=[5, 2, 9], **more)
    for row, model_id in enumerate([5, 2, 9]):
        alone = train_sparse(model, x, y, subsets[[row]], RECIPE, plan, seed=4, model_ids=[model_id], **more)
        for each, value in whole.params.items():
            torch.testing.assert_close(alone.params[each][0], value[row], rtol=1e-9, atol=1e-9)
        for each, mask in whole.masks.items():
            assert torch.equal(alone.masks[each][0], mask[row])


def test_seeds_and_workers() -> None:
    x, y, subsets = data(torch.float32)
    plan = preset("set", 0.3, schedule=EVERY)
    one, again = (train_sparse(MLP((6, 9, 3)), x, y, subsets, RECIPE, plan, workers=w) for w in (1, 2))
    same(one, again)
    other = train_sparse(MLP((6, 9, 3)), x, y, subsets, RECIPE, plan, seed=1)
    assert not torch.equal(one.masks["0.weight"], other.masks["0.weight"])


def test_static_masks_train_as_masks_given_to_the_plain_training() -> None:
    x, y, subsets = data()
    network = MLP((6, 9, 3))
    done = train_sparse(network, x, y, subsets, RECIPE, preset("static", 0.3), seed=2)
    shapes = done.maskable.shapes
    masks = draw_masks(shapes, done.counts, range(MODELS), seed=2)
    start = initialise(network, [init_seed(2, model) for model in range(MODELS)], torch.float64)
    init = close(rescale(start, shapes, done.counts), masks)
    plain = train(network, x, y, subsets, RECIPE, seed=2, init=init, masks=masks)
    same(done, replace(done, params=plain, masks=masks))


def test_a_masked_module_in_a_plain_loop_is_the_same_model() -> None:
    x, y, subsets = data()
    plan = preset("static", 0.3)
    module = MLP((6, 9, 3)).module()
    module.load_state_dict({n: v[0] for n, v in initialise(MLP((6, 9, 3)), [init_seed(0, 0)]).items()})
    masked = attach(module.double(), plan)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01)
    seen: list[Tensor] = []

    def order(params: dict[str, Tensor], batch: Any) -> dict[str, Tensor]:
        seen.append(batch.samples[0])
        return {name: torch.zeros_like(value) for name, value in params.items()}

    train(MLP((6, 9, 3)), x, y, subsets[[0]], RECIPE, gradients=order)
    for rows in seen:
        optimizer.zero_grad()
        cross_entropy(module(x[rows]), y[rows]).backward()
        masked.step(optimizer)
    done = train_sparse(MLP((6, 9, 3)), x, y, subsets[[0]], RECIPE, plan)
    for name, value in done.params.items():
        torch.testing.assert_close(value[0], module.get_parameter(name).detach(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("kind", "name"), [("perceptron", "static"), ("perceptron", "set"), ("batch norm", "rigl")]
)
def test_resumed_training_gives_the_same_bytes(name: str, kind: str, tmp_path: Any) -> None:
    x, y, subsets = data(torch.float32)
    model: Any = convolutions() if kind == "batch norm" else MLP((6, 9, 3))
    plan = preset(name, 0.4, schedule=Schedule(interval=2))
    states: list[TrainingState] = []
    whole = train_sparse(model, x, y, subsets, RECIPE, plan, seed=3, on_state=states.append)
    same(whole, train_sparse(model, x, y, subsets, RECIPE, plan, seed=3))  # whoever looks on or not
    for epoch in (3, 4, 8):  # in between, where an update is due, and at the end
        path = states[epoch - 1].save(tmp_path / f"{kind}{epoch}")
        again = train_sparse(model, x, y, subsets, RECIPE, plan, seed=3, resume=TrainingState.load(path))
        same(whole, again)
    message = "^resume: the state is of another training: plan and number of epochs must be the same$"
    with pytest.raises(SparseError, match=message):
        train_sparse(model, x, y, subsets, RECIPE, replace(plan, density=0.5), seed=3, resume=states[3])
    with pytest.raises(ValueError, match=r"^resume: the state is of another training: seed, ids"):
        train_sparse(model, x, y, subsets, RECIPE, plan, seed=4, resume=states[3])
    wrong = replace(states[3], masks={each: torch.ones_like(mask) for each, mask in states[3].masks.items()})
    with pytest.raises(
        SparseError, match=r"^masks: expected \d+ weights of .* in use at every moment, model 0 has"
    ):
        train_sparse(model, x, y, subsets, RECIPE, plan, seed=3, resume=wrong)


def growth(model: Any, x: Tensor, y: Tensor, subsets: np.ndarray, batches: int) -> Growth:
    recipe = RECIPE
    from discreet.losses import loss_named

    choice = choose(model, traits(model, x), x, y, loss_named("ce"), recipe.batch_size)
    return Growth(choice, subsets, tuple(range(len(subsets))), recipe.batch_size, batches, 0, 1)


def test_growth_gradients_are_those_of_the_whole_loss_and_leave_statistics_alone() -> None:
    x, y, subsets = data()
    model = convolutions().double()
    params = initialise(model, [1, 2, 3], torch.float64)
    before = {name: value.clone() for name, value in params.items()}
    growth(model, x, y, subsets, 2).gradients(params, ["1.weight"], 3, torch.arange(3))
    assert all(torch.equal(value, before[name]) for name, value in params.items())
    network = MLP((6, 9, 3))
    params = network.init([1, 2, 3], torch.float64)
    names = ["0.weight", "2.weight"]
    found = growth(network, x, y, subsets, 100).gradients(params, names, 3, torch.tensor([0, 2]))
    module = network.module().double()
    for row in (0, 2):
        module.load_state_dict({name: value[row] for name, value in params.items()})
        module.zero_grad()
        cross_entropy(module(x[subsets[row]]), y[subsets[row]]).backward()
        for name in names:
            torch.testing.assert_close(
                found[name][row], module.get_parameter(name).grad, rtol=1e-9, atol=1e-12
            )
    assert (found["0.weight"][1] == 0).all()
    few = growth(network, x, y, subsets, 2).gradients(params, names, 3, torch.arange(3))
    later = growth(network, x, y, subsets, 2).gradients(params, names, 4, torch.arange(3))
    assert not torch.equal(few["0.weight"], later["0.weight"])


def test_sparse_inputs_grow_by_the_gradients_of_dense_ones() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((SAMPLES, 600)) < 0.03).double()
    _, y, subsets = data()
    plan = preset("rigl", 0.1, schedule=EVERY)
    one = train_sparse(MLP((600, 5, 3)), x, y, subsets, RECIPE, plan)
    other = train_sparse(MLP((600, 5, 3)), x, y, subsets, RECIPE, plan, path="func")
    for name, mask in one.masks.items():
        assert torch.equal(mask, other.masks[name])
        torch.testing.assert_close(one.params[name], other.params[name], rtol=1e-9, atol=1e-9)


def test_fresh_weights_are_rescaled_and_given_ones_are_not() -> None:
    x, y, subsets = data()
    network = MLP((6, 9, 3))
    start = initialise(network, [init_seed(0, model) for model in range(MODELS)], torch.float64)

    def first(model: Any, plan: Plan, **more: Any) -> dict[str, Tensor]:
        seen: dict[int, dict[str, Tensor]] = {}
        recipe = replace(RECIPE, epochs=1)
        train_sparse(
            model,
            x,
            y,
            subsets,
            recipe,
            plan,
            on_checkpoint=seen.__setitem__,
            initial_checkpoint=True,
            **more,
        )
        return seen[0]

    plan = preset("static", 0.3)
    kept, fresh, given = (
        first(network, replace(plan, rescale=False)),
        first(network, plan),
        first(network, plan, init=start),
    )
    on = kept["0.weight"] != 0
    assert torch.equal(kept["0.weight"], given["0.weight"])
    assert torch.equal(kept["0.weight"][on], start["0.weight"][on])
    ratio = fresh["0.weight"][on] / start["0.weight"][on]
    share = float(on[0].double().mean())
    torch.testing.assert_close(ratio, torch.full_like(ratio, share**-0.5))
    normed = convolutions()
    assert torch.equal(
        first(normed, plan)["1.weight"], first(normed, replace(plan, rescale=False))["1.weight"]
    )


def test_a_stopped_model_keeps_its_masks() -> None:
    x, y, subsets = data()
    states: list[TrainingState] = []
    recipe = replace(RECIPE, epochs=30, lr=0.3, patience=2)
    plan = preset("set", 0.3, schedule=EVERY)
    train_sparse(MLP((6, 9, 3)), x, y, subsets, recipe, plan, validation=(x, y), on_state=states.append)
    stopped = states[-1].stopped.tolist()
    assert max(stopped) > 0
    for row, epoch in enumerate(stopped):
        for state in states[epoch - 1 :] if epoch else ():
            for name in state.masks:
                assert torch.equal(state.masks[name][row], states[epoch - 1].masks[name][row])
                assert torch.equal(state.params[name][row], states[epoch - 1].params[name][row])


def test_bad_input() -> None:
    x, y, subsets = data()
    with pytest.raises(
        SparseError, match=r"^density: 0.02 of 81 weights is 1; expected at least one weight for each"
    ):
        train_sparse(MLP((6, 9, 3)), x, y, subsets, RECIPE, preset("set", 0.02))
    with pytest.raises(SparseError, match=r"^model: nothing to mask"):
        train_sparse(nn.BatchNorm1d(6), x, y, subsets, RECIPE, preset("set", 0.5))
    with pytest.raises(ValueError, match=r"^subsets: expected positions from 0 to 47, got"):
        train_sparse(MLP((6, 9, 3)), x, y, subsets + 100, RECIPE, preset("set", 0.5))


def clusters(samples: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Twenty features, ten classes, a fifth of the labels drawn anew: 82 % is the most that can be told."""
    made = np.random.default_rng(7)
    centres, turns = made.choice([-2.0, 2.0], size=(10, 10)), made.uniform(-1, 1, size=(10, 10, 10))
    own = rng.integers(0, 10, samples)
    x = np.einsum("ni,nij->nj", rng.normal(size=(samples, 10)), turns[own]) + centres[own]
    mixed = np.concatenate([x, x @ made.uniform(-1, 1, size=(10, 5)), rng.normal(size=(samples, 5))], axis=1)
    y = np.where(rng.random(samples) < 0.2, rng.integers(0, 10, samples), own)
    return torch.from_numpy(mixed / mixed.std(0)).float(), torch.from_numpy(y)


@pytest.mark.slow
def test_sparse_models_beat_the_dense_one_on_noisy_labels_and_fit_them_less() -> None:
    x, y = clusters(3000 + 4000, np.random.default_rng(0))
    subsets = np.arange(3000)[None]
    network = MLP((20, 256, 256, 10))
    recipe = Recipe(
        loss="ce", epochs=60, batch_size=128, lr=0.05, optimizer="sgd", momentum=0.9, weight_decay=5e-4
    )

    def accuracy(params: Any) -> tuple[float, float]:
        right = (logits(network, params, x).argmax(-1) == y).double()
        return float(right[:, :3000].mean()), float(right[:, 3000:].mean())

    fitted, tested = accuracy(train(network, x[:3000], y[:3000], subsets, recipe))
    assert fitted > 0.95
    for name in PRESETS:
        done = train_sparse(network, x[:3000], y[:3000], subsets, recipe, preset(name, 0.1))
        own_fitted, own_tested = accuracy(done.params)
        assert own_tested > max(tested + 0.02, 0.74), (name, own_tested, tested)
        assert own_fitted < fitted - 0.1, (name, own_fitted, fitted)

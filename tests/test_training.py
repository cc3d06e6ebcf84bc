"""Every model of an ensemble against the plain PyTorch loop that trains it alone."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from discreet.initial import initialise
from discreet.losses import LOSSES as LOSS
from discreet.measured import table
from discreet.mlp import MLP
from discreet.model_seeds import Orders, init_seed
from discreet.recipe import Recipe
from discreet.training import Diverged, train
from discreet.training_paths import Batch
from discreet.training_paths.choice import choose, traits
from discreet.training_state import TrainingState

SAMPLES, MODELS, OWN = 60, 5, 22  # 22 samples in batches of 8: the last one is smaller
RECIPES = {
    "adam": Recipe(epochs=3, batch_size=8, lr=1e-2),
    "adam, decay": Recipe(epochs=3, batch_size=8, lr=1e-2, weight_decay=0.1, betas=(0.8, 0.99), eps=1e-6),
    "adamw": Recipe(epochs=3, batch_size=8, lr=1e-2, optimizer="adamw", weight_decay=0.1),
    "nesterov": Recipe(
        epochs=3,
        batch_size=8,
        lr=1e-1,
        optimizer="sgd",
        momentum=0.9,
        nesterov=True,
        weight_decay=0.1,
        milestones=(1, 2),
    ),
    "sgd": Recipe(epochs=3, batch_size=8, lr=1e-1, optimizer="sgd", momentum=0.9, weight_decay=0.1),
}
OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
LOSSES = {"bce": nn.BCEWithLogitsLoss(), "ce": nn.CrossEntropyLoss(), "mse": nn.MSELoss()}


def alone(
    module: nn.Module, x: Tensor, y: Tensor, subset: np.ndarray, recipe: Recipe, seed: int, model: int
) -> dict:
    """The oracle: one model by nn.Module and torch.optim."""
    module = copy.deepcopy(module).train()
    torch.manual_seed(init_seed(seed, model))
    for part in module.modules():
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()
    module.to(x.dtype)
    settings = {"lr": recipe.lr, "weight_decay": recipe.weight_decay}
    if recipe.optimizer == "sgd":
        settings |= {"momentum": recipe.momentum, "nesterov": recipe.nesterov}
    else:
        settings |= {"betas": recipe.betas, "eps": recipe.eps, "foreach": False}
    optimizer = OPTIMIZERS[recipe.optimizer](module.parameters(), **settings)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, list(recipe.milestones), recipe.gamma)
    orders = Orders(seed, [model], len(subset))
    for _ in range(recipe.epochs):
        order = torch.from_numpy(subset[orders.next()[0]])
        for rows in order.split(recipe.batch_size):
            outputs = module(x[rows])
            target = y[rows].to(outputs.dtype)[:, None] if recipe.loss == "bce" else y[rows]
            optimizer.zero_grad()
            LOSSES[str(recipe.loss)](outputs, target).backward()
            optimizer.step()
        schedule.step()
    return {**module.state_dict()}


def data(
    outputs: str, features: int = 6, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor, np.ndarray]:
    rng = np.random.default_rng(5)
    x = torch.from_numpy(rng.normal(size=(SAMPLES, features))).to(dtype)
    y = {
        "bce": torch.from_numpy(rng.integers(0, 2, SAMPLES)),
        "ce": torch.from_numpy(rng.integers(0, 3, SAMPLES)),
        "mse": torch.from_numpy(rng.normal(size=(SAMPLES, 2))).to(dtype),
    }[outputs]
    subsets = np.stack([rng.permutation(SAMPLES)[:OWN] for _ in range(MODELS)])
    return x, y, subsets


def same(one: dict, other: dict, row: int, tolerance: float = 1e-9) -> None:
    assert set(one) == set(other)
    for name, value in one.items():
        torch.testing.assert_close(value, other[name][row], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("path", ["written", "func", "loop"])
@pytest.mark.parametrize("name", RECIPES)
def test_each_model_is_as_trained_alone(name: str, path: str) -> None:
    x, y, subsets = data("bce")
    network = MLP((6, 5, 4, 1), "tanh")
    stack = train(network, x, y, subsets, RECIPES[name], seed=3, path=path)
    for model in range(MODELS):
        same(alone(network.module(), x, y, subsets[model], RECIPES[name], 3, model), stack, model)


@pytest.mark.parametrize("path", ["written", "func", "loop"])
@pytest.mark.parametrize(("loss", "out"), [("bce", 1), ("ce", 3), ("mse", 2)])
@pytest.mark.parametrize(("hidden", "activation"), [((), "relu"), ((7,), "relu"), ((5, 4, 3), "sigmoid")])
def test_every_loss_depth_and_activation(
    loss: str, out: int, hidden: tuple[int, ...], activation: str, path: str
) -> None:
    x, y, subsets = data(loss)
    network, recipe = MLP((6, *hidden, out), activation), replace(RECIPES["adam"], loss=loss, epochs=2)
    stack = train(network, x, y, subsets, recipe, seed=1, path=path)
    for model in (0, MODELS - 1):
        same(alone(network.module(), x, y, subsets[model], recipe, 1, model), stack, model)


@pytest.mark.parametrize("values", ["binary", "counts"])
def test_sparse_rows_train_like_dense_ones(values: str) -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(
        (rng.random((SAMPLES, 512)) < 0.03) * (1 if values == "binary" else rng.integers(1, 4, 512))
    )
    x[3] = 0  # a sample without any entry
    _, y, subsets = data("bce")
    network, recipe = MLP((512, 7, 3, 1)), RECIPES["adam"]
    stack = train(network, x.double(), y, subsets, recipe, seed=2)
    for model in range(MODELS):
        same(alone(network.module(), x.double(), y, subsets[model], recipe, 2, model), stack, model)


def test_in_float32_models_stay_within_rounding() -> None:
    x, y, subsets = data("bce", dtype=torch.float32)
    network, recipe = MLP((6, 32, 1)), replace(RECIPES["adam"], epochs=30, lr=1e-3)
    stack = train(network, x, y, subsets, recipe)
    for model in range(MODELS):
        same(alone(network.module(), x, y, subsets[model], recipe, 0, model), stack, model, 1e-4)


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 6)),
        nn.Conv1d(1, 3, 3),
        nn.BatchNorm1d(3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(12, 1),
    )


def test_a_module_with_running_statistics_takes_the_loop() -> None:
    x, y, subsets = data("bce")
    stack = train(convolutions(), x, y, subsets, RECIPES["adam"], seed=4)
    for model in range(MODELS):
        own = alone(convolutions(), x, y, subsets[model], RECIPES["adam"], 4, model)
        same(own, stack, model)
    assert stack["2.num_batches_tracked"].tolist() == [9] * MODELS


def test_a_plain_module_takes_torch_func() -> None:
    x, y, subsets = data("ce")
    module = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))
    recipe = replace(RECIPES["adamw"], loss="ce")
    stack = train(module, x, y, subsets, recipe, seed=4)
    for model in range(MODELS):
        same(alone(module, x, y, subsets[model], recipe, 4, model), stack, model)


@pytest.mark.parametrize("path", ["written", "func", "loop"])
def test_a_model_does_not_depend_on_its_neighbours(path: str) -> None:
    x, y, subsets = data("bce")
    whole = train(MLP((6, 5, 1)), x, y, subsets, RECIPES["adam"], seed=7, path=path)
    single = train(MLP((6, 5, 1)), x, y, subsets[[3]], RECIPES["adam"], seed=7, model_ids=[3], path=path)
    turned = [4, 2, 0, 1, 3]
    other = train(MLP((6, 5, 1)), x, y, subsets[turned], RECIPES["adam"], seed=7, model_ids=turned, path=path)
    for name, value in whole.items():
        torch.testing.assert_close(single[name][0], value[3], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(other[name], value[turned], rtol=1e-12, atol=1e-12)


def test_models_have_starts_and_orders_of_their_own() -> None:
    assert len({init_seed(seed, model) for seed in range(9) for model in range(9)}) == 81
    first, second = Orders(0, range(4), 50), Orders(1, range(4), 50)
    drawn = [orders.next() for orders in (first, second) for _ in range(3)]
    assert all((np.sort(row) == np.arange(50)).all() for each in drawn for row in each)
    assert len({row.tobytes() for each in drawn for row in each}) == 24


def test_seeds_give_other_models_and_the_same_seed_the_same_bytes() -> None:
    x, y, subsets = data("bce", dtype=torch.float32)
    recipe = RECIPES["adam"]
    one, again = (train(MLP((6, 5, 1)), x, y, subsets, recipe, seed=1, workers=w) for w in (1, 2))
    other = train(MLP((6, 5, 1)), x, y, subsets, recipe, seed=2)
    for name, value in one.items():
        assert value.numpy().tobytes() == again[name].numpy().tobytes()
        assert not torch.equal(value, other[name])


def test_dropout_draws_for_each_model_and_leaves_torch_alone() -> None:
    x, y, subsets = data("bce")
    module = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    torch.manual_seed(11)
    expected = torch.rand(1)
    torch.manual_seed(11)
    whole = train(module, x, y, subsets, RECIPES["adam"], seed=7)
    assert torch.equal(torch.rand(1), expected)
    single = train(module, x, y, subsets[[3]], RECIPES["adam"], seed=7, model_ids=[3])
    without = train(
        nn.Sequential(nn.Linear(6, 8), nn.Identity(), nn.Linear(8, 1)), x, y, subsets, RECIPES["adam"], seed=7
    )
    assert torch.equal(single["0.weight"][0], whole["0.weight"][3])
    assert not torch.allclose(without["0.weight"], whole["0.weight"])
    assert module.training


def test_a_factory_and_a_start_of_ones_own() -> None:
    x, y, subsets = data("bce")

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(6))

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.w

    made = train(Odd, x, y, subsets, RECIPES["adam"])
    torch.manual_seed(init_seed(0, 2))
    start = initialise(Odd, [init_seed(0, model) for model in range(MODELS)], torch.float64)
    assert torch.equal(start["w"][2], Odd().w.detach().double())
    given = train(Odd(), x, y, subsets, RECIPES["adam"], init=start)
    assert torch.equal(made["w"], given["w"])
    with pytest.raises(ValueError, match=r"model: the module \(Odd\) has parameters but no reset_parameters"):
        train(Odd(), x, y, subsets, RECIPES["adam"])


def test_inputs_may_be_whole_numbers() -> None:
    tokens, y = torch.arange(SAMPLES).reshape(-1, 1) % 7, torch.arange(SAMPLES) % 2
    module = nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(3, 1))
    recipe = RECIPES["adam"]
    subsets = data("bce")[2]
    stack = train(module, tokens, y, subsets, recipe)
    for path in ("func", "loop"):
        again = train(module, tokens, y, subsets, recipe, path=path)
        torch.testing.assert_close(again["0.weight"], stack["0.weight"], rtol=1e-5, atol=1e-6)
    assert stack["0.weight"].dtype == torch.float32
    bits = (torch.arange(SAMPLES * 6).reshape(-1, 6) % 5 == 0).to(torch.uint8)
    one, other = (train(MLP((6, 4, 1)), x, y, subsets, recipe) for x in (bits, bits.float()))
    assert torch.equal(one["0.weight"], other["0.weight"])


def test_checkpoints_every_epoch_and_before_the_first() -> None:
    x, y, subsets = data("bce")
    seen: dict[int, dict[str, Tensor]] = {}
    ticks: list[tuple[int, int]] = []
    last = train(
        MLP((6, 5, 1)),
        x,
        y,
        subsets,
        RECIPES["adam"],
        on_checkpoint=seen.__setitem__,
        initial_checkpoint=True,
        progress=lambda done, total: ticks.append((done, total)),
    )
    assert list(seen) == [0, 1, 2, 3]
    start = MLP((6, 5, 1)).init([init_seed(0, model) for model in range(MODELS)], torch.float64)
    assert torch.equal(seen[0]["0.weight"], start["0.weight"])
    short = train(MLP((6, 5, 1)), x, y, subsets, replace(RECIPES["adam"], epochs=2))
    for name, value in last.items():
        assert torch.equal(seen[3][name], value)
        assert torch.equal(seen[2][name], short[name])
    assert ticks[-1] == (15, 15)
    assert sorted(ticks) == ticks


@pytest.mark.parametrize("kind", ["dense", "sparse", "batch norm"])
def test_stopped_and_resumed_training_gives_the_same_bytes(kind: str, tmp_path) -> None:
    x, y, subsets = data("bce", features=512 if kind == "sparse" else 6, dtype=torch.float32)
    x = (
        x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.05)
        if kind == "sparse"
        else x
    )
    model = convolutions() if kind == "batch norm" else MLP((x.shape[1], 5, 1))
    recipe = replace(RECIPES["adamw"], epochs=6, patience=2)
    extra = {"seed": 1, "validation": (x[:20], y[:20])}
    whole = train(model, x, y, subsets, recipe, **extra)

    class Stop(Exception):
        pass

    def interrupt(state: TrainingState) -> None:
        state.save(tmp_path / "state.safetensors")
        if state.epoch == 4:
            raise Stop

    with pytest.raises(Stop):
        train(model, x, y, subsets, recipe, on_state=interrupt, **extra)
    state = TrainingState.load(tmp_path / "state.safetensors")
    assert state.epoch == 4
    resumed = train(model, x, y, subsets, recipe, resume=state, **extra)
    for name, value in whole.items():
        assert value.numpy().tobytes() == resumed[name].numpy().tobytes()
    with pytest.raises(ValueError, match="resume: the state is of another training"):
        train(model, x, y, subsets, replace(recipe, lr=0.5), resume=state, **extra)


def test_a_state_file_that_is_none_is_refused(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"no state at all")
    with pytest.raises(ValueError, match="a: not a training state"):
        TrainingState.load(tmp_path / "a")


def test_early_stop_freezes_a_model_and_leaves_the_others() -> None:
    x, y, subsets = data("bce")
    recipe = replace(RECIPES["adam"], epochs=30, lr=0.05)
    free: dict[int, dict[str, Tensor]] = {}
    train(MLP((6, 16, 1)), x, y, subsets, recipe, on_checkpoint=free.__setitem__)
    held: dict[int, dict[str, Tensor]] = {}
    states: list[TrainingState] = []
    end = train(
        MLP((6, 16, 1)),
        x,
        y,
        subsets,
        replace(recipe, patience=3),
        validation=(x, y),
        on_checkpoint=held.__setitem__,
        on_state=states.append,
    )
    module, losses = MLP((6, 16, 1)).module().double(), np.empty((len(free), MODELS))
    for epoch, stack in free.items():
        for model in range(MODELS):
            module.load_state_dict({name: value[model] for name, value in stack.items()})
            with torch.no_grad():
                losses[epoch - 1, model] = nn.BCEWithLogitsLoss()(module(x)[:, 0], y.double()).item()
    expected = []
    for own in losses.T:
        waits = [epoch - int(np.argmin(own[: epoch + 1])) for epoch in range(len(own))]
        expected.append(next((epoch + 1 for epoch, wait in enumerate(waits) if wait >= 3), 0))
    assert len(set(expected)) > 1  # they stop at different times
    assert states[-1].stopped.tolist() == expected
    for model, epoch in enumerate(expected):
        at = free[epoch or 30]
        for name, value in end.items():
            torch.testing.assert_close(value[model], at[name][model], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("path", ["written", "func", "loop"])
@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_masked_weights_stay_zero_and_the_rest_trains_as_without_them(optimizer: str, path: str) -> None:
    x, y, subsets = data("bce")
    recipe = RECIPES[optimizer]
    network = MLP((6, 5, 1))
    mask = torch.ones(5, 6)
    mask[:, 2] = 0  # no feature 2 …
    stack = train(network, x, y, subsets, recipe, masks={"0.weight": mask}, path=path)
    assert (stack["0.weight"][:, :, 2] == 0).all()
    blank = x.clone()
    blank[:, 2] = 0  # … is the same as a feature 2 that is always zero
    other = train(network, blank, y, subsets, recipe, path=path)
    keep = [0, 1, 3, 4, 5]
    torch.testing.assert_close(
        stack["0.weight"][:, :, keep], other["0.weight"][:, :, keep], rtol=1e-12, atol=1e-12
    )


def test_a_mask_may_change_between_epochs() -> None:
    x, y, subsets = data("bce")
    mask = torch.ones(MODELS, 5, 6)
    nonzero = []

    def close(epoch: int, params: dict[str, Tensor]) -> None:
        nonzero.append(int((params["0.weight"] != 0).sum()))
        mask[0, epoch] = 0

    train(MLP((6, 5, 1)), x, y, subsets, RECIPES["sgd"], masks={"0.weight": mask}, on_checkpoint=close)
    assert nonzero == [150, 144, 138]


def test_a_loss_and_gradients_of_ones_own() -> None:
    x, y, subsets = data("bce")

    def half(outputs: Tensor, y: Tensor) -> Tensor:
        return 0.5 * nn.functional.binary_cross_entropy_with_logits(outputs[..., 0], y, reduction="none")

    recipe = replace(RECIPES["sgd"], weight_decay=0.0)
    plain = train(MLP((6, 5, 1)), x, y.double(), subsets, replace(recipe, lr=0.05))
    for path in ("written", "func", "loop"):
        mine = train(MLP((6, 5, 1)), x, y.double(), subsets, replace(recipe, lr=0.1, loss=half), path=path)
        torch.testing.assert_close(mine["0.weight"], plain["0.weight"], rtol=1e-9, atol=1e-9)

    calls = []

    def zero(params: dict[str, Tensor], batch) -> dict[str, Tensor]:
        calls.append((batch.epoch.number, batch.number, batch.samples.shape[1]))
        return {name: torch.zeros_like(value) for name, value in params.items()}

    still = train(MLP((6, 5, 1)), x, y, subsets, recipe, gradients=zero)
    start = MLP((6, 5, 1)).init([init_seed(0, model) for model in range(MODELS)], torch.float64)
    assert torch.equal(still["0.weight"], start["0.weight"])
    assert set(calls) == {(epoch, step, size) for epoch in (1, 2, 3) for step, size in enumerate((8, 8, 6))}


def test_gradients_may_lie_in_memory_in_any_order() -> None:
    x, y, subsets = data("bce")

    def ones(params: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        return {"0.weight": torch.arange(30.0, dtype=torch.float64).expand(MODELS, 30).reshape(MODELS, 5, 6)}

    def turned(params: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        return {name: value.mT.contiguous().mT for name, value in ones(params, batch).items()}

    one, other = (
        train(MLP((6, 5, 1)), x, y, subsets, RECIPES["adam"], gradients=each) for each in (ones, turned)
    )
    assert torch.equal(one["0.weight"], other["0.weight"])


def test_the_path_follows_the_architecture() -> None:
    x = torch.randn(4, 6)

    def chosen(model: MLP | nn.Module, batch_size: int = 8) -> str:
        found = traits(model, x)
        return choose(model, found, x, torch.ones(len(x)), LOSS["bce"], batch_size).name

    plain = nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 3, 3), nn.Flatten(), nn.Linear(12, 1))
    assert traits(plain, x).convolved == 3 * 3 * 4
    turned = nn.Sequential(
        nn.Unflatten(1, (3, 2)), nn.ConvTranspose1d(3, 5, 4), nn.Flatten(), nn.Linear(25, 1)
    )
    assert traits(turned, x).convolved == 3 * 5 * 4 * 2
    bound = table()["convolutions"]["products"]
    assert chosen(plain, batch_size=bound // 36) == "func"
    assert chosen(plain, batch_size=bound // 36 + 1) == "loop"
    assert chosen(convolutions()) == "loop"
    assert chosen(nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 1))) == "written"
    assert chosen(nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 1))) == "func"
    assert chosen(nn.Sequential(nn.Linear(6, 5), nn.Dropout(), nn.Linear(5, 1))) == "loop"


def test_divergence_names_model_and_epoch() -> None:
    x, y, subsets = data("mse")
    with pytest.raises(Diverged, match=r"model \d: .* is not finite after epoch \d+; lower lr"):
        train(MLP((6, 5, 2)), x, y, subsets, replace(RECIPES["sgd"], loss="mse", lr=1e6, epochs=50))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": torch.full((SAMPLES,), 3)}, r"y: expected 0 and 1, got 3 at position 0 \(60 such labels\)"),
        ({"y": torch.ones(SAMPLES - 1)}, r"x, y: expected the same number of samples"),
        ({"x": torch.full((SAMPLES, 6), torch.nan)}, r"x: expected finite numbers, got others in sample 0"),
        ({"x": torch.zeros(SAMPLES, 5)}, r"x: expected shape \[sample, 6\], got \[60, 5\]"),
        (
            {"subsets": np.array([[0, 60]])},
            r"subsets: expected positions from 0 to 59, got 60 at model 0, place 1",
        ),
        (
            {"subsets": np.zeros((0, 3), int)},
            r"subsets: expected shape \[model, n\], none empty, got \[0, 3\]",
        ),
        ({"model_ids": [1, 1, 2, 3, 4]}, r"model_ids: expected 5 different numbers"),
        ({"path": "fast"}, r"path: expected one of auto, written, func, loop, got 'fast'"),
        ({"path": "written", "model": convolutions()}, r"path: written is for multilayer perceptrons"),
        (
            {"path": "func", "model": convolutions()},
            r"path: func cannot train a model that changes its running",
        ),
        (
            {"masks": {"1.weight": torch.ones(1)}},
            r"masks: the model has no '1.weight'; it has 0.weight, 0.bias",
        ),
        (
            {"masks": {"0.bias": torch.ones(4)}},
            r"masks: expected shape \[5, 5\] or \[5\] for '0.bias', got \[4\]",
        ),
        ({"masks": {"0.bias": torch.full((5,), 0.5)}}, r"masks: expected only 0 and 1 in '0.bias'"),
        ({"init": MLP((6, 5, 1)).init([1])}, r"init: expected 5 models in '0.weight', got shape \[1, 5, 6\]"),
        ({"workers": 0}, r"workers: expected at least 1, got 0"),
        ({"recipe": replace(RECIPES["adam"], patience=2)}, r"validation: patience needs validation data"),
        ({"validation": (torch.zeros(2, 6), torch.ones(2))}, r"validation: validation data need a patience"),
        ({"model": MLP((6, 3))}, r"loss: bce expects a model with one output, got 3"),
    ],
)
def test_arguments_that_do_not_fit_are_named(change: dict, message: str) -> None:
    x, y, subsets = data("bce")
    arguments = {
        "model": MLP((6, 5, 1)),
        "x": x,
        "y": y,
        "subsets": subsets,
        "recipe": RECIPES["adam"],
    } | change
    with pytest.raises(ValueError, match=message):
        train(**arguments)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("loss", "hinge", "loss: expected one of bce, ce, mse or a function, got 'hinge'"),
        ("optimizer", "lion", "optimizer: expected adam, adamw or sgd, got 'lion'"),
        ("lr", 0.0, "lr: expected a positive number, got 0.0"),
        ("lr", float("nan"), "lr: expected a positive number, got nan"),
        ("epochs", 0, "epochs: expected at least 1, got 0"),
        ("batch_size", 0, "batch_size: expected at least 1, got 0"),
        ("patience", 0, "patience: expected at least 1, got 0"),
        ("momentum", 1.0, "momentum: expected 0 up to below 1, got 1.0"),
        ("nesterov", True, "nesterov: expected sgd with momentum above 0, got adam with 0.0"),
        ("gamma", 0.0, "gamma: expected a positive number, got 0.0"),
        ("milestones", (3, 2), r"milestones: expected rising epochs from 1, got \(3, 2\)"),
        ("milestones", (0,), r"milestones: expected rising epochs from 1, got \(0,\)"),
        ("betas", (0.9, 1.0), "betas: expected two numbers from 0 to below 1"),
        ("weight_decay", -1.0, "weight_decay: expected 0 or more, got -1.0"),
    ],
)
def test_a_recipe_out_of_range_is_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recipe(**{field: value})


def test_between_epochs_a_state_may_be_revised_and_resumed_to_the_same_bytes(tmp_path) -> None:
    x, y, subsets = data("bce")
    recipe = replace(RECIPES["adam"], epochs=4)
    mask = torch.ones(MODELS, 5, 6)
    seen: list[int] = []

    def close(state: TrainingState) -> TrainingState:
        seen.append(state.epoch)
        if state.epoch != 2:
            return state
        narrow = state.masks["0.weight"].clone()
        narrow[:, :, 0] = 0
        return replace(state, masks={"0.weight": narrow})

    states: list[TrainingState] = []
    whole = train(
        MLP((6, 5, 1)),
        x,
        y,
        subsets,
        recipe,
        masks={"0.weight": mask},
        revise=close,
        on_state=states.append,
    )
    assert seen == [1, 2, 3]
    assert [int((state.params["0.weight"] == 0).sum()) for state in states] == [0, 0, 25, 25]
    for epoch in (1, 2, 3):
        state = TrainingState.load(states[epoch - 1].save(tmp_path / f"{epoch}.safetensors"))
        again = train(MLP((6, 5, 1)), x, y, subsets, recipe, revise=close, resume=state)
        for name, value in whole.items():
            assert torch.equal(value, again[name]), (epoch, name)

"""Loss and margin against one-by-one evaluation, exact figures and the other ways to write the same model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from discreet.measure import inputs, logits, measure_stack, signals, stack_of
from discreet.mlp import MLP
from discreet.sparse_inputs import SparseRows, density


def stacked(modules: list[nn.Module]) -> dict[str, Tensor]:
    stacks = [stack_of(module) for module in modules]
    return {name: torch.cat([stack[name] for stack in stacks]) for name in stacks[0]}


def networks(
    widths: tuple[int, ...], activation: str = "relu", models: int = 3
) -> tuple[MLP, list[nn.Module]]:
    torch.manual_seed(0)
    network = MLP(widths, activation)
    return network, [network.module() for _ in range(models)]


@pytest.mark.parametrize("widths", [(6, 1), (6, 5, 1), (6, 5, 4, 3), (6, 700, 2)])
@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_are_those_of_each_module(
    widths: tuple[int, ...], activation: str, dtype: torch.dtype
) -> None:
    network, modules = networks(widths, activation)
    modules = [module.to(dtype) for module in modules]
    x = torch.randn(1300, 6, dtype=dtype)
    found = logits(network, stacked(modules), x)
    tolerance = 1e-5 if dtype == torch.float32 else 1e-13
    for model, module in enumerate(modules):
        with torch.no_grad():
            expected = module(x)
        got = found[model] if widths[-1] > 1 else found[model][:, None]
        torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def odd_modules() -> dict[str, list[nn.Module]]:
    torch.manual_seed(1)
    made: dict[str, list[nn.Module]] = {"batch norm and dropout": [], "convolution": [], "layer norm": []}
    for _ in range(3):
        noisy = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.ReLU(), nn.Linear(5, 2))
        noisy(torch.randn(40, 6))  # running statistics of its own
        made["batch norm and dropout"].append(noisy)
        made["convolution"].append(
            nn.Sequential(nn.Unflatten(1, (1, 6)), nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Linear(8, 1))
        )
        made["layer norm"].append(nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 3)))
    return made


@pytest.mark.parametrize("name", odd_modules())
def test_modules_are_evaluated_in_eval_mode_and_left_as_they_were(name: str) -> None:
    modules = odd_modules()[name]
    x = torch.randn(300, 6)
    given = modules[0].train()
    given[0].eval()  # a flag that differs from its parent's
    flags = [part.training for part in given.modules()]
    before = {key: value.clone() for key, value in given.state_dict().items()}
    found = logits(given, stacked(modules), x)
    assert [part.training for part in given.modules()] == flags
    assert all(torch.equal(before[key], value) for key, value in given.state_dict().items())
    for model, module in enumerate(modules):
        with torch.no_grad():
            expected = module.eval()(x)
        got = found[model] if found.ndim == 3 else found[model][:, None]
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [1, 64])
@pytest.mark.parametrize("name", [*odd_modules(), "perceptron", "sparse"])
def test_a_batch_of_one_is_as_a_batch_of_many_and_threads_change_no_bit(name: str, width: int) -> None:
    if name in ("perceptron", "sparse"):
        model, modules = networks((512, 33, 1))
        x = torch.randn(64, 512) if name == "perceptron" else (torch.rand(64, 512) < 0.03).float()
    else:
        modules = odd_modules()[name]
        model, x = modules[0], torch.randn(64, 6)
    whole = logits(model, stacked(modules), x, workers=1)
    assert torch.equal(whole, logits(model, stacked(modules), x, workers=3))
    pieces = [logits(model, stacked(modules), part) for part in x.split(width)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-5, atol=1e-6)


def test_sparse_rows_give_the_logits_of_dense_ones() -> None:
    network, modules = networks((600, 9, 1))
    x = (torch.rand(50, 600) < 0.02) * torch.randint(1, 4, (50, 600))
    x[7] = 0
    sparse = inputs(network, x)
    assert isinstance(sparse, SparseRows)
    found = logits(network, stacked(modules), sparse)
    expected = torch.stack([module(x.float())[:, 0].detach() for module in modules])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    part = logits(network, stacked(modules), sparse.part(10, 20))
    torch.testing.assert_close(found[:, 10:20], part, rtol=1e-5, atol=1e-6)
    assert not isinstance(inputs(network, torch.ones(5, 600)), SparseRows)
    taken = sparse.take(np.array([7, 3, 3]))
    matrix = torch.randn(600, 4)
    torch.testing.assert_close(taken.times(matrix), x[[7, 3, 3]].float() @ matrix, rtol=1e-5, atol=1e-5)
    assert sparse.take(np.array([7])).times(matrix).tolist() == [[0.0] * 4]
    assert density(x) == len(sparse.columns) / x.numel()


def naive_loss(logit: float, label: int) -> float:
    """-log of the label's probability, in exact terms of the logit."""
    signed = -logit if label else logit
    return max(signed, 0.0) + math.log1p(math.exp(-abs(signed)))


@given(st.lists(st.tuples(st.floats(-700, 700), st.integers(0, 1)), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_one_logit_gives_exact_losses_and_the_figures_of_two_logits(pairs: list[tuple[float, int]]) -> None:
    z = torch.tensor([logit for logit, _ in pairs], dtype=torch.float64)
    y = torch.tensor([label for _, label in pairs])
    one = signals(z[:, None], y, "bce")
    two = signals(torch.stack([torch.zeros_like(z), z], dim=1), y, "ce")
    expected = [naive_loss(logit, label) for logit, label in pairs]
    np.testing.assert_allclose(one["loss"], expected, rtol=1e-14, atol=0)
    np.testing.assert_allclose(two["loss"], expected, rtol=1e-9, atol=1e-14)
    assert torch.equal(one["margin"], two["margin"])
    assert one["margin"].tolist() == [logit if label else -logit for logit, label in pairs]


def test_saturated_float32_logits_keep_their_losses() -> None:
    z = torch.tensor([[-100.0], [-20.0], [20.0], [100.0], [-3e38]], dtype=torch.float32)
    found = signals(z, torch.tensor([1, 1, 1, 1, 1]), "bce")["loss"]
    np.testing.assert_allclose(
        found[:4], [naive_loss(z, 1) for z in (-100.0, -20.0, 20.0, 100.0)], rtol=1e-14
    )
    assert torch.isfinite(found).all()
    assert (found > 0).all()


def test_classes_and_targets_against_plain_sums() -> None:
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(2, 7, 4)) * 30, rng.integers(0, 4, 7)
    found = signals(torch.from_numpy(z), torch.from_numpy(y), "ce")
    for model in range(2):
        for i, label in enumerate(y):
            row = z[model, i]
            loss = row.max() + math.log(np.exp(row - row.max()).sum()) - row[label]
            assert found["loss"][model, i] == pytest.approx(loss, rel=1e-12, abs=1e-12)
            assert found["margin"][model, i] == row[label] - np.delete(row, label).max()
    target = rng.normal(size=(7, 4))
    squares = signals(torch.from_numpy(z), torch.from_numpy(target), "mse")
    assert set(squares) == {"loss"}
    np.testing.assert_allclose(squares["loss"], ((z - target) ** 2).mean(-1), rtol=1e-13)


@pytest.mark.parametrize("models", [1, 3])
def test_all_variants_of_all_models_stand_where_they_belong(models: int) -> None:
    network, modules = networks((6, 300, 1), models=models)
    x, y = torch.randn(700, 6), torch.arange(700) % 2
    full = stacked(modules)
    variants = {
        f"{scale}": {name: value * scale for name, value in full.items()}
        for scale in (1.0, 0.5, -1.0, 3.0, 0.1)
    }
    found = measure_stack(network, variants, x, y.numpy(), "bce")
    assert found["loss"].shape == (models, 5, 700)
    for v, stack in enumerate(variants.values()):
        own = signals(logits(network, stack, x)[..., None], y, "bce")
        for name in ("loss", "margin"):
            np.testing.assert_allclose(found[name][:, v], own[name], rtol=2e-5, atol=2e-5)
    small = measure_stack(network, variants, x, y, "bce", dtype=np.float32)
    assert small["loss"].dtype == np.float32
    np.testing.assert_allclose(small["loss"], found["loss"], rtol=1e-6)


def test_outputs_that_are_not_finite_are_found_in_whichever_group() -> None:
    network, modules = networks((512, 5, 1))
    full, x = stacked(modules), (torch.rand(8, 512) < 0.03).float()  # sparse: every model is a group
    broken = full | {"0.bias": full["0.bias"].index_fill(0, torch.tensor([1]), torch.inf)}
    with pytest.raises(
        ValueError, match=r"variants: outputs of 'new', model 1, are not finite in \d of 8 samples"
    ):
        measure_stack(network, {"full": full, "new": broken}, x, torch.ones(8), workers=1)


def test_what_does_not_fit_is_named() -> None:
    network, modules = networks((6, 5, 1))
    full, x, y = stacked(modules), torch.randn(8, 6), torch.zeros(8)

    def measure(params: dict | None = None, x: Tensor = x, y: Tensor = y, task: str = "bce") -> None:
        measure_stack(network, {"full": full, "new": params or full}, x, y, task)

    broken = {name: value.clone() for name, value in full.items()}
    broken["2.bias"][1] = torch.nan
    with pytest.raises(
        ValueError, match=r"variants: outputs of 'new', model 1, are not finite in 8 of 8 samples"
    ):
        measure(broken)
    with pytest.raises(
        ValueError, match=r"params: '2.bias' is missing; there are 0.weight, 0.bias, 2.weight"
    ):
        measure({name: value for name, value in full.items() if name != "2.bias"})
    with pytest.raises(ValueError, match=r"params: the model has no 'module.0.weight'"):
        measure(full | {"module.0.weight": full["0.weight"]})
    with pytest.raises(ValueError, match=r"expected shape \[model, 1\] for '2.bias', got \[3, 2\]"):
        measure(full | {"2.bias": torch.zeros(3, 2)})
    with pytest.raises(
        ValueError, match=r"params: expected one number of models in all tensors, at least 1, got \[2, 3\]"
    ):
        measure({name: value[:2] for name, value in full.items()})
    with pytest.raises(ValueError, match=r"x: expected shape \[sample, 6\], got \[8, 5\]"):
        measure(x=torch.randn(8, 5))
    with pytest.raises(ValueError, match="x: expected at least one sample, got none"):
        measure(x=torch.randn(0, 6))
    with pytest.raises(ValueError, match="y: expected one label for each of 8 samples, got 7"):
        measure(y=y[:7])
    with pytest.raises(ValueError, match=r"y: expected 0 and 1, got 7 at position 0 \(8 such labels\)"):
        measure(y=y + 7)
    with pytest.raises(ValueError, match="loss: ce expects a model with two or more outputs, got 1"):
        measure(task="ce")
    with pytest.raises(ValueError, match="task: expected one of bce, ce, mse, got 'hinge'"):
        measure(task="hinge")

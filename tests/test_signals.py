"""Signals from logits against closed forms, exact arithmetic and autograd; queries; penultimate activations."""

from __future__ import annotations

from decimal import Decimal, getcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from discreet.hidden import penultimate
from discreet.measure import measure_stack, stack_of
from discreet.mlp import MLP
from discreet.queries import IDENTITY, MIRRORED, STRONG, mirror, shift
from discreet.signals import CLASSIFICATION, axes_of, signals

ALL = ("loss", *CLASSIFICATION)


def of(logits: list[float], y: int) -> dict[str, float]:
    found = signals(torch.tensor([logits], dtype=torch.float64), torch.tensor([y]), "ce", ALL)
    return {name: values.item() for name, values in found.items()}


@pytest.mark.parametrize(
    ("logits", "y", "confidence", "margin"),
    [
        ([5.0, *[0.0] * 9], 0, 2.8028, 5.0),
        ([20.0, *[0.0] * 9], 0, 17.8028, 20.0),
        ([1000.0, *[0.0] * 9], 0, 997.8028, 1000.0),
        ([0.0, 200.0, *[0.0] * 8], 0, -200.0, -200.0),
        ([2.0, 2.0], 0, 0.0, 0.0),
        ([3.0, 1.0, 1.0], 0, 1.3069, 2.0),
        ([3.0, 1.0, 1.0], 1, -2.1269, -2.0),
    ],
)
def test_confidence_and_margin(logits: list[float], y: int, confidence: float, margin: float) -> None:
    found = of(logits, y)
    assert found["confidence"] == pytest.approx(confidence, abs=5e-5)
    assert found["margin"] == margin
    assert found["correct"] == (margin > 0)


def exact(logits: list[float], y: int) -> dict[str, float]:
    """The definitions, term by term, with 60 digits."""
    getcontext().prec = 60
    weights = [Decimal(z).exp() for z in logits]
    total = sum(weights)
    p = [w / total for w in weights]
    rest = [sum(w for j, w in enumerate(weights) if j != k) / total for k in range(len(p))]
    return {
        "loss": float(-p[y].ln()),
        "confidence": float(p[y].ln() - rest[y].ln()),
        "entropy": float(-sum(q * q.ln() for q in p)),
        "modified_entropy": float(
            -rest[y] * p[y].ln() - sum(p[k] * rest[k].ln() for k in range(len(p)) if k != y)
        ),
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-60, 60), min_size=2, max_size=6), st.integers(0, 5))
def test_signals_are_the_definitions(logits: list[float], label: int) -> None:
    y = label % len(logits)
    found = of(logits, y)
    for name, value in exact(logits, y).items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    shifted = of([z + 1e6 for z in logits], y)
    assert shifted["confidence"] == pytest.approx(found["confidence"], abs=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.floats(-700, 700), st.integers(0, 1))
def test_one_logit_is_two_logits(z: float, y: int) -> None:
    one = signals(torch.tensor([[z]], dtype=torch.float64), torch.tensor([y]), "bce", ALL)
    two = signals(torch.tensor([[0.0, z]], dtype=torch.float64), torch.tensor([y]), "ce", ALL)
    for name in ALL:
        assert one[name].item() == pytest.approx(two[name].item(), rel=1e-12, abs=1e-300), name
    assert one["confidence"].item() == one["margin"].item() == (z if y else -z)


def test_huge_logits_stay_finite() -> None:
    for y in (0, 1, 2):
        assert all(np.isfinite(value) for value in of([1e6, -1e6, 0.0], y).values())


def test_errors_of_a_regression() -> None:
    outputs, y = torch.tensor([[1.0, 3.0], [0.0, 0.0]]), torch.tensor([[2.0, 1.0], [0.0, -4.0]])
    found = signals(outputs, y, "mse", ["loss", "absolute_error"])
    assert found["loss"].tolist() == [2.5, 8.0]
    assert found["absolute_error"].tolist() == [1.5, 2.0]


def test_unknown_names() -> None:
    outputs, y = torch.zeros(2, 2), torch.zeros(2)
    with pytest.raises(
        ValueError, match=r"which: expected names among loss, absolute_error for mse, got 'margin'"
    ):
        signals(outputs, y, "mse", ["margin"])
    with pytest.raises(ValueError, match="got the one text 'loss'"):
        signals(outputs, y.long(), "ce", "loss")
    network = MLP((3, 1))
    with pytest.raises(
        ValueError, match=r"which: expected names among .*outputs, hidden for bce, got 'entropi'"
    ):
        measure_stack(network, {"full": network.init([0])}, torch.zeros(2, 3), y, "bce", which=["entropi"])
    with pytest.raises(
        ValueError, match=r"y: expected numbers, got text \('ham', 'spam'\); number the classes"
    ):
        measure_stack(
            network, {"full": network.init([0])}, torch.zeros(2, 3), np.array(["spam", "ham"]), "bce"
        )


def modules() -> dict[str, nn.Module]:
    torch.manual_seed(0)
    residual = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.LayerNorm(6), nn.Linear(6, 3))
    image = nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)
    )
    return {
        "perceptron": MLP((6, 5, 3)).module(),
        "deep": MLP((6, 5, 4, 1), "tanh").module(),
        "linear": MLP((6, 2)).module(),
        "layer norm": residual,
        "convolution": image,
    }


@pytest.mark.parametrize("name", modules())
def test_outputs_and_hidden_are_what_the_module_computes(name: str) -> None:
    module = modules()[name]
    x, y = torch.randn(300, 6), torch.zeros(300, dtype=torch.long)
    stack = {key: torch.cat([value, value + 0.1]) for key, value in stack_of(module).items()}
    task = "bce" if name == "deep" else "ce"
    found = measure_stack(module, {"a": stack, "b": stack}, x, y, task, which=["hidden", "outputs", "loss"])
    assert list(found) == ["hidden", "outputs", "loss"]
    assert axes_of("hidden") == (
        "row",
        "sample",
        "unit",
    )  # a record may hold features of the samples beside it
    assert found["loss"].shape == (2, 2, 300)
    for model in (0, 1):
        again = modules()[name]
        again.load_state_dict({key: value[model] for key, value in stack.items()})
        with torch.no_grad():
            before = again.eval()[:-1](x)
            np.testing.assert_allclose(found["hidden"][model, 1], before, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(found["outputs"][model, 0], again(x), rtol=1e-5, atol=1e-6)


def test_the_last_layers_gradient_is_known_from_outputs_and_hidden() -> None:
    module = MLP((6, 5, 3)).module()
    x, y = torch.randn(4, 6), torch.tensor([0, 2, 1, 1])
    found = measure_stack(module, {"full": stack_of(module)}, x, y, "ce", which=["outputs", "hidden"])
    outputs, hidden = (torch.from_numpy(found[name][0, 0]) for name in ("outputs", "hidden"))
    for sample in range(4):
        module.zero_grad()
        nn.functional.cross_entropy(module(x[[sample]]), y[[sample]]).backward()
        slope = outputs[sample].softmax(-1)
        slope[y[sample]] -= 1
        weight = module[-1].weight.grad
        assert weight is not None
        torch.testing.assert_close(torch.outer(slope, hidden[sample]).float(), weight, rtol=1e-4, atol=1e-6)


def test_hidden_of_sparse_rows_and_without_a_linear_layer() -> None:
    network = MLP((600, 4, 1))
    x = (torch.rand(40, 600) < 0.02).float()
    params = network.init([0, 1])
    expected = (x @ params["0.weight"].mT + params["0.bias"][:, None]).relu()
    torch.testing.assert_close(penultimate(network, params, x), expected, rtol=1e-5, atol=1e-6)
    flat = MLP((600, 1))
    assert torch.equal(penultimate(flat, flat.init([0]), x)[0], x)
    with pytest.raises(ValueError, match=r"model: ReLU has no nn.Linear"):
        penultimate(nn.ReLU(), {"w": torch.zeros(1, 2)}, x)


def test_queries() -> None:
    x = torch.arange(12.0).reshape(1, 1, 3, 4)
    assert torch.equal(mirror(mirror(x)), x)
    moved = shift(1, -2)(x)[0, 0]
    assert moved.tolist() == [[0, 0, 0, 0], [2, 3, 0, 0], [6, 7, 0, 0]]
    assert len(STRONG) == 18
    assert len({each(x).numpy().tobytes() for each in STRONG.values()}) == 18
    with pytest.raises(ValueError, match=r"x: expected images \[sample, channel, height, width\]"):
        mirror(torch.zeros(3, 4))


def test_measured_queries_are_the_transformed_samples() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
    x, y = torch.randn(7, 1, 3, 4), torch.zeros(7, dtype=torch.long)
    stack = {"full": stack_of(module)}
    found = measure_stack(module, stack, x, y, "ce", queries=MIRRORED)
    assert found["loss"].shape == (1, 1, 2, 7)
    plain = measure_stack(module, stack, x, y, "ce")
    turned = measure_stack(module, stack, x.flip(-1), y, "ce")
    assert np.array_equal(found["loss"][:, :, 0], plain["loss"])
    assert np.array_equal(found["margin"][:, :, 1], turned["margin"])
    assert np.array_equal(
        measure_stack(module, stack, x, y, "ce", queries=IDENTITY)["loss"][:, :, 0], plain["loss"]
    )
    assert axes_of("loss", query=True) == ("row", "query", "sample")
    with pytest.raises(ValueError, match="queries: expected at least one"):
        measure_stack(module, stack, x, y, "ce", queries={})

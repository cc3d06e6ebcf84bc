"""Units that do nothing are removed, and the function stays."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from discreet.artefacts import ArtefactError, narrow
from discreet.mlp import ACTIVATIONS, MLP
from discreet.sparse import close, counts, draw_masks


def outputs(network: MLP, state: dict[str, Tensor], x: Tensor) -> Tensor:
    module = network.module()
    module.load_state_dict(state)
    return module(x).detach()


@pytest.mark.parametrize("activation", list(ACTIVATIONS))
@pytest.mark.parametrize("density", [0.01, 0.03, 0.2])
def test_outputs_stay(activation: str, density: float) -> None:
    network = MLP((30, 100, 80, 5), activation)
    stack = network.init([0])
    shapes = {name: tuple(stack[name].shape[1:]) for name, _ in network.layers}
    masks = draw_masks(shapes, counts(shapes, density), [0])
    state = {name: value[0] for name, value in close(stack, masks).items()}
    own = {name: mask[0] for name, mask in masks.items()}
    left = narrow(network, state, own)
    x = torch.randn(50, 30)
    torch.testing.assert_close(
        outputs(left.network, dict(left.state), x), outputs(network, state, x), rtol=1e-5, atol=1e-6
    )
    for layer in range(2):
        assert (
            left.network.widths[layer + 1]
            == network.widths[layer + 1] - left.constant[layer] - left.unused[layer]
        )
    if density < 0.1:
        assert left.removed > 0
        for mask in list(left.masks.values())[:-1]:
            assert bool(mask.any(1).all())
        for mask in list(left.masks.values())[1:]:
            assert bool(mask.any(0).all())
    assert sum(int(mask.sum()) for mask in left.masks.values()) <= sum(
        int(mask.sum()) for mask in own.values()
    )
    assert all(
        bool((left.state[name] != 0).logical_or(mask).eq(mask).all()) for name, mask in left.masks.items()
    )


def test_each_kind_of_unit_is_counted() -> None:
    network = MLP((3, 4, 2))
    state = {name: value[0] for name, value in network.init([0]).items()}
    state["0.weight"][0] = 0  # a constant
    state["2.weight"][:, 3] = 0  # without use
    left = narrow(network.module(), state)
    assert (left.constant, left.unused, left.network.widths) == ((1,), (1,), (3, 2, 2))
    x = torch.randn(9, 3)
    torch.testing.assert_close(outputs(left.network, dict(left.state), x), outputs(network, state, x))


def test_one_unit_stays_where_all_do_nothing() -> None:
    network = MLP((3, 4, 2))
    state = {name: value[0] for name, value in network.init([0]).items()}
    state["0.weight"].zero_()
    left = narrow(network, state)
    assert left.network.widths == (3, 1, 2)
    x = torch.randn(9, 3)
    torch.testing.assert_close(outputs(left.network, dict(left.state), x), outputs(network, state, x))


def test_other_networks_are_refused() -> None:
    module = nn.Sequential(nn.Conv1d(1, 1, 3))
    with pytest.raises(
        ArtefactError, match=r"model: expected a multilayer perceptron .* got another network"
    ):
        narrow(module, module.state_dict())

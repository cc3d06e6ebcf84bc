"""What every allocation, prune and grow rule must do, found by file name: a new one needs no edit here."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from discreet import _find
from discreet.model_seeds import stream
from discreet.sparse import allocations, counts, draw_masks, grow_rules, prune_rules, rewire

SHAPES = {"a": (7, 6), "b": (4, 3, 2, 2), "c": (2, 9)}
MODELS = [3, 0, 8]
every_allocation = pytest.mark.parametrize("name", allocations.names())
every_prune = pytest.mark.parametrize("name", prune_rules.names())
every_grow = pytest.mark.parametrize("name", grow_rules.names())
every_pair = pytest.mark.parametrize(
    ("prune", "grow"), list(product(prune_rules.names(), grow_rules.names()))
)


def case(
    density: float = 0.3, dtype: torch.dtype = torch.float32, ties: bool = False
) -> tuple[Any, Any, Any, Any]:
    """Masks, weights, gradients and counts of three models."""
    kept = counts(SHAPES, density)
    masks = draw_masks(SHAPES, kept, MODELS)
    generator = torch.Generator().manual_seed(1)
    stacks: list[dict[str, Tensor]] = []
    for _ in range(2):
        stack = {
            name: torch.randn(3, *shape, generator=generator).to(dtype) for name, shape in SHAPES.items()
        }
        stacks.append({name: value.round() if ties else value for name, value in stack.items()})
    params = {name: value * masks[name] for name, value in stacks[0].items()}
    return masks, params, stacks[1], kept


def exchange(prune: Any, grow: Any, rate: float = 0.4, **more: Any) -> Any:
    masks, params, slopes, _ = more.pop("case", None) or case()
    rules = prune_rules.parse(prune), grow_rules.parse(grow)
    settings = {"models": MODELS, "gradients": slopes, "time": 2} | more
    return rewire(masks, params, *rules, rate, **settings)


@pytest.mark.parametrize(
    ("room", "name"), [(r, n) for r in (allocations, prune_rules, grow_rules) for n in r.names()]
)
def test_the_spec_round_trips_and_the_file_says_what_it_is(room: Any, name: str) -> None:
    rule = room.parse(name)
    assert _find.parse(_find.spec(rule, room.__name__), room.__name__) == rule
    assert hash(rule) == hash(room.parse(name))
    assert len(_find.about(room.__name__)[name]) > 10


@every_allocation
@pytest.mark.parametrize("density", [0.05, 0.3, 0.95])
def test_densities_are_possible_and_sum_to_the_target(name: str, density: float) -> None:
    found = allocations.parse(name).densities(SHAPES, density)
    assert list(found) == list(SHAPES)
    assert all(0 < each <= 1 for each in found.values())
    weights = {each: math.prod(shape) for each, shape in SHAPES.items()}
    kept = sum(found[each] * weights[each] for each in SHAPES)
    assert kept == pytest.approx(density * sum(weights.values()), rel=1e-9)
    back = allocations.parse(name).densities(dict(reversed(SHAPES.items())), density)
    assert back == pytest.approx(found, rel=1e-9)


@every_prune
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
def test_worth_leaves_weights_alone_and_can_be_ordered(name: str, dtype: torch.dtype) -> None:
    weight = torch.tensor([0.5, -0.1, 0.0, 2.0, 0.0, -0.1], dtype=dtype)
    active = torch.tensor([True, True, False, True, True, True])
    before = weight.clone(), active.clone()
    worth = prune_rules.parse(name).worth(weight, active)
    assert worth.shape == weight.shape
    assert not worth[active].isnan().any()
    assert torch.equal(weight, before[0])
    assert torch.equal(active, before[1])
    assert torch.equal(worth, prune_rules.parse(name).worth(weight, active))
    other = weight.clone()
    other[2] = 0  # what is not in use says nothing
    assert torch.equal(worth[active], prune_rules.parse(name).worth(other, active)[active])


@every_grow
def test_growth_leaves_gradients_alone_and_repeats_for_the_same_draw(name: str) -> None:
    rule = grow_rules.parse(name)
    closed, slope = torch.tensor([True, False, True, True]), torch.tensor([0.1, 0.2, -0.3, 0.0])
    before = closed.clone(), slope.clone()
    first, again = (rule.worth(closed, slope, stream(0, 1, 3)) for _ in range(2))
    assert first.shape == closed.shape
    assert not first.isnan().any()
    assert torch.equal(first, again)
    assert torch.equal(closed, before[0])
    assert torch.equal(slope, before[1])
    if not rule.needs_gradient:
        assert torch.equal(first, rule.worth(closed, None, stream(0, 1, 3)))


@every_pair
@pytest.mark.parametrize("regrow", [False, True])
@pytest.mark.parametrize("density", [0.06, 0.3, 0.9])
def test_as_many_are_dropped_as_grow_and_only_where_they_may(
    prune: str, grow: str, density: float, regrow: bool
) -> None:
    for rate, ties in product((0.0, 0.25, 1.0), (False, True)):
        given = case(density, ties=ties)
        masks, params, _, kept = given
        before = {
            name: value.clone()
            for name, value in (*masks.items(), *((f"{n}w", v) for n, v in params.items()))
        }
        done = exchange(prune, grow, rate, regrow=regrow, case=given)
        for name, old in masks.items():
            new, grown = done.masks[name], done.grown[name]
            assert new.flatten(1).sum(1).tolist() == [kept[name]] * 3
            dropped = old & (~new | grown)
            assert dropped.flatten(1).sum(1).tolist() == grown.flatten(1).sum(1).tolist()
            assert done.exchanged[name].tolist() == grown.flatten(1).sum(1).tolist()
            assert int(done.exchanged[name].max()) <= math.floor(rate * kept[name])
            assert not (grown & ~new).any()
            assert regrow or not (grown & old).any()
            assert torch.equal(old, before[name])
            assert torch.equal(params[name], before[f"{name}w"])
            if rate == 0:
                assert torch.equal(old, new)


@every_pair
def test_many_models_at_once_are_as_each_alone(prune: str, grow: str) -> None:
    masks, params, slopes, _ = case()
    together = exchange(prune, grow)
    for row, model in enumerate(MODELS):
        one = tuple(
            {name: value[row : row + 1] for name, value in stack.items()} for stack in (masks, params, slopes)
        )
        alone = exchange(prune, grow, case=(*one, None), models=[model])
        for name in masks:
            assert torch.equal(alone.masks[name][0], together.masks[name][row])


@every_pair
def test_seeds_and_times_matter_to_chance_alone(prune: str, grow: str) -> None:
    one, again = exchange(prune, grow, seed=5), exchange(prune, grow, seed=5)
    moved = exchange(prune, grow, seed=6), exchange(prune, grow, seed=5, time=3)
    for name in SHAPES:
        assert torch.equal(one.masks[name], again.masks[name])
    changed = [any(not torch.equal(one.masks[name], each.masks[name]) for name in SHAPES) for each in moved]
    assert changed == [not grow_rules.parse(grow).needs_gradient] * 2


@every_pair
def test_units_in_another_order_are_exchanged_alike(prune: str, grow: str) -> None:
    if not grow_rules.parse(grow).needs_gradient:
        pytest.skip("what grows by chance does not follow the units")
    masks, params, slopes, kept = case(dtype=torch.float64)
    order = {
        name: torch.from_numpy(np.random.default_rng(0).permutation(shape[0]))
        for name, shape in SHAPES.items()
    }
    turned = tuple(
        {name: value[:, order[name]] for name, value in stack.items()} for stack in (masks, params, slopes)
    )
    done, other = exchange(prune, grow), exchange(prune, grow, case=(*turned, kept))
    for name in SHAPES:
        assert torch.equal(done.masks[name][:, order[name]], other.masks[name])

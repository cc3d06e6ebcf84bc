"""One update of masks against loops in plain Python, and when updates come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from discreet.sparse import Plan, Schedule, SparseError, preset, rewire
from discreet.sparse.grow_rules import Grow
from discreet.sparse.grow_rules import parse as grow
from discreet.sparse.prune_rules import Prune
from discreet.sparse.prune_rules import parse as prune
from discreet.sparse.rewire import _lowest


def one(
    mask: list[int],
    weight: list[float],
    rules: tuple[Any, Any],
    rate: float,
    slope: list[float] | None = None,
    **more: Any,
) -> list[int]:
    """The mask of one layer of one model after an update."""
    done = rewire(
        {"w": torch.tensor([mask]).bool()},
        {"w": torch.tensor([weight])},
        prune(rules[0]),
        grow(rules[1]),
        rate,
        models=[0],
        gradients=None if slope is None else {"w": torch.tensor([slope])},
        **more,
    )
    return done.masks["w"][0].int().tolist()


def test_the_interval_and_the_end_of_the_updates() -> None:
    assert Schedule().times(60) == tuple(range(2, 46, 2))
    assert Schedule(interval=4).times(20) == (4, 8, 12)
    assert Schedule(interval=5).times(20) == (5, 10)  # at 15 nothing would be exchanged
    assert all(
        Schedule(n).rate(at, total) > 0
        for n in (1, 3)
        for total in (40, 60)
        for at in Schedule(n).times(total)
    )
    assert Schedule(interval=1, stop=1.0).times(4) == (1, 2, 3)
    assert Schedule().times(1) == ()
    assert Schedule(interval=100).times(99) == ()
    assert preset("static", 0.5).times(60) == ()
    assert preset("set", 0.5).times(60) == Schedule().times(60)


def test_the_share_falls_as_half_a_cosine_to_zero() -> None:
    schedule = Schedule(fraction=0.5, stop=0.75)
    rates = [schedule.rate(time, 400) for time in range(401)]
    assert rates[0] == 0.5
    assert rates[150] == pytest.approx(0.25)
    assert rates[300] == 0
    assert rates[400] == 0
    assert all(later <= sooner for sooner, later in pairwise(rates))
    assert rates[100] == pytest.approx(0.25 * (1 + math.cos(math.pi / 3)))


def test_the_named_strategies_choose_the_expected_weights() -> None:
    mask, weight = [1, 1, 1, 0, 0, 0, 0], [0.1, 0.2, 3.0, 0, 0, 0, 0]
    slope = [9.0, 9.0, 9.0, -0.5, 0.1, 0.3, -0.7]
    rate = 0.67
    assert one(mask, weight, ("magnitude", "gradient"), rate, slope) == [0, 0, 1, 1, 0, 0, 1]
    assert one(mask, weight, ("magnitude", "least_gradient"), rate, slope) == [0, 0, 1, 0, 1, 1, 0]
    seen = set()
    for seed in range(60):
        new = one(mask, weight, ("magnitude", "random"), rate, seed=seed)
        assert new[:3] == [0, 0, 1]
        assert sum(new) == 3
        seen.add(tuple(new))
    assert len(seen) == 6


def test_equal_weights_go_in_their_order() -> None:
    mask, weight = [1] * 10 + [0] * 10, [1.0] * 10 + [0.0] * 10
    slope = [0.0] * 20
    new = one(mask, weight, ("magnitude", "gradient"), 0.3, slope)
    assert new == [0] * 3 + [1] * 10 + [0] * 7
    assert one(mask, weight, ("magnitude", "gradient"), 0.29, slope)[:3] == [0, 0, 1]


def test_what_was_dropped_may_only_come_back_when_asked() -> None:
    mask, weight, slope = [1, 1, 0, 0], [0.1, 5.0, 0.0, 0.0], [7.0, 0.0, 0.2, 0.1]
    assert one(mask, weight, ("magnitude", "gradient"), 0.5, slope) == [0, 1, 1, 0]
    done = rewire(
        {"w": torch.tensor([mask]).bool()},
        {"w": torch.tensor([weight])},
        prune("magnitude"),
        grow("gradient"),
        0.5,
        models=[0],
        gradients={"w": torch.tensor([slope])},
        regrow=True,
    )
    assert done.masks["w"][0].int().tolist() == mask
    assert done.grown["w"][0].int().tolist() == [1, 0, 0, 0]
    assert done.settle({"w": torch.tensor([weight]), "b": torch.ones(1, 2)})["w"].tolist() == [[0, 5, 0, 0]]


def test_a_nearly_dense_layer_drops_no_more_than_can_grow() -> None:
    mask, weight = [1] * 9 + [0], [float(each) for each in range(1, 10)] + [0.0]
    assert one(mask, weight, ("magnitude", "random"), 0.5) == [0] + [1] * 9
    assert one([1] * 10, [1.0] * 10, ("magnitude", "random"), 0.5) == [1] * 10


def test_a_threshold_drops_what_is_below_it_but_no_more_than_the_schedule_says() -> None:
    mask, weight = [1] * 6 + [0] * 6, [0.01, -0.02, 0.03, 2.0, -2.0, 2.0] + [0.0] * 6
    slope = [0.0] * 12
    assert one(mask, weight, ("threshold", "gradient"), 1.0, slope)[:6] == [0, 0, 0, 1, 1, 1]
    assert one(mask, weight, ("threshold", "gradient"), 0.34, slope)[:6] == [0, 0, 1, 1, 1, 1]
    assert one(mask, weight, ("threshold(0.02, 'weight')", "gradient"), 1.0, slope)[:6] == [0, 1, 1, 1, 1, 1]
    deviation = float(torch.tensor(weight[:6]).square().mean().sqrt())
    assert one(mask, weight, (f"threshold({1.99 / deviation})", "gradient"), 1.0, slope)[:6] == [
        0,
        0,
        0,
        1,
        1,
        1,
    ]
    for bad, message in (
        ("below=0", "below: expected a positive number"),
        ("unit='x'", "unit: expected 'deviation'"),
    ):
        with pytest.raises(ValueError, match=message):
            prune(f"threshold({bad})")


def naive(mask: list[bool], weight: list[float], slope: list[float], share: float) -> list[bool]:
    """Magnitude and gradient, sorting Python tuples."""
    active = [place for place, on in enumerate(mask) if on]
    closed = [place for place, on in enumerate(mask) if not on]
    many = min(int(share * len(active) + 1e-9), len(closed))
    dropped = sorted(active, key=lambda place: (abs(weight[place]), place))[:many]
    grown = sorted(closed, key=lambda place: (-abs(slope[place]), place))[:many]
    return [(on and place not in dropped) or place in grown for place, on in enumerate(mask)]


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 30), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]))
def test_any_layer_with_any_ties_is_exchanged_as_by_the_naive_loop(data: Any, size: int, rate: float) -> None:
    numbers = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]), min_size=size, max_size=size)
    mask = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    slope = data.draw(numbers)
    weight = [each if on else 0.0 for each, on in zip(data.draw(numbers), mask, strict=True)]
    new = one([int(on) for on in mask], weight, ("magnitude", "gradient"), rate, slope)
    assert [bool(on) for on in new] == naive(mask, weight, slope, rate)


def test_hundreds_of_updates_never_change_a_count() -> None:
    rng = np.random.default_rng(0)
    shapes = {"a": (9, 7), "b": (3, 2, 3, 3)}
    masks = {name: torch.zeros(2, *shape, dtype=torch.bool) for name, shape in shapes.items()}
    for mask in masks.values():
        mask.view(2, -1)[:, ::4] = True
    kept = {name: int(mask[0].sum()) for name, mask in masks.items()}
    pairs = [(a, b) for a in ("magnitude", "threshold") for b in ("gradient", "random", "least_gradient")]
    changed = 0
    for time in range(200):
        draws = [{n: torch.from_numpy(rng.normal(size=(2, *s))) for n, s in shapes.items()} for _ in range(2)]
        params = {name: value * masks[name] for name, value in draws[0].items()}
        prune_rule, grow_rule = pairs[time % len(pairs)]
        done = rewire(
            masks,
            params,
            prune(prune_rule),
            grow(grow_rule),
            float(rng.random()),
            models=[0, 1],
            time=time,
            gradients=draws[1],
            regrow=time % 2 == 0,
        )
        for name, mask in done.masks.items():
            assert mask.flatten(1).sum(1).tolist() == [kept[name]] * 2
        changed += sum(int(many.sum()) for many in done.exchanged.values())
        masks = dict(done.masks)
    assert changed > 1000


@dataclass(frozen=True)
class Broken:
    """A rule that returns what it is told to, or refuses all of it."""

    numbers: tuple[float, ...]
    needs_gradient: bool = False

    def worth(self, *given: Any) -> Tensor:
        return torch.tensor(self.numbers)


def test_rules_that_cannot_order_weights_are_named() -> None:
    masks, params = {"w": torch.tensor([[True, True, False]])}, {"w": torch.tensor([[1.0, 2.0, 0.0]])}
    assert isinstance(Broken(()), Prune)
    assert isinstance(Broken(()), Grow)

    def run(prune_rule: Any, grow_rule: Any, rate: float = 0.5, **more: Any) -> Any:
        return rewire(masks, params, prune_rule, grow_rule, rate, models=[4], **more)

    nan = (float("nan"), 1.0, 1.0)
    with pytest.raises(
        SparseError, match=r"^Broken\(.*\) cannot order 'w' of model 4: 1 of its numbers are NaN$"
    ):
        run(Broken(nan), grow("random"))
    with pytest.raises(
        SparseError, match=r"must give one number for each of 3 weights of 'w' of model 4, got shape \[2\]"
    ):
        run(prune("magnitude"), Broken((1.0, 2.0)))
    with pytest.raises(
        SparseError, match=r"^gradients: Gradient\(\) needs the gradient of every masked tensor: w$"
    ):
        run(prune("magnitude"), grow("gradient"))
    with pytest.raises(SparseError, match=r"^rate: expected a share from 0 to 1, got 1.5$"):
        run(prune("magnitude"), grow("random"), 1.5)
    never = Broken((-torch.inf,) * 3)
    for regrow in (False, True):
        assert run(prune("magnitude"), never, regrow=regrow).masks["w"].tolist() == masks["w"].tolist()
    keep = Broken((torch.inf, 5.0, 0.0))
    assert run(keep, grow("random")).masks["w"].tolist() == [[True, False, True]]


def test_plans_that_make_no_sense() -> None:
    plans: tuple[tuple[dict[str, Any], str], ...] = (
        ({"density": 0.0}, r"^density: expected above 0 and below 1"),
        ({"prune": "magnitude"}, r"^prune, grow: expected both or neither, got 'magnitude' and None$"),
        ({"batches": 0}, r"^batches: expected at least 1, got 0$"),
        (
            {"prune": "magnitudes", "grow": "random"},
            r"^unknown prune_rule 'magnitudes'; did you mean 'magnitude'",
        ),
        ({"prune": "magnitude", "grow": "radnom"}, r"^unknown grow_rule 'radnom'; did you mean 'random'"),
        ({"allocation": "er(3)"}, r"er"),
    )
    for changes, message in plans:
        with pytest.raises(ValueError, match=message):
            Plan(**{"density": 0.5, **changes})
    with pytest.raises(
        SparseError, match=r"^preset: expected one of static, set, rigl, got 'rig'; did you mean 'rigl'"
    ):
        preset("rig", 0.1)
    wrong: tuple[dict[str, Any], ...] = ({"interval": 0}, {"fraction": 0}, {"stop": 1.1})
    for bad in wrong:
        with pytest.raises(SparseError, match=f"^{next(iter(bad))}: expected"):
            Schedule(**bad)
    with pytest.raises(SparseError, match="this plan keeps its masks and has neither"):
        preset("static", 0.1).rules()


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1, 7, 1023, 5000, 40_000]),
    share=st.floats(0.0001, 1),
    kinds=st.integers(1, 10**6),
)
def test_the_lowest_are_those_of_a_stable_sort(seed: int, size: int, share: float, kinds: int) -> None:
    """In sorted data and with ties and infinities as well, where a sample misleads."""
    draw = np.random.default_rng(seed)
    worth = draw.integers(0, kinds, size) / kinds
    worth = np.sort(worth) if draw.random() < 0.3 else worth
    worth[draw.random(size) < 0.1] = np.inf
    count = max(1, int(share * size))
    assert set(_lowest(worth, count).tolist()) == set(np.argsort(worth, kind="stable")[:count].tolist())

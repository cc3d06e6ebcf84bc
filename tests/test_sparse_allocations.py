"""How many weights each layer keeps, against worked values and a naive reading of the published procedure."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.sparse import SparseError, counts
from discreet.sparse.allocations import Shapes, names, parse

MLP_SHAPES = {"0": (300, 784), "1": (100, 300), "2": (10, 100)}
CNN_SHAPES = {"0": (16, 1, 3, 3), "1": (32, 16, 3, 3), "2": (10, 1568)}
shapes = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 40), st.integers(1, 40)),
        st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3), st.integers(1, 3)),
    ),
    min_size=1,
    max_size=5,
).map(lambda found: {str(number): shape for number, shape in enumerate(found)})


@pytest.mark.parametrize(
    ("given_shapes", "density", "expected"),
    [
        (MLP_SHAPES, 0.05, (0.0385, 0.1113, 0.9185)),
        (MLP_SHAPES, 0.20, (0.1622, 0.4694, 1.0)),
        (CNN_SHAPES, 0.05, (0.0986, 0.0072, 0.0621)),
    ],
)
def test_worked_values(given_shapes: dict, density: float, expected: tuple[float, ...]) -> None:
    found = parse("erk").densities(given_shapes, density)
    assert tuple(found.values()) == pytest.approx(expected, abs=1e-4)


def vgg16() -> dict[str, tuple[int, ...]]:
    """VGG-C for 100 classes: 1x1 convolutions at the end of the last three blocks."""
    widths = [64, 64, 128, 128, *[256] * 3, *[512] * 6]
    made: dict[str, tuple[int, ...]] = {}
    into = 3
    for number, width in enumerate(widths):
        side = 1 if number in (6, 9, 12) else 3
        made[f"conv{number}"] = (width, into, side, side)
        into = width
    return made | {"fc0": (512, 2048), "fc1": (512, 512), "head": (100, 512)}


def test_a_large_convolutional_network() -> None:
    given_shapes = vgg16()
    sizes = {name: math.prod(shape) for name, shape in given_shapes.items()}
    assert sum(sizes.values()) == 11_353_792
    kept = counts(given_shapes, 0.05)
    assert sum(kept.values()) == math.floor(0.05 * 11_353_792) <= 567_690
    share = {name: kept[name] / size for name, size in sizes.items()}
    assert share["conv0"] == 1.0
    assert share["conv1"] == pytest.approx(0.17, abs=0.005)
    assert share["conv8"] == pytest.approx(0.020, abs=0.0005)
    assert share["fc0"] == pytest.approx(0.114, abs=0.001)
    assert share["fc1"] == pytest.approx(0.182, abs=0.001)
    assert share["head"] == pytest.approx(0.558, abs=0.001)


def naive(given_shapes: dict[str, tuple[int, ...]], density: float, kernels: bool) -> dict[str, float]:
    """The published procedure with its right hand side and divisor, layer after layer."""
    dense: set[str] = set()
    while True:
        divisor, rhs, raw = 0.0, 0.0, {}
        for name, shape in given_shapes.items():
            n = math.prod(shape)
            if name in dense:
                rhs -= n * (1 - density)
                continue
            rhs += n * density
            sides = shape if kernels else shape[:2]
            raw[name] = sum(sides) / math.prod(sides)
            divisor += raw[name] * n
        eps = rhs / divisor
        most = max(raw.values())
        if eps * most <= 1:
            return {name: 1.0 if name in dense else eps * raw[name] for name in given_shapes}
        dense |= {name for name, value in raw.items() if value == most}


@settings(max_examples=30, deadline=None)
@given(shapes, st.sampled_from([0.01, 0.05, 0.1, 0.29, 0.5, 0.9, 0.99]))
def test_erdos_renyi_is_what_the_naive_loop_gives(given_shapes: dict, density: float) -> None:
    for rule, kernels in (("erk", True), ("er", False)):
        found = parse(rule).densities(given_shapes, density)
        assert found == pytest.approx(naive(given_shapes, density, kernels), rel=1e-9)


@settings(max_examples=50, deadline=None)
@given(shapes, st.floats(0.001, 0.999), st.sampled_from(names()))
def test_counts_are_exact_and_follow_the_densities(given_shapes: dict, density: float, rule: str) -> None:
    sizes = {name: math.prod(shape) for name, shape in given_shapes.items()}
    total = math.floor(Fraction(repr(density)) * sum(sizes.values()))
    if total < len(sizes):
        with pytest.raises(SparseError, match="expected at least one weight for each of"):
            counts(given_shapes, density, rule)
        return
    kept = counts(given_shapes, density, rule)
    assert list(kept) == list(given_shapes)
    assert sum(kept.values()) == total
    assert all(1 <= kept[name] <= sizes[name] for name in sizes)
    wanted = parse(rule).densities(given_shapes, density)
    lifted = sum(wanted[name] * sizes[name] < 1 for name in sizes)
    for name, size in sizes.items():
        # Within one of its share; a layer that gives way to those lifted to one weight, by as many more.
        assert abs(kept[name] - wanted[name] * size) <= 1 + lifted


def test_what_is_left_goes_to_the_largest_fractions_and_then_to_the_first() -> None:
    assert counts({"a": (5, 2), "b": (5, 2), "c": (5, 2)}, 0.25, "uniform") == {"a": 3, "b": 2, "c": 2}
    assert counts({"a": (2, 2), "b": (3, 2)}, 0.3, "uniform") == {"a": 1, "b": 2}
    assert counts({"a": (1, 1), "b": (10, 10)}, 0.05, "uniform") == {"a": 1, "b": 4}


def test_a_power_of_zero_is_uniform() -> None:
    found = parse("erk(power=0.0)").densities(CNN_SHAPES, 0.3)
    assert found == pytest.approx(dict.fromkeys(CNN_SHAPES, 0.3))


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (0.0, r"^density: expected above 0 and below 1 \(the share of weights in use\), got 0.0$"),
        (1.0, r"got 1.0; to train dense, train without masks$"),
        (1.2, r"got 1.2$"),
        (-0.1, r"got -0.1$"),
        (float("nan"), r"got nan$"),
        (
            0.00001,
            r"^density: 1e-05 of 266200 weights is 2; expected at least one weight for each of the 3 masked",
        ),
    ],
)
def test_impossible_densities(density: float, message: str) -> None:
    with pytest.raises(SparseError, match=message):
        counts(MLP_SHAPES, density)


def test_a_rule_that_breaks_its_promise_or_does_not_exist() -> None:
    class Greedy:
        def densities(self, shapes: Shapes, density: float) -> dict[str, float]:
            return dict.fromkeys(shapes, 2.0)

        def __repr__(self) -> str:
            return "Greedy()"

    with pytest.raises(
        SparseError, match=r"^allocation: Greedy\(\) gives '0' the density 2.0, expected above 0, at most 1$"
    ):
        counts(MLP_SHAPES, 0.5, Greedy())
    with pytest.raises(ValueError, match="unknown allocation 'uniforme'; did you mean 'uniform'"):
        counts(MLP_SHAPES, 0.5, "uniforme")
    with pytest.raises(ValueError, match="power: expected 0 or more, got -1"):
        parse("erk(power=-1)")

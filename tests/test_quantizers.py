"""The quantizers against Table 2 of the paper, written out weight by weight, and against values by hand."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from discreet.quantizers import PRESETS, QuantizerError, parse, quantize, quantize_stack
from discreet.quantizers._measure import _select_torch, absmean, order_statistics, total


def table_2(spec: str, weights: list[float]) -> list[float]:
    """Table 2 with the readings of its slips, one weight at a time, in exact arithmetic where it matters."""
    name, _, value = spec.partition("=")
    value = value.rstrip(")")
    if name == "sign":
        return [-1.0 if weight < 0 else 1.0 for weight in weights]
    if name == "ternary(zeros":
        dropped = math.floor(Fraction(value) * len(weights))
        smallest = sorted(range(len(weights)), key=lambda place: (abs(weights[place]), place))[:dropped]
        return [
            0.0 if place in smallest or weight == 0 else math.copysign(1.0, weight)
            for place, weight in enumerate(weights)
        ]
    half = 2 ** (int(value) - 1)
    peak = max(abs(weight) for weight in weights)
    if peak == 0:
        return [0.0] * len(weights)
    alpha = Fraction(2) ** round(math.log2(peak))
    counts = [math.floor(1 + min(half * abs(Fraction(weight)) / alpha, half)) for weight in weights]
    signs = [-1 if weight < 0 else 1 for weight in weights]
    return [float(sign * alpha / half * count) for sign, count in zip(signs, counts, strict=True)]


GRANULARITY = "granularity must be 'model', 'tensor', 'channel' or 'group(n)' with n >= 1"
# Hand-worked on Figure 6's interval, alpha = 2^round(log2 1) = 1.
FIGURE_6 = [-1.0, -0.75, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.3, 0.5, 0.9, 1.0]
BY_HAND = {
    "sign": [-1, -1, -1, -1, -1, 1, 1, 1, 1, 1, 1, 1],
    # Magnitudes in order: 0, .1, .1, .25, .25, .3, .5, .5, .75, .9, 1, 1; floor(12 · 0.33) = 3 of them go.
    "ternary(zeros=0.33)": [-1, -1, -1, -1, 0, 0, 0, 1, 1, 1, 1, 1],
    "ternary(zeros=0.5)": [-1, -1, -1, 0, 0, 0, 0, 0, 0, 1, 1, 1],
    # floor(12 · 0.9) = 10.
    "ternary(zeros=0.9)": [-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    "uniform(bits=2)": [-1.5, -1, -1, -0.5, -0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1.5],
    "uniform(bits=3)": [-1.25, -1, -0.75, -0.5, -0.25, 0.25, 0.25, 0.5, 0.5, 0.75, 1, 1.25],
    "uniform(bits=4)": [-1.125, -0.875, -0.625, -0.375, -0.125, 0.125, 0.125, 0.375, 0.375, 0.625, 1, 1.125],
    "uniform(bits=5)": [
        -17 / 16, -13 / 16, -9 / 16, -5 / 16, -2 / 16,
        1 / 16, 2 / 16, 5 / 16, 5 / 16, 9 / 16, 15 / 16, 17 / 16,
    ],
}  # fmt: skip


@pytest.mark.parametrize("spec", PRESETS["paper"])
def test_values_by_hand_on_the_interval_of_figure_6(spec: str) -> None:
    weights = torch.tensor(FIGURE_6)
    assert quantize({"w": weights}, spec).dense["w"].tolist() == BY_HAND[spec]
    assert table_2(spec, FIGURE_6) == BY_HAND[spec]


@pytest.mark.parametrize(("bits", "levels"), [(2, 6), (3, 10), (4, 18), (5, 34)])
def test_the_paper_s_k_bits_reach_two_levels_more_than_their_name(bits: int, levels: int) -> None:
    line = torch.linspace(-1, 1, 1001)
    done = quantize({"w": line}, f"uniform(bits={bits})")
    taken = done.dense["w"].unique()
    assert len(taken) == levels == done.levels
    step = 2.0 ** (1 - bits)
    expected = step * torch.arange(1, 2 ** (bits - 1) + 2)
    assert torch.equal(taken, torch.cat([-expected.flip(0), expected]))
    # k + 1 bits of code, and one float32 step for all weights, give or take the padding of the last byte.
    assert math.ceil(1001 * (bits + 1) / 8) * 8 + 32 == done.bits_per_weight * 1001


DYADIC = st.integers(-40, 40).map(lambda n: n / 16)
FLOATS = st.floats(-8, 8, width=32, allow_subnormal=False)


@settings(max_examples=60, deadline=None)
@given(weights=st.lists(DYADIC, min_size=1, max_size=24) | st.lists(FLOATS, min_size=1, max_size=24))
def test_table_2_weight_by_weight(weights: list[float]) -> None:
    for spec in (*PRESETS["paper"], "uniform(bits=9)", "uniform(bits=16)", "ternary(zeros=0.0)"):
        exact = quantize({"w": torch.tensor(weights)}, spec).dense["w"].tolist()
        assert exact == table_2(spec, weights), spec


@settings(max_examples=60, deadline=None)
@given(weights=st.lists(DYADIC | FLOATS, min_size=1, max_size=40), percent=st.integers(0, 99))
def test_exactly_the_floor_of_the_share_is_dropped(weights: list[float], percent: int) -> None:
    dense = quantize({"w": torch.tensor(weights)}, f"ternary(zeros={percent / 100})").dense["w"]
    zeros = int((dense == 0).sum())
    assert zeros == max(percent * len(weights) // 100, weights.count(0.0))


def test_a_share_means_the_decimal_it_is_written_as() -> None:
    # In floating point 0.29 · 100 is 28.999999999999996.
    dense = quantize({"w": torch.arange(1.0, 101.0)}, "ternary(zeros=0.29)").dense["w"]
    assert (dense == 0).sum() == 29


def test_of_equal_magnitudes_the_first_are_dropped() -> None:
    weights = {"b": torch.tensor([0.5, -0.5]), "a": torch.tensor([-0.5, 0.5, 0.1])}
    dense = quantize(weights, "ternary(zeros=0.6)").dense
    # Tensors in the order of their names, whatever the order of the state.
    assert (dense["a"].tolist(), dense["b"].tolist()) == ([0, 0, 0], [1, -1])
    half = quantize({"w": torch.full((7,), -2.0)}, "ternary(zeros=0.5)").dense["w"]
    assert half.tolist() == [0, 0, 0, -1, -1, -1, -1]


@pytest.mark.parametrize("granularity", ["tensor", "channel", "group(4)"])
def test_ties_are_broken_in_each_group_by_itself(granularity: str) -> None:
    torch.manual_seed(0)
    weights = torch.randint(-3, 4, (5, 8)).float()
    dense = quantize({"w": weights}, f"ternary(zeros=0.5, granularity={granularity!r})").dense["w"]
    size = {"tensor": 40, "channel": 8, "group(4)": 4}[granularity]
    for group, result in zip(weights.reshape(-1, size), dense.reshape(-1, size), strict=True):
        assert result.tolist() == table_2("ternary(zeros=0.5)", group.tolist())


def test_zeros_have_no_sign_in_three_levels_and_are_positive_in_two() -> None:
    weights = {"w": torch.tensor([0.0, -0.0, 0.0, -3.0])}
    ternary = quantize(weights, "ternary(zeros=0.25)").dense["w"]
    assert ternary.tolist() == [0, 0, 0, -1]
    assert not torch.signbit(ternary[:3]).any()
    assert quantize(weights, "sign").dense["w"].tolist() == [1, 1, 1, -1]
    assert quantize(weights, "uniform(bits=2)").dense["w"].tolist() == [2, 2, 2, -4]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "spec", ["uniform(bits=3)", "uniform(bits=3, scale='absmean')", "sign(scale='absmean')"]
)
def test_weights_that_are_all_zero(spec: str, dtype: torch.dtype) -> None:
    done = quantize({"w": torch.zeros(3, 4, dtype=dtype)}, spec)
    assert not done.dense["w"].any()
    assert quantize({"w": torch.zeros(3, 4)}, "sign").dense["w"].unique().tolist() == [1]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_alpha_is_the_nearest_power_of_two_in_the_logarithm(dtype: torch.dtype) -> None:
    # On both sides of sqrt(2) · 2^e, as near as the type allows, over the whole range of exponents.
    edge = torch.tensor(math.sqrt(2), dtype=dtype)
    below = edge if edge.double() < math.sqrt(2) else torch.nextafter(edge, torch.zeros_like(edge))
    for peak, up in ((below, 0), (torch.nextafter(below, 2 * edge), 1)):
        for exponent in range(-100, 100, 7):
            weights = (peak * 2.0**exponent).reshape(1)
            dense = quantize({"w": weights}, "uniform(bits=2)").dense["w"]
            alpha = 2.0 ** (exponent + up)
            assert dense.item() == alpha * (1.5 if up == 0 else 1.0)


@pytest.mark.parametrize("spec", PRESETS["scaled"])
def test_scaled_levels_keep_the_mean_magnitude_of_each_channel(spec: str) -> None:
    torch.manual_seed(2)
    weights = torch.randn(6, 200)
    done = quantize({"w": weights, "b": torch.randn(6)}, spec)
    assert done.kept == ("b",)
    plain = quantize({"w": weights}, spec.replace("scale='absmean'", "scale='none'")).dense["w"]
    for row, dense, code in zip(weights.double(), done.dense["w"], plain, strict=True):
        stays = code != 0
        assert dense[stays].abs().double().mean().item() == pytest.approx(
            row[stays].abs().mean().item(), rel=1e-6
        )
        assert torch.equal(dense.sign(), code.sign())
        # The codes are those of the paper: levels differ by one factor.
        torch.testing.assert_close(dense, code * (dense[stays][0] / code[stays][0]), rtol=1e-6, atol=0)


def test_scales_by_hand() -> None:
    weights = {"w": torch.tensor([[-1.0, 2.0, 6.0], [0.0, 0.0, 0.5]])}
    practice = "granularity='channel', scale='absmean'"
    assert quantize(weights, f"sign({practice})").dense["w"].tolist() == [
        [-3, 3, 3],
        [0.1666666716337204] * 3,
    ]
    kept = quantize(weights, f"ternary(zeros=0.34, {practice})").dense["w"]
    assert kept.tolist() == [[0, 4, 4], [0, 0, 0.5]]
    # alpha = 8, steps of 4: codes 1, 1, 2, mean 4/3 against 3.
    assert quantize(weights, f"uniform(bits=2, {practice})").dense["w"][0].tolist() == [-2.25, 2.25, 4.5]


def test_groups_are_runs_inside_a_channel() -> None:
    weights = {
        "w": torch.tensor([[1.0, 2.0, 3.0, 10.0, 20.0], [4.0, 4.0, 5.0, 6.0, 100.0]]),
        "b": torch.tensor([7.0, 9.0]),
    }
    dense = quantize(weights, "sign(granularity='group(3)', scale='absmean')").dense
    assert dense["w"].tolist() == [[2, 2, 2, 15, 15], [pytest.approx(13 / 3)] * 3 + [53, 53]]
    assert dense["b"].tolist() == [8, 8]
    stack = quantize_stack({"w": weights["w"][None]}, "sign(granularity='group(3)', scale='absmean')")
    assert torch.equal(stack["w"][0], dense["w"])
    channel = quantize(weights, "sign(granularity='channel', scale='absmean')").dense
    assert channel["w"][:, 0].tolist() == [pytest.approx(7.2), pytest.approx(23.8)]
    assert channel["b"].tolist() == [8, 8]
    model = quantize(weights, "sign(scale='absmean')").dense
    mean = (36 + 119 + 16) / 12
    assert {*model["w"].flatten().tolist(), *model["b"].tolist()} == {mean}


def test_vectors_go_to_the_nearest_centroid() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(10, 13)).astype(np.float32)
    done = quantize({"w": torch.from_numpy(weights)}, "vector(size=8, block=3)")
    book = done.packed["0.book"][0].double().numpy()
    flat, dense = weights.reshape(-1).astype(np.float64), done.dense["w"].reshape(-1).double().numpy()
    assert book.shape == (8, 3)
    for start in range(0, 130, 3):
        block, result = flat[start : start + 3], dense[start : start + 3]
        distances = [float(((block - entry[: len(block)]) ** 2).sum()) for entry in book]
        assert ((block - result) ** 2).sum() == min(distances)
        assert any(np.array_equal(result, entry[: len(block)]) for entry in book)


def test_centroids_are_the_means_of_their_blocks() -> None:
    torch.manual_seed(0)
    weights = torch.cat(
        [torch.randn(50, 2) + 10 * torch.tensor(center) for center in ((0, 0), (0, 3), (4, -2))]
    )
    done = quantize({"w": weights}, "vector(size=3, block=2)")
    dense = done.dense["w"]
    for entry in dense.unique(dim=0):
        members = (dense == entry).all(dim=1)
        assert members.sum() == 50
        torch.testing.assert_close(entry, weights[members].double().mean(0).float())


def test_another_seed_starts_from_other_centroids() -> None:
    torch.manual_seed(0)
    weights = {"w": torch.randn(40, 40)}
    one, other = (quantize(weights, f"vector(size=16, block=4, seed={seed})").dense["w"] for seed in (0, 1))
    assert not torch.equal(one, other)
    assert torch.equal(one, quantize(weights, "vector(size=16, block=4)").dense["w"])


def test_weights_on_a_codebook_already_are_kept_exactly() -> None:
    weights = torch.tensor([[0.1, 0.2, 0.1, 0.2], [0.3, 0.3, 0.1, 0.2]])
    done = quantize({"w": weights}, "vector(size=4, block=2)")
    assert torch.equal(done.dense["w"], weights)
    assert torch.equal(
        quantize({"w": torch.tensor([1.0, -1.0])}, "sign").dense["w"], torch.tensor([1.0, -1.0])
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("uniform(bits=1)", "bits must be a whole number from 2 to 16, got 1"),
        ("uniform(bits=17)", "bits must be a whole number from 2 to 16, got 17"),
        ("uniform(bits=True)", "bits must be a whole number from 2 to 16, got True"),
        ("ternary(zeros=1)", "zeros must be a share, at least 0 and below 1, got 1"),
        ("ternary(zeros=-0.1)", "zeros must be a share, at least 0 and below 1, got -0.1"),
        ("ternary(zeros=1e999)", "zeros must be a share, at least 0 and below 1, got inf"),
        ("vector(size=1)", "size must be a whole number from 2 to 65536, got 1"),
        ("vector(block=0)", "block must be a whole number from 1 to 64, got 0"),
        ("vector(seed=-1)", "seed must be a whole number from 0 to 4294967295, got -1"),
        ("sign(scale='max')", "scale must be 'none' or 'absmean', got 'max'"),
        ("sign(scope='biases')", "scope must be 'all', 'weights' or 'linear', got 'biases'"),
        ("sign(granularity='group(0)')", f"{GRANULARITY}, got 'group(0)'"),
        ("sign(granularity='row')", f"{GRANULARITY}, got 'row'"),
    ],
)  # fmt: skip
def test_parameters_out_of_range(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(spec)
    assert str(caught.value) == f"{spec!r}: {message}" or str(caught.value) == f'"{spec}": {message}'


def test_parameters_of_a_wrong_type_are_refused_without_the_type_checker() -> None:
    specs = ["uniform(bits=4.0)", "ternary(zeros='a')", "sign(granularity=64)", "vector(seed=None)"]
    code = f"""
from discreet.quantizers import parse
for spec in {specs!r}:
    try:
        parse(spec)
    except ValueError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "'uniform(bits=4.0)': bits must be a whole number from 2 to 16, got 4.0",
        "\"ternary(zeros='a')\": zeros must be a share, at least 0 and below 1, got 'a'",
        f"'sign(granularity=64)': {GRANULARITY}, got 64",
        "'vector(seed=None)': seed must be a whole number from 0 to 4294967295, got None",
    ]


@pytest.mark.parametrize(
    ("spec", "dtype", "value", "message"),
    [
        (
            "uniform(bits=2)",
            torch.float16,
            60000.0,
            "uniform(bits=2): quantized weight 65536 of tensor 'w' does not fit float16",
        ),
        (
            "uniform(bits=2)",
            torch.float32,
            3e38,
            "uniform(bits=2): quantized weight inf of tensor 'w' does not fit float32",
        ),
    ],
)
def test_levels_that_overflow_are_refused(spec: str, dtype: torch.dtype, value: float, message: str) -> None:
    with pytest.raises(QuantizerError) as caught:
        quantize({"w": torch.tensor([value, 1.0], dtype=dtype)}, spec)
    assert str(caught.value) == message


def test_a_level_need_fit_only_the_tensors_that_take_it() -> None:
    state = {"wide": torch.tensor([1e5]), "half": torch.tensor([3.0]).half()}
    dense = quantize(state, "uniform(bits=4)").dense
    assert dense["wide"].item() == 2.0**17 / 8 * 7
    assert dense["half"].item() == 2.0**14
    with pytest.raises(
        QuantizerError, match=r"quantized weight 131072 of tensor 'half' does not fit float16$"
    ):
        quantize({"wide": torch.tensor([2.0**18]), "half": torch.tensor([6e4]).half()}, "uniform(bits=2)")


def test_sums_do_not_depend_on_how_many_groups_come_together() -> None:
    # 1 is lost beside 1e16; halves are added to halves: (1e16 - 1e16), (1 + 1).
    row = torch.tensor([1e16, 1.0, -1e16, 1.0], dtype=torch.float64)
    assert total(row.repeat(3, 1)).tolist() == [[2.0]] * 3
    torch.manual_seed(0)
    rows = torch.randn(5, 4099)
    assert torch.equal(total(rows), torch.cat([total(each[None]) for each in rows]))
    assert rows.double().sum(1).tolist() == pytest.approx(total(rows)[:, 0].tolist(), rel=1e-12)


def test_order_statistics_are_those_of_a_sort_on_any_device() -> None:
    torch.manual_seed(0)
    groups = torch.randint(0, 6, (4, 9)).float()
    ordered = torch.cat([groups.sort(dim=1).values, torch.full((4, 1), torch.inf)], dim=1)
    for rank in range(1, 10):
        value, after = order_statistics(groups, rank)
        assert torch.equal(value[:, 0], ordered[:, rank - 1])
        assert torch.equal(after[:, 0], ordered[:, rank])
        # What runs where NumPy cannot reach.
        value, after = _select_torch(groups, rank)
        assert torch.equal(value[:, 0], ordered[:, rank - 1])
        assert after is None if rank == 9 else torch.equal(after[:, 0], ordered[:, rank])


def test_codes_are_counted_exactly() -> None:
    # In float32, 2^24 + 1 is 2^24.
    numbers = torch.tensor([[2.0**24, 1.0, 1.0, -1.0, 0.0]], dtype=torch.float64)
    scale = absmean(torch.tensor([[3.0, 1.0, -1.0, 1.0, 7.0]], dtype=torch.float64), numbers)
    assert scale.item() == 6 / (2**24 + 3)


def test_half_precision_equals_the_rounded_result_of_its_own_values() -> None:
    torch.manual_seed(4)
    for dtype in (torch.float16, torch.bfloat16):
        weights = torch.randn(6, 50).to(dtype)
        for spec in (*PRESETS["paper"], *PRESETS["scaled"]):
            half = quantize({"w": weights}, spec).dense["w"]
            wide = quantize({"w": weights.float()}, spec).dense["w"]
            assert torch.equal(half, wide.to(dtype)), spec


def test_types_may_be_mixed_in_one_model() -> None:
    torch.manual_seed(6)
    state = {"a": torch.randn(3, 5).half(), "b": torch.randn(4), "c": torch.randn(2).double()}
    done = quantize(state, "uniform(bits=3)")
    assert [each.dtype for each in done.dense.values()] == [torch.float16, torch.float32, torch.float64]
    flat = torch.cat([each.double() for each in map(Tensor.flatten, state.values())]).tolist()
    assert torch.cat([each.flatten().double() for each in done.dense.values()]).tolist() == table_2(
        "uniform(bits=3)", flat
    )


def test_a_stack_ties_and_all_is_quantized_model_by_model() -> None:
    torch.manual_seed(7)
    params = {"w": torch.randint(-4, 5, (40, 6, 5)).float() / 8, "b": torch.randint(-2, 3, (40, 6)).float()}
    for spec in (*PRESETS["paper"], "ternary(zeros=0.47)", *PRESETS["scaled"]):
        together = quantize_stack(params, spec)
        for model in range(40):
            alone = quantize({name: each[model] for name, each in params.items()}, spec).dense
            assert all(torch.equal(alone[name], together[name][model]) for name in params), spec


def test_threads_and_the_number_of_models_do_not_change_the_bits() -> None:
    torch.manual_seed(8)
    params = {"w": torch.randn(3, 300_001)}
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        two = quantize_stack(params, "uniform(bits=3, scale='absmean')")["w"]
    finally:
        torch.set_num_threads(threads)
    one = torch.stack(
        [quantize({"w": each}, "uniform(bits=3, scale='absmean')").dense["w"] for each in params["w"]]
    )
    assert torch.equal(one, two)

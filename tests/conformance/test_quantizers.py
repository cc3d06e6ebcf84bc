"""What every quantizer must do, found by its file name: a new file is tested without an edit here."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from discreet.quantizers import (
    Quantized,
    Quantizer,
    QuantizerError,
    names,
    needs_inputs,
    parse,
    quantize,
    quantize_layer,
    quantize_stack,
)

GRANULARITIES = ("model", "tensor", "channel", "group(7)")
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# Parameters of which more means finer, with values to try, coarsest first.
FINER = {"bits": (2, 3, 4, 6, 8), "size": (2, 4, 8, 16, 32)}
FINER_OF = {"hqq": (1, 2, 3, 4, 8), "gptq": (2, 3, 4, 8)}
NOT_PERMUTABLE = {
    "vector": "a block is a run of consecutive weights, and k-means adds blocks in their order",
    "hqq": "groups are runs of consecutive weights",
    "bnb4": "blocks are runs of consecutive weights",
}
NOT_SCALABLE = {
    "hqq": "the library bounds scales by 2e4, and its solver has a step of fixed size",
    "bnb8": "the library takes weights to float16 first, where small ones lose digits",
}
# Largest magnitude of the weights that a method can take, where it ends before float32 does.
LARGEST = {
    "bnb8": (65504, r"which ends at 65504; one has magnitude 1e\+30$"),
    "gptq": (1e15, r"its loss overflows; weights or inputs are too large for float32$"),
}
COMPENSATES = {"gptq": "what rounding a weight does to the output is made good by the weights after it"}


def variants() -> list[Quantizer]:
    """Every method by default, and with each value of the fields that methods share."""
    found = []
    for name in names():
        default: Any = parse(name)
        if hasattr(default, "device"):
            continue  # runs on no processor; see below
        fields = {field.name for field in dataclasses.fields(default)}
        found.append(default)
        if "granularity" in fields:
            found += [dataclasses.replace(default, granularity=each) for each in GRANULARITIES[1:]]
        small = {"group": 8} if "group" in fields else {}
        for scope in getattr(default, "scopes", ("weights", "linear")) if "scope" in fields else ():
            if scope != default.scope:
                found.append(dataclasses.replace(default, scope=scope, **small))
        if "scale" in fields:
            found += [
                dataclasses.replace(default, scale="absmean", granularity=each) for each in GRANULARITIES
            ]
    return found


VARIANTS = variants()
every = pytest.mark.parametrize("quantizer", VARIANTS, ids=str)


def columns(quantizer: Quantizer) -> int:
    """A width of rows that the method takes: an odd one, if it can."""
    why_not = getattr(quantizer, "why_not", lambda shape: None)
    return next(width for width in (33, 40, 64, 128) if why_not((5, width)) is None)


def inputs_of(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """What goes into the Linear layers of a state dict."""
    draw = torch.Generator().manual_seed(9)
    return {
        name: torch.randn(50, each.shape[1], generator=draw)
        for name, each in tensors.items()
        if each.ndim == 2
    }


def run(given: dict[str, Tensor], quantizer: Quantizer) -> Quantized:
    """The model after quantization, with inputs for the methods that look at them."""
    return quantize(given, quantizer, calibration=inputs_of(given) if needs_inputs(quantizer) else None)


def state(dtype: torch.dtype = torch.float32, seed: int = 0, width: int = 33) -> dict[str, Tensor]:
    """Weights of a small network, with a 0-axis tensor, an integer one and running statistics."""
    torch.manual_seed(seed)
    shapes = {"0.weight": (6, 3, 2, 2), "0.bias": (6,), "4.weight": (5, width), "4.bias": (5,), "gain": ()}
    weights = {name: (0.1 * torch.randn(shape)).to(dtype) for name, shape in shapes.items()}
    return weights | {"1.running_mean": torch.randn(6).to(dtype), "steps": torch.tensor(7)}


def stack(models: int, dtype: torch.dtype = torch.float32, width: int = 33) -> dict[str, Tensor]:
    states = [state(dtype, seed, width) for seed in range(models)]
    return {name: torch.stack([each[name] for each in states]) for name in states[0]}


def bits(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@every
def test_the_spec_round_trips(quantizer: Quantizer) -> None:
    assert parse(str(quantizer)) == quantizer
    assert str(parse(str(quantizer))) == str(quantizer)


@every
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_input_is_left_alone_and_types_shapes_and_names_are_kept(
    quantizer: Quantizer, dtype: torch.dtype
) -> None:
    given = state(dtype, width=columns(quantizer))
    before = {name: bits(tensor) for name, tensor in given.items()}
    done = run(given, quantizer)
    assert {name: bits(tensor) for name, tensor in given.items()} == before
    assert list(done.dense) == list(given)
    for name, tensor in given.items():
        assert done.dense[name].dtype == tensor.dtype
        assert done.dense[name].shape == tensor.shape
        assert done.dense[name].isfinite().all()
    for name in done.kept:
        assert bits(done.dense[name]) == before[name]
    assert {"1.running_mean", "steps"} <= set(done.kept)
    assert set(done.quantized) | set(done.kept) == set(given)


@every
def test_each_group_holds_no_more_levels_than_promised(quantizer: Quantizer) -> None:
    done = run(state(width=columns(quantizer)), quantizer)
    if done.levels is None:
        assert str(quantizer) == "full"
        return
    block = getattr(quantizer, "block", 1) if "vector" in str(quantizer) else 1
    for group in groups_of(done, quantizer):
        whole = group[: len(group) // block * block].reshape(-1, block)
        assert len({tuple(each) for each in whole.tolist()}) <= done.levels


def groups_of(done: Quantized, quantizer: Quantizer) -> list[Tensor]:
    tensors, granularity = [done.dense[name] for name in sorted(done.quantized)], quantizer.granularity
    if (size := getattr(quantizer, "run", None)) is not None:
        rows = [
            tensor.flatten()[None] if granularity == "tensor" else tensor.flatten(1) for tensor in tensors
        ]
        return [piece for each in rows for row in each for piece in row.split(size)]
    if granularity == "model":
        return [torch.cat([tensor.flatten() for tensor in tensors])]
    if granularity == "tensor":
        return [tensor.flatten() for tensor in tensors]
    channels = [
        row for tensor in tensors for row in (tensor.flatten(1) if tensor.ndim > 1 else tensor.reshape(1, -1))
    ]
    if granularity == "channel":
        return channels
    size = int(granularity.removeprefix("group(").removesuffix(")"))
    return [piece for channel in channels for piece in channel.split(size)]


@every
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_packed_file_reads_back_bit_for_bit(
    quantizer: Quantizer, dtype: torch.dtype, tmp_path: Path
) -> None:
    done = run(state(dtype, width=columns(quantizer)), quantizer)
    done.save(tmp_path / "packed")
    again = Quantized.load(tmp_path / "packed")
    assert {name: bits(each) for name, each in again.dense.items()} == {
        name: bits(each) for name, each in done.dense.items()
    }
    assert [each.dtype for each in again.dense.values()] == [each.dtype for each in done.dense.values()]
    assert (again.quantized, again.kept, again.levels) == (done.quantized, done.kept, done.levels)
    assert again.bits_per_weight == done.bits_per_weight
    assert done.bytes == (tmp_path / "packed").stat().st_size == again.bytes


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_many_models_at_once_get_the_bits_of_each_alone(quantizer: Quantizer, dtype: torch.dtype) -> None:
    params = stack(3, dtype, columns(quantizer))
    if needs_inputs(quantizer):
        with pytest.raises(QuantizerError, match=r"needs what goes into each layer"):
            quantize_stack(params, quantizer)
        return
    together = quantize_stack(params, quantizer)
    assert list(together) == list(params)
    for model in range(3):
        alone = quantize({name: tensor[model] for name, tensor in params.items()}, quantizer)
        for name in params:
            assert bits(together[name][model]) == bits(alone.dense[name]), name
            assert together[name].dtype == params[name].dtype


@every
def test_the_same_weights_give_the_same_bytes(quantizer: Quantizer, tmp_path: Path) -> None:
    given = state(width=columns(quantizer))
    reordered = dict(reversed(given.items()))
    for name, tensors in (("a", given), ("b", given)):
        run(tensors, quantizer).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    one, other = run(given, quantizer), run(reordered, quantizer)
    assert all(bits(one.dense[name]) == bits(other.dense[name]) for name in given)


@every
@pytest.mark.parametrize("value", [0.0, -0.0, 0.7, -1.0, 1e-30, 1e30])
def test_constant_tensors(quantizer: Quantizer, value: float) -> None:
    width = 9 if columns(quantizer) == 33 else columns(quantizer)
    given = {"w": torch.full((4, width), value), "b": torch.full((3,), value)}
    largest, message = LARGEST.get(bare(quantizer), (torch.inf, ""))
    if abs(value) > largest:
        with pytest.raises(QuantizerError, match=message):
            run(given, quantizer)
        return
    done = run(given, quantizer)
    taken = torch.cat([done.dense[name].flatten() for name in done.quantized])
    assert taken.isfinite().all()
    # Of equal weights, a ternary code drops some and keeps others; nothing else may tell them apart.
    most = 2 if done.levels == 3 or bare(quantizer) in COMPENSATES else 1
    assert len(set(taken.abs().tolist())) <= most
    assert (taken * value >= 0).all()


@every
@pytest.mark.parametrize("power", [-12])
def test_scaling_by_a_power_of_two_scales_the_levels_or_leaves_them(quantizer: Quantizer, power: int) -> None:
    if (reason := NOT_SCALABLE.get(bare(quantizer))) is not None:
        pytest.skip(reason)
    given = {
        name: tensor for name, tensor in state(width=columns(quantizer)).items() if tensor.is_floating_point()
    }
    one = run(given, quantizer)
    other = run({name: tensor * 2.0**power for name, tensor in given.items()}, quantizer)
    scaled = all(torch.equal(other.dense[name], one.dense[name] * 2.0**power) for name in one.quantized)
    fixed = all(torch.equal(other.dense[name], one.dense[name]) for name in one.quantized)
    # Unscaled signs have fixed levels: multiplying the weights changes nothing.
    assert fixed if getattr(quantizer, "scale", None) == "none" and done_is_signs(one) else scaled


def bare(quantizer: Quantizer) -> str:
    return str(quantizer).partition("(")[0]


def done_is_signs(done: Quantized) -> bool:
    return all(set(done.dense[name].flatten().tolist()) <= {-1.0, 0.0, 1.0} for name in done.quantized)


@every
def test_permuting_the_weights_of_a_group_permutes_the_result(quantizer: Quantizer) -> None:
    if quantizer.granularity not in ("model", "tensor"):
        pytest.skip("a permutation moves weights between groups")
    if (reason := NOT_PERMUTABLE.get(bare(quantizer))) is not None:
        pytest.skip(reason)
    weights = state()["4.weight"]
    order = torch.randperm(weights.numel(), generator=torch.Generator().manual_seed(1))
    there = quantize({"w": weights}, quantizer).dense["w"].flatten()[order]
    back = quantize({"w": weights.flatten()[order].reshape(weights.shape)}, quantizer).dense["w"].flatten()
    # Sums over the group may round differently in another order; signs and levels may not.
    assert torch.equal(there.sign(), back.sign())
    torch.testing.assert_close(back, there, rtol=1e-6 if "absmean" in str(quantizer) else 0, atol=0)


@pytest.mark.parametrize("granularity", GRANULARITIES[:3])
@pytest.mark.parametrize("scale", ["none", "absmean"])
@pytest.mark.parametrize("name", names())
def test_the_error_falls_with_finer_codes(name: str, scale: str, granularity: str) -> None:
    fields = {field.name for field in dataclasses.fields(parse(name))}  # type: ignore[arg-type]
    parameter = next((each for each in FINER if each in fields), None)
    if parameter is None:
        pytest.skip("has no parameter that makes it finer")
    if scale != "none" and "scale" not in fields:
        pytest.skip("has no scale")
    if granularity != "model" and "granularity" not in fields:
        pytest.skip("has one granularity, seen already")
    torch.manual_seed(3)
    given = {"w": torch.randn(8, 256)}
    more = f", scale={scale!r}" if "scale" in fields else ""
    more += f", granularity={granularity!r}" if "granularity" in fields else ""
    errors = []
    for value in FINER_OF.get(name, FINER[parameter]):
        method = parse(f"{name}({parameter}={value}{more})")
        dense = run(given, method).dense["w"]
        errors.append(float((dense - given["w"]).square().mean()))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.6 * errors[0]


@every
@pytest.mark.parametrize("bad", [float("nan"), -float("inf")])
def test_weights_that_are_not_finite_are_refused(quantizer: Quantizer, bad: float) -> None:
    given = state(width=columns(quantizer))
    given["4.weight"][1, 2] = bad
    with pytest.raises(QuantizerError, match=r"^tensor '4.weight' holds 1 NaN or infinite weights$"):
        run(given, quantizer)
    params = stack(3, width=columns(quantizer))
    params["4.weight"][2, 1, 2] = bad
    message = r"^tensor '4.weight' holds 1 NaN or infinite weights \(first in model \d\)$"
    with pytest.raises(QuantizerError, match=message):
        quantize_stack(params, quantizer)


@every
def test_views_that_are_not_contiguous(quantizer: Quantizer) -> None:
    torch.manual_seed(5)
    wide = torch.randn(11, 14) if columns(quantizer) == 33 else torch.randn(64, 128)
    for view in (wide.t(), wide[:, ::2], wide[3:4], wide[:1].expand(4, wide.shape[1])):
        one, other = run({"w": view}, quantizer), run({"w": view.clone()}, quantizer)
        assert bits(one.dense["w"]) == bits(other.dense["w"])


@pytest.mark.parametrize("name", [name for name in names() if hasattr(parse(name), "device")])
def test_a_method_that_runs_on_a_gpu_alone_says_so(name: str) -> None:
    quantizer: Any = parse(name)
    assert parse(str(quantizer)) == quantizer
    needs = (
        rf"^{re.escape(str(quantizer))}: .* needs a CUDA GPU, the weights are on cpu; .* everywhere are intx"
    )
    for call in (quantize_layer, lambda spec, weight: quantize({"w": weight}, spec)):
        with pytest.raises(QuantizerError, match=needs):
            call(quantizer, torch.randn(8, 256))


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_layer_alone_gets_the_bits_and_the_bytes_that_it_gets_in_a_model(
    quantizer: Quantizer, dtype: torch.dtype
) -> None:
    weight = state(dtype, width=columns(quantizer))["4.weight"]
    inputs = inputs_of({"w": weight})["w"] if needs_inputs(quantizer) else None
    if quantizer.granularity == "model":
        with pytest.raises(QuantizerError, match=r"one layer does not tell groups of a whole model"):
            quantize_layer(quantizer, weight, inputs)
        return
    alone, model = quantize_layer(quantizer, weight, inputs), run({"w": weight}, quantizer)
    assert bits(alone.dense) == bits(model.dense["w"])
    assert alone.dense.dtype == dtype
    assert alone.bytes == sum(each.nbytes for each in model.packed.values())
    assert alone.bits_per_weight == model.bits_per_weight

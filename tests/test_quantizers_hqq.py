"""HQQ against the library's own layers and numbers, and the form that keeps them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.quantizers import (
    Affine,
    QuantizerError,
    needs_inputs,
    parse,
    quantize,
    quantize_layer,
    quantize_stack,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear
    from hqq.core.quantize import Quantizer as Library

BITS = (1, 2, 3, 4, 8)
PAGE = Path(__file__).parents[1] / "docs" / "quantizers.md"


def weights(*shape: int, seed: int = 0) -> Tensor:
    return 0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def library(weight: Tensor, bits: int, group: int, kind: torch.dtype = torch.float32) -> tuple[Any, Tensor]:
    """A layer as the library quantizes it, and its weights."""
    linear = nn.Linear(weight.shape[1], weight.shape[0])
    linear.weight.data = weight.clone()
    config = BaseQuantizeConfig(nbits=bits, group_size=group, axis=1)
    layer = HQQLinear(linear, config, compute_dtype=kind, device="cpu", del_orig=False)
    return layer, layer.dequantize()


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("shape", "group"), [((64, 128), 64), ((32, 64), 16), ((320, 192), 64)])
def test_weights_are_the_library_s_bit_for_bit(bits: int, shape: tuple[int, int], group: int) -> None:
    weight = weights(*shape)
    done = quantize({"w": weight}, f"hqq(bits={bits}, group={group})")
    assert torch.equal(done.dense["w"], library(weight, bits, group)[1])
    # Codes, and a scale and a zero of float32 for each group.
    assert done.bits_per_weight == bits + 64 / group


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_scales_of_half_precision_give_the_library_s_half_precision_weights(kind: torch.dtype) -> None:
    name = str(kind).removeprefix("torch.")
    weight = weights(64, 128)
    done = quantize({"w": weight}, f"hqq(bits=4, numbers={name!r})")
    assert torch.equal(done.dense["w"], library(weight, 4, 64, kind)[1].float())
    assert done.bits_per_weight == 4 + 32 / 64
    assert not torch.equal(done.dense["w"], quantize({"w": weight}, "hqq(bits=4)").dense["w"])


@pytest.mark.parametrize("bits", BITS)
def test_groups_may_run_across_rows_and_convolutions_are_flat(bits: int) -> None:
    for shape in ((6, 20), (4, 3, 2, 5)):
        weight = weights(*shape)
        made, meta = Library.quantize(
            weight.reshape(1, -1), nbits=bits, group_size=8, axis=1, device="cpu", bitpack=False,
            round_zero=bits == 4,
        )  # fmt: skip
        meta["compute_dtype"] = torch.float32
        expected = Library.dequantize(made, meta).reshape(shape)
        done = quantize({"w": weight}, f"hqq(bits={bits}, group=8, scope='weights')")
        assert torch.equal(done.dense["w"], expected)


def test_a_layer_of_the_library_has_the_outputs_of_the_dense_weights() -> None:
    weight, x = weights(96, 128), weights(10, 128, seed=1)
    for bits in BITS:
        layer, _ = library(weight, bits, 64)
        dense = quantize_layer(f"hqq(bits={bits})", weight).dense
        expected = nn.functional.linear(x, dense, layer.bias)
        torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-6)


def test_only_weights_of_linear_layers_of_any_module() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(16, 8)
            self.conv = nn.Conv1d(8, 8, 1)
            self.inner = nn.ModuleDict({"out": nn.Linear(8, 8)})

    done = quantize(Odd(), "hqq(bits=4, group=8)")
    assert done.quantized == ("inner.out.weight",)
    assert done.reasons["embed.weight"] == done.reasons["conv.weight"] == "outside scope 'linear'"
    wide = quantize(Odd(), "hqq(bits=4, group=8, scope='weights')")
    assert wide.quantized == ("embed.weight", "conv.weight", "inner.out.weight")
    # A bare state dict tells layers by their axes.
    assert quantize(Odd().state_dict(), "hqq(bits=4, group=8)").quantized == (
        "embed.weight",
        "inner.out.weight",
    )


def test_threads_do_not_change_the_bits() -> None:
    weight = weights(300, 1024)
    threads = torch.get_num_threads()
    one = [quantize_layer(f"hqq(bits={bits})", weight).dense for bits in (2, 4)]
    try:
        torch.set_num_threads(2)
        two = [quantize_layer(f"hqq(bits={bits})", weight).dense for bits in (2, 4)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_a_model_is_solved_by_itself_however_many_come_along() -> None:
    easy, hard = weights(8, 64), 100 * weights(8, 64, seed=1) ** 3
    together = quantize_stack({"w": torch.stack([easy, hard])}, "hqq(bits=2, group=8)")["w"]
    assert torch.equal(together[0], quantize_layer("hqq(bits=2, group=8)", easy).dense)
    assert torch.equal(together[1], quantize_layer("hqq(bits=2, group=8)", hard).dense)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hqq(bits=5)", "bits must be 1, 2, 3, 4 or 8, got 5"),
        ("hqq(bits=True)", "bits must be 1, 2, 3, 4 or 8, got True"),
        ("hqq(group=20)", "group must be a multiple of 8, got 20"),
        ("hqq(group=0)", "group must be a whole number from 8 to 1048576, got 0"),
        ("hqq(scope='all')", "scope must be 'linear' or 'weights', got 'all'"),
        ("hqq(numbers='float64')", "numbers must be 'float32', 'bfloat16' or 'float16', got 'float64'"),
    ],
)
def test_what_the_library_does_not_offer(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(spec)
    assert str(caught.value).endswith(f": {message}")


def test_a_shape_that_groups_do_not_divide_is_named() -> None:
    model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 2))
    with pytest.raises(QuantizerError) as caught:
        quantize(model, "hqq(bits=4, group=64)")
    assert str(caught.value) == (
        "hqq(bits=4, group=64): tensor '1.weight' has shape (2, 8): groups of 64 do not divide its 16 weights; "
        "these groups would: 8, 16"
    )
    with pytest.raises(
        QuantizerError, match=r"'weight' has shape \(3, 5\): .* its 15 weights; no multiple of 8 does$"
    ):
        quantize_layer("hqq", torch.randn(3, 5))
    assert quantize(model, "hqq(bits=4, group=64)", select="0.*").kept == ("0.bias", "1.weight", "1.bias")


def test_weights_beyond_float32_come_out_as_no_number_and_are_named() -> None:
    weight = torch.full((8, 8), 1e300, dtype=torch.float64)
    weight[0] = -1e300
    with pytest.raises(
        QuantizerError, match=r"^hqq\(bits=4, group=8\): quantized weight nan of tensor 'w' does not fit"
    ):
        quantize({"w": weight}, "hqq(bits=4, group=8)")


@pytest.mark.parametrize("missing", ["hqq", "termcolor"])
def test_without_the_library_or_what_it_needs(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("hqq", missing)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(QuantizerError) as caught:
        quantize({"w": torch.randn(8, 64)}, "hqq")
    how = 'install it with: pip install "discreet[llm]"'
    assert str(caught.value) == f"hqq(bits=4, group=64): the package {missing} is not installed; {how}"


def test_naming_and_reading_specs_loads_no_library() -> None:
    code = (
        "import sys; from discreet.quantizers import *; "
        "[parse(name) for name in names()]; needs_inputs('gptq'); str(parse('bnb4')); "
        "print([m for m in ('hqq', 'bitsandbytes', 'torchao', 'gptqmodel', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_library_is_on_record_with_its_version() -> None:
    assert quantize({"w": weights(8, 64)}, "hqq").about["made_by"].startswith("hqq 0.")
    assert "made_by" not in quantize({"w": weights(8, 64)}, "sign").about


@pytest.mark.slow
def test_the_page_gives_the_bits_that_are_stored() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    stated = {row[1].strip(" `"): row[5].strip() for row in rows}
    weight, narrow, inputs = weights(896, 4864), weights(8, 128), weights(150, 128)
    measured = [
        spec
        for spec, bits in stated.items()
        if bits.replace(".", "").isdigit() and "." in bits and "ternary" not in spec
    ]
    assert {spec.partition("(")[0] for spec in measured} == {"hqq", "bnb4", "bnb8", "int8", "intx", "gptq"}
    for spec in measured:
        layer = (narrow, inputs) if needs_inputs(spec) else (weight, None)
        found = quantize_layer(spec, *layer).bits_per_weight
        assert f"{found:.2f}".rstrip("0") == stated[spec].rstrip("0"), spec


def affine(**changed: Any) -> Affine:
    made: dict[str, Any] = {
        "codes": torch.tensor([[0, 1, 3, 2, 3]], dtype=torch.uint8),
        "count": 4,
        "run": 2,
        "scale": torch.tensor([[1.0, 0.5, 2.0]]),
        "zero": torch.tensor([[1.0, 0.0, -1.0]]),
    }
    return Affine(**made | changed)


def test_the_form_by_hand() -> None:
    # (level - zero) · scale by blocks of two weights, the last one of one.
    assert affine().dense().tolist() == [[-1, 0, 1.5, 1, 8]]
    assert affine(zero=None, lowest=-2).dense().tolist() == [[-2, -1, 0.5, 0, 2]]
    table = torch.tensor([-1.0, 0.0, 0.25, 7.0])
    assert affine(zero=None, table=table, factor=2.0).dense().tolist() == [[-2, 0, 7, 0.25, 28]]
    assert affine(zero=None, shift=torch.tensor([[1.0, -1.0, 0.5]])).dense().tolist() == [[1, 2, 0.5, 0, 6.5]]
    half = {"zero": None, "scale": torch.tensor([[1.0, 0.5, 2.0]], dtype=torch.bfloat16)}
    third = affine(**half, shift=torch.full((1, 3), 1 / 3, dtype=torch.bfloat16)).dense()
    assert third.dtype == torch.float32
    assert torch.equal(third, third.bfloat16().float())  # rounded once, to the type of the scale
    assert affine(dtype=torch.float64).dense().dtype == torch.float64
    # Two bits for each of five codes, three scales and zeros of float32.
    assert affine().nbytes(torch.float32) == 2 + 12 + 12


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"count": 3}, r"codes run from 0 to 3, there are 3 levels"),
        (
            {"scale": torch.ones(1, 2), "zero": None},
            r"scale must have shape \(1, 3\) \[group, block\], got \(1, 2\)",
        ),
        ({"table": torch.ones(5)}, r"the table names 5 levels, promised were 4"),
    ],
)
def test_a_form_that_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(QuantizerError, match=f"^{message}$"):
        affine(**changed).check()

"""int8 and intx against torchao's quantize_ on modules."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.quantizers import QuantizerError, parse, quantize, quantize_layer

logging.disable(logging.WARNING)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchao import quantization as library
logging.disable(logging.NOTSET)

BITS = (2, 3, 4, 5, 6, 7, 8)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(128, 96), nn.ReLU(), nn.Linear(96, 64))


def intx(bits: int, group: int, mapping: str = "symmetric") -> Any:
    return library.IntxWeightOnlyConfig(
        weight_dtype=getattr(torch, f"int{bits}"),
        granularity=library.PerGroup(group),
        mapping_type=library.MappingType[mapping.upper()],
    )


def check(spec: str, config: Any, dtype: torch.dtype = torch.float32) -> Any:
    """Weights and outputs of a module that torchao converted are ours."""
    ours, theirs = model().to(dtype), model().to(dtype)
    done = quantize(ours, spec)
    library.quantize_(theirs, config)
    for name in ("0.weight", "2.weight"):
        made: Any = theirs.get_parameter(name)
        assert torch.equal(done.dense[name], made.dequantize()), name
    ours.load_state_dict(dict(done.dense))
    x = torch.randn(10, 128, dtype=dtype, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(theirs(x), ours(x), rtol=0, atol=1e-6)
    return done


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("group", [32, 16])
def test_integer_weights_are_the_library_s_bit_for_bit(bits: int, group: int) -> None:
    done = check(f"intx(bits={bits}, group={group})", intx(bits, group))
    # A float32 scale for each group, no zeros.
    assert done.bits_per_weight == bits + 32 / group


@pytest.mark.parametrize("bits", [1, *BITS])
def test_asymmetric_codes_have_zeros_of_eight_bits(bits: int) -> None:
    done = check(f"intx(bits={bits}, group=32, mapping='asymmetric')", intx(bits, 32, "asymmetric"))
    assert done.bits_per_weight == bits + (32 + 8) / 32


def test_eight_bits_by_row_are_the_library_s_bit_for_bit() -> None:
    done = check("int8", library.Int8WeightOnlyConfig())
    assert done.bits_per_weight == 8 + 32 * (96 + 64) / (128 * 96 + 96 * 64)


def test_half_precision_weights_equal_the_rounded_result_of_their_own_values() -> None:
    for spec in ("int8", "intx(bits=4, group=32)"):
        half = quantize(model().bfloat16(), spec).dense
        wide = quantize(model().bfloat16().float(), spec).dense
        assert all(torch.equal(half[name], wide[name].bfloat16()) for name in half)


def test_symmetric_codes_of_one_bit_would_all_be_zero() -> None:
    layer: Any = nn.Linear(64, 8)
    library.quantize_(layer, intx(1, 32))
    assert layer.weight.dequantize().abs().max() == 0
    with pytest.raises(
        ValueError, match=r"bits=1 needs mapping='asymmetric': torchao's symmetric codes of 1 bit"
    ):
        parse("intx(bits=1)")


def test_a_shape_that_groups_do_not_divide_is_named() -> None:
    layers = nn.Sequential(nn.Linear(64, 48), nn.Linear(48, 2))
    with pytest.raises(QuantizerError) as caught:
        quantize(layers, "intx(bits=4, group=64)")
    assert str(caught.value) == (
        "intx(bits=4, group=64): tensor '1.weight' has shape (2, 48): groups of 64 do not divide rows of 48; "
        "these would: 16, 48"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("intx(bits=9)", "bits must be a whole number from 1 to 8, got 9"),
        ("intx(group=0)", "group must be a whole number from 1 to 1048576, got 0"),
        ("intx(mapping='other')", "mapping must be 'symmetric' or 'asymmetric', got 'other'"),
        ("int8(scope='weights')", "scope must be 'linear', got 'weights'"),
    ],
)
def test_what_the_library_does_not_offer(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(spec)
    assert str(caught.value).endswith(f": {message}")


def test_embeddings_and_convolutions_are_left_alone() -> None:
    layers = nn.Sequential(nn.Embedding(9, 64), nn.Linear(64, 8))
    done = quantize(layers, "int8")
    assert done.quantized == ("1.weight",)
    assert torch.equal(done.dense["0.weight"], layers.state_dict()["0.weight"])


def test_threads_do_not_change_the_bits() -> None:
    weight: Tensor = torch.randn(300, 1024, generator=torch.Generator().manual_seed(0))
    threads, specs = torch.get_num_threads(), ("int8", "intx(bits=3)")
    one = [quantize_layer(spec, weight).dense for spec in specs]
    try:
        torch.set_num_threads(2)
        two = [quantize_layer(spec, weight).dense for spec in specs]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))

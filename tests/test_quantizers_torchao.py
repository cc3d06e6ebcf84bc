"""int8 and intx against torchao's quantize_ on modules."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from discreet.quantizers import QuantizerError, parse, quantize, quantize_layer
from discreet.quantizers.int4 import read_codes

logging.disable(logging.WARNING)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchao import quantization as library
    from torchao.quantization import quant_primitives as primitives
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


@pytest.mark.parametrize("group", [32, 128])
def test_codes_of_the_gpu_s_four_bits_read_off_its_weights(group: int) -> None:
    # What Int4WeightOnlyConfig computes before it packs codes for its kernel runs on a processor too.
    weight = torch.randn(24, 256, generator=torch.Generator().manual_seed(0)).bfloat16()
    kinds: dict[str, Any] = {"scale_dtype": torch.bfloat16, "zero_point_dtype": torch.bfloat16}
    block = (1, group)
    scale, shift = primitives._choose_qparams_affine_tinygemm(
        weight, primitives.MappingType.ASYMMETRIC, block, torch.int32, 0, 15, **kinds
    )
    code = primitives._quantize_affine_tinygemm(weight, block, scale, shift, torch.int32, 0, 15)
    dense = primitives._dequantize_affine_tinygemm(
        code, block, scale, shift, torch.int32, 0, 15, output_dtype=torch.bfloat16
    )
    done = read_codes(dense, scale.reshape(24, -1), shift.reshape(24, -1), group, torch.float32)
    done.check()
    assert torch.equal(done.codes.int(), code)
    # The kernel rounds once, these operations twice: one unit in the last place of bfloat16 for values below 8.
    torch.testing.assert_close(done.dense(), dense.float(), rtol=0, atol=2**-5)
    # Codes, a scale and a shift in bfloat16.
    assert 8 * done.nbytes(torch.bfloat16) == weight.numel() * (4 + 32 / group)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("shape", [(64, 128), (896, 4864)])
def test_four_bits_on_a_gpu_are_the_library_s(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(0)).cuda()
    layer: Any = nn.Linear(shape[1], shape[0], bias=False, device="cuda", dtype=torch.bfloat16)
    layer.weight.data = weight.bfloat16()
    config = library.Int4WeightOnlyConfig(group_size=64, int4_packing_format="tile_packed_to_4d")
    library.quantize_(layer, config)
    x = torch.randn(10, shape[1], device="cuda", dtype=torch.bfloat16)
    done = quantize({"w": weight}, "int4")
    expected = x.float() @ done.dense["w"].T
    torch.testing.assert_close(layer(x).float(), expected, rtol=0.02, atol=0.02 * shape[1] ** 0.5)


def test_four_bits_for_a_gpu_in_shapes_that_groups_do_not_divide() -> None:
    with pytest.raises(QuantizerError, match=r"groups of 64 do not divide rows of 96; these would: 32$"):
        quantize_layer("int4", torch.randn(8, 96))
    with pytest.raises(QuantizerError, match=r"do not divide rows of 40; none of 32, 64, 128, 256 does$"):
        quantize_layer("int4", torch.randn(8, 40))
    with pytest.raises(ValueError, match=r"group must be 32, 64, 128 or 256, got 16$"):
        parse("int4(group=16)")

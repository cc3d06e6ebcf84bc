"""bnb4 and bnb8 against bitsandbytes' own numbers and layers."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings

import pytest
import torch
from torch import Tensor, nn

from discreet.quantizers import QuantizerError, parse, quantize, quantize_layer

logging.disable(logging.WARNING)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import bitsandbytes as bnb
    from bitsandbytes import functional as library
logging.disable(logging.NOTSET)

KINDS = ("nf4", "fp4")


def weights(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return (0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))).to(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [32, 64, 256, 1024, 4096])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(16, 1024), (64, 128), (10, 30), (5, 34), (32, 96)])
def test_four_bits_are_the_library_s_bit_for_bit(
    kind: str, block: int, dtype: torch.dtype, shape: tuple[int, int]
) -> None:
    weight = weights(*shape, dtype=dtype)
    packed, about = library.quantize_4bit(weight, blocksize=block, quant_type=kind)
    done = quantize({"w": weight}, f"bnb4(kind={kind!r}, block={block})")
    code = torch.stack([packed.flatten() >> 4, packed.flatten() & 15], dim=1).flatten().long()
    scale = about.absmax.repeat_interleave(block)[: weight.numel()]
    assert torch.equal(done.dense["w"].flatten(), (about.code[code] * scale).to(dtype))
    # Where blocks cross the ends of rows, the library's kernel for AVX512 takes scales of other blocks (0.50.2).
    if shape[1] % block == 0 and block < 2048:
        assert torch.equal(done.dense["w"], library.dequantize_4bit(packed, about))
    # Four bits a code, a float32 scale a block, and the table of 16 levels once.
    blocks = -(-weight.numel() // block)
    assert 8 * -(-weight.numel() // 2) + 32 * blocks + 16 * 32 == done.bits_per_weight * weight.numel()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (7, 33)])
def test_odd_numbers_of_weights(kind: str, shape: tuple[int, int]) -> None:
    weight = weights(*shape)
    dense = quantize({"w": weight}, f"bnb4(kind={kind!r}, block=32)").dense["w"]
    table = library.get_4bit_type(kind, device="cpu")
    for piece, result in zip(weight.flatten().split(32), dense.flatten().split(32), strict=True):
        levels = table * piece.abs().max()
        assert torch.isin(result, levels).all()
        distance = (piece[:, None] - levels).abs()
        # The nearest level, up to the rounding of the library's bounds between levels.
        torch.testing.assert_close((piece - result).abs(), distance.amin(1), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_of_the_library_has_the_outputs_of_the_dense_weights(kind: str) -> None:
    linear, x = nn.Linear(128, 64), weights(10, 128, seed=1)
    layer = bnb.nn.Linear4bit(
        128, 64, compute_dtype=torch.float32, compress_statistics=False, quant_type=kind
    )
    layer.load_state_dict(linear.state_dict())
    layer = layer.to("cpu").eval()
    # Otherwise some processors run a bfloat16 kernel.
    layer.support_avx512bf16_for_cpu = False
    dense = quantize(linear, f"bnb4(kind={kind!r})").dense
    expected = nn.functional.linear(x, dense["weight"], dense["bias"])
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(64, 128), (7, 33), (1, 1)])
def test_eight_bits_are_the_library_s_bit_for_bit(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    weight = weights(*shape, dtype=dtype)
    codes, scale, _ = library.int8_vectorwise_quant(weight.half())
    done = quantize({"w": weight}, "bnb8")
    assert torch.equal(done.dense["w"], library.int8_vectorwise_dequant(codes, scale).to(dtype))
    assert done.bits_per_weight == 8 + 32 / shape[1]


def test_eight_bits_are_those_of_the_library_s_layer() -> None:
    linear = nn.Linear(128, 64)
    layer = bnb.nn.Linear8bitLt(128, 64, has_fp16_weights=False)
    layer.load_state_dict(linear.state_dict())
    layer = layer.to("cpu").eval()
    dense = quantize_layer("bnb8", linear.weight).dense
    assert torch.equal(
        layer.weight.CB, (dense / dense.abs().amax(1, keepdim=True) * 127).round().to(torch.int8)
    )
    x = weights(10, 128, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = layer(x)
    # The layer rounds its inputs too, to 8 bits of the largest of a row: near, and not the same.
    expected = nn.functional.linear(x, dense, linear.bias)
    assert not torch.equal(outputs, expected)
    torch.testing.assert_close(outputs, expected, rtol=0, atol=5e-3)


def test_a_row_of_zeros_and_rows_below_float16_are_zeros() -> None:
    weight = torch.zeros(3, 8)
    weight[1] = 1e-30
    weight[2, 0] = 1.0
    dense = quantize_layer("bnb8", weight).dense
    assert dense[:2].abs().max() == 0
    assert dense[2, 0] == pytest.approx(1, abs=1e-7)


def test_weights_beyond_float16_are_refused() -> None:
    with pytest.raises(QuantizerError) as caught:
        quantize_layer("bnb8", torch.tensor([[1.0, -7e4]]))
    assert str(caught.value) == (
        "bnb8: bitsandbytes takes weights to float16, which ends at 65504; one has magnitude 70000"
    )


def test_threads_do_not_change_the_bits() -> None:
    weight = weights(300, 1024)
    threads, specs = torch.get_num_threads(), ("bnb4", "bnb4(kind='fp4')", "bnb8")
    one = [quantize_layer(spec, weight).dense for spec in specs]
    try:
        torch.set_num_threads(2)
        two = [quantize_layer(spec, weight).dense for spec in specs]
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_convolutions_are_flat_where_asked_for() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8, 4))
    assert quantize(model, "bnb4").quantized == ("2.weight",)
    done = quantize(model, "bnb4(scope='weights')")
    assert done.quantized == ("0.weight", "2.weight")
    flat = quantize_layer("bnb4", model[0].weight.reshape(8, 27)).dense
    assert torch.equal(done.dense["0.weight"].reshape(8, 27), flat)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bnb4(kind='int4')", "kind must be 'nf4' or 'fp4', got 'int4'"),
        ("bnb4(block=16)", "block must be 32, 64, 128, 256, 512, 1024, 2048 or 4096, got 16"),
        ("bnb4(bits=4)", "bnb4 has no field 'bits'; its fields: scope, kind, block"),
        ("bnb8(scope='all')", "scope must be 'linear' or 'weights', got 'all'"),
    ],
)
def test_what_the_library_does_not_offer(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        parse(spec)
    assert str(caught.value).endswith(message)


def test_two_threads_may_load_the_library_at_once() -> None:
    code = """
import torch
from concurrent.futures import ThreadPoolExecutor
from discreet.quantizers import quantize_layer
with ThreadPoolExecutor(8) as pool:
    done = list(pool.map(lambda _: quantize_layer("bnb4", torch.ones(4, 64).cumsum(1)).bits_per_weight, range(8)))
assert len(set(done)) == 1
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True)

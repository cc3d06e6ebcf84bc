"""A Linear layer of a 0.5-billion model by each library method, against the library's own layer in the same run."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from discreet.quantizers import quantize, quantize_layer
from tuning.rates import timed

OUT, IN, ROWS = 896, 4864, 2048


def linear(weight: Tensor) -> nn.Linear:
    """A layer that holds a copy of the weight."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    layer.weight = nn.Parameter(weight.clone(), requires_grad=False)
    return layer


def hqq(weight: Tensor, bits: int) -> Callable[[], object]:
    """The library's layer, and its dense weights."""
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    config = BaseQuantizeConfig(nbits=bits, group_size=64, axis=1)
    return lambda: HQQLinear(linear(weight), config, compute_dtype=torch.float32, device="cpu").dequantize()


def bnb(weight: Tensor, bits: int) -> Callable[[], object]:
    """The same of bitsandbytes."""
    import bitsandbytes
    from bitsandbytes import functional

    def four() -> Tensor:
        layer = bitsandbytes.nn.Linear4bit(IN, OUT, bias=False, quant_type="nf4", compress_statistics=False)
        layer.load_state_dict(linear(weight).state_dict())
        made: Any = layer.to("cpu").weight
        return functional.dequantize_4bit(made.data, made.quant_state)

    def eight() -> Tensor:
        layer = bitsandbytes.nn.Linear8bitLt(IN, OUT, bias=False, has_fp16_weights=False)
        layer.load_state_dict(linear(weight).state_dict())
        made: Any = layer.to("cpu").weight
        return functional.int8_vectorwise_dequant(made.CB, made.SCB)

    return four if bits == 4 else eight


def torchao(weight: Tensor, bits: int, group: int | None) -> Callable[[], object]:
    """The same of torchao."""
    from torchao import quantization

    if group is None:
        config: Any = quantization.Int8WeightOnlyConfig(set_inductor_config=False)
    else:
        kind, granularity = getattr(torch, f"int{bits}"), quantization.PerGroup(group)
        config = quantization.IntxWeightOnlyConfig(weight_dtype=kind, granularity=granularity)

    def convert() -> Tensor:
        layer: Any = linear(weight)
        quantization.quantize_(layer, config)
        return layer.weight.dequantize()

    return convert


def main() -> None:
    """Print one line for each method."""
    torch.set_num_threads(1)
    draw = torch.Generator().manual_seed(0)
    weight = 0.02 * torch.randn(OUT, IN, generator=draw)
    print(
        f"a Linear layer {OUT} x {IN}, one thread; dense weights and stored size, as quantize_layer gives them"
    )
    cases = {
        "hqq(bits=4)": hqq(weight, 4),
        "hqq(bits=2)": hqq(weight, 2),
        "bnb4": bnb(weight, 4),
        "bnb8": bnb(weight, 8),
        "int8": torchao(weight, 8, None),
        "intx(bits=4)": torchao(weight, 4, 64),
    }
    for spec, library in cases.items():
        quantize_layer(spec, weight[:64])
        own, theirs = timed(lambda spec=spec: quantize_layer(spec, weight)), timed(library)
        whole = timed(lambda spec=spec: quantize({"w": weight}, spec))
        print(
            f"  {spec}: {own.wall:.2f} s, {own.wall / theirs.wall:.1f} times the library's layer and dense weights "
            f"({theirs.wall:.2f} s); packed, checked and read back as well: {whole.wall:.2f} s"
        )
    inputs = torch.randn(ROWS, IN, generator=draw)
    quantize_layer("gptq", weight[:64], inputs[:64])
    took = timed(lambda: quantize_layer("gptq", weight, inputs), 1)
    alone = timed(lambda: quantize_layer("gptq", weight[:1], inputs), 1)
    print(
        f"  gptq(bits=4), {ROWS:,} inputs: {took.wall:.1f} s, of which for one row of weights {alone.wall:.1f} s"
    )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    main()

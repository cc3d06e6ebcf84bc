"""Packed files that were altered: refused with one sentence, or as finite as before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from discreet.quantizers import QuantizerError, quantize, quantize_layer
from discreet.quantizers._quantized import Quantized

SPECS = (
    "sign(scale='absmean')",
    "ternary",
    "uniform(bits=3)",
    "vector",
    "full",
    "hqq(bits=3)",
    "bnb4",
    "bnb8",
    "int8",
    "intx(mapping='asymmetric')",
)


def broken(tensor: Tensor, how: str) -> Tensor | None:
    if how == "gone":
        return None
    if how == "short":
        return tensor.reshape(-1)[:-1].clone()
    if how == "nan":
        return torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else tensor
    return tensor.to(torch.int64) if tensor.is_floating_point() else tensor


@pytest.mark.parametrize("spec", SPECS)
def test_tensors(spec: str) -> None:
    done = quantize({"w": torch.randn(8, 64, generator=torch.Generator().manual_seed(0))}, spec)
    for name, tensor in done.packed.items():
        for how in ("gone", "short", "nan", "whole"):
            packed = {**done.packed, name: broken(tensor, how)}
            if packed[name] is not tensor:
                with pytest.raises(QuantizerError, match=r"^packed is inconsistent: QuantizerError: "):
                    Quantized.of({n: t for n, t in packed.items() if t is not None}, done.about)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"run": 0}, "ZeroDivisionError"),
        ({"lowest": 10**30}, "OverflowError"),
        ({"factor": float("nan")}, "weights of w are NaN or infinite"),
        ({"count": 5}, "codes run from 0 to 7, there are 5 levels"),
    ],
)
def test_what_is_said_of_them(changed: dict[str, Any], message: str, tmp_path: Path) -> None:
    done = quantize({"w": torch.randn(8, 64, generator=torch.Generator().manual_seed(0))}, "hqq(bits=3)")
    about = {**done.about, "parts": [{**done.about["parts"][0], **changed}]}
    save_file(dict(done.packed), tmp_path / "x", {"discreet": json.dumps(about)})
    with pytest.raises(QuantizerError, match=f"x is inconsistent: .*{message}"):
        Quantized.load(tmp_path / "x")


def test_a_layer_in_groups_that_do_not_divide_it_stores_both_kinds() -> None:
    """Rows of 10 in groups of 4: of each row two groups and one of 2, each with a scale of 4 bytes."""
    weight = torch.randn(3, 10, generator=torch.Generator().manual_seed(0))
    spec = "sign(scale='absmean', granularity='group(4)')"
    assert quantize_layer(spec, weight).bytes == (3 + 6 * 4) + (1 + 3 * 4)
    assert (
        quantize({"w.weight": weight}, spec).bits_per_weight == quantize_layer(spec, weight).bits_per_weight
    )


def test_a_layer_without_weights_is_refused() -> None:
    for shape in ((0, 64), (8, 0)):
        for spec in ("hqq", "bnb4", "int8", "sign(granularity='channel')"):
            with pytest.raises(QuantizerError, match=r"^w must be \[out, in\], neither 0, got shape"):
                quantize_layer(spec, torch.empty(shape), name="w")

"""Compress the models of a bank: quantizers as they are, and functions that calibrate on samples."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from discreet._types import Int, Num
from discreet.forward import Model, Stack
from discreet.mlp import MLP
from discreet.quantizers import Quantizer, parse, quantize_stack

__all__ = ["Calibrated", "Compressor", "compress", "is_calibrated", "named"]


@runtime_checkable
class Calibrated(Protocol):
    """A compression that looks at samples.

    Attributes:
        content: Text that says all its result depends on, besides the model, the samples and the code of its class:
            name, settings, version. It is part of the key that stored results are found by.
    """

    content: str

    def calibrate(self, model: nn.Module, x: Tensor, y: Tensor) -> Mapping[str, Tensor]:
        """Return the compressed parameters by name, dense, in the model's dtype.

        Args:
            model: One trained model, in eval mode; it is a copy.
            x: Inputs of the calibration samples.
            y: Their labels.
        """
        ...


Compressor = Quantizer | Calibrated


def named(variants: Mapping[str, Any] | Sequence[str]) -> dict[str, Compressor]:
    """Compressors by the name of their variant.

    Raises:
        ValueError: None, one twice, or neither a quantizer nor a function that calibrates.
    """
    if isinstance(variants, str):
        raise ValueError(f"variants: expected several specs, got the one text {variants!r}; put it in a list")
    pairs = variants.items() if isinstance(variants, Mapping) else ((None, each) for each in variants)
    found: dict[str, Compressor] = {}
    for name, each in pairs:
        compressor = parse(each) if isinstance(each, str) else each
        if not isinstance(compressor, (Quantizer, Calibrated)):
            raise ValueError(
                f"variants: expected a quantizer, its spec or an object with content and calibrate, got "
                f"{type(each).__name__}"
            )
        label = str(compressor) if name is None else name
        if label in found:
            raise ValueError(f"variants: {label!r} occurs twice")
        found[label] = compressor
    if not found:
        raise ValueError("variants: expected at least one, got none")
    return found


def is_calibrated(compressor: Compressor) -> bool:
    """Whether it looks at samples."""
    return isinstance(compressor, Calibrated)


def compress(
    model: Model,
    params: Stack,
    compressor: Compressor,
    x: Num[Tensor, " sample *rest"],
    y: Num[Tensor, " sample *target"],
    calibration: Sequence[Int[Tensor, " row"]] | None,
) -> dict[str, Tensor]:
    """Compress every model of a stack.

    Args:
        model: The architecture.
        params: The trained models.
        compressor: What compresses them.
        x: Inputs of all samples.
        y: Labels.
        calibration: Positions of each model's calibration samples.

    Raises:
        ValueError: A function that calibrates and no calibration samples; or what it returns does not fit the model.
    """
    if isinstance(compressor, Quantizer):
        return quantize_stack(params, compressor, module=None if isinstance(model, MLP) else model)
    if calibration is None:
        raise ValueError(f"calibration: {compressor.content!r} needs calibration samples, got 0")
    made: list[Mapping[str, Tensor]] = []
    for number, rows in enumerate(calibration):
        module = _one(model, {name: value[number] for name, value in params.items()})
        dense = compressor.calibrate(module, x[rows], y[rows])
        for name, value in dense.items():
            if name not in params or value.shape != params[name].shape[1:]:
                wanted = list(params[name].shape[1:]) if name in params else f"one of {', '.join(params)}"
                raise ValueError(
                    f"variants: {compressor.content!r} returned {name!r} of shape {list(value.shape)}, "
                    f"expected {wanted}"
                )
        made.append(dense)
    return {
        name: torch.stack(
            [each[name].detach().to(value) if name in each else value[i] for i, each in enumerate(made)]
        )
        for name, value in params.items()
    }


def _one(model: Model, state: Mapping[str, Tensor]) -> nn.Module:
    module = model.module() if isinstance(model, MLP) else copy.deepcopy(model)
    module.load_state_dict({name: value.clone() for name, value in state.items()}, strict=False)
    return module.eval()

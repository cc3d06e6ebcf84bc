"""One layer at a time, for whoever holds a model of which not all layers fit in memory twice."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from discreet import _find
from discreet._types import Float
from discreet.quantizers._calibration import one
from discreet.quantizers._fields import PACKAGE, QuantizerError
from discreet.quantizers._groups import cut
from discreet.quantizers._protocol import NeedsInputs, Quantizer
from discreet.quantizers._quantize import check_shapes, encoded, parse

__all__ = ["QuantizedLayer", "needs_inputs", "quantize_layer"]


@dataclass(frozen=True, eq=False)
class QuantizedLayer:
    """The weight of one layer after quantization.

    Attributes:
        dense: The weights, in the type of the input.
        bytes: What is stored of them: codes with their padding, scales, zeros, tables.
    """

    dense: Float[Tensor, "out in"]
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Stored bits per weight."""
        return 8 * self.bytes / self.dense.numel()


def needs_inputs(quantizer: Quantizer | str) -> bool:
    """Whether a quantizer wants to see what goes into each layer, as GPTQ does."""
    quantizer = parse(quantizer) if isinstance(quantizer, str) else quantizer
    return isinstance(quantizer, NeedsInputs)


def quantize_layer(
    quantizer: Quantizer | str,
    weight: Float[Tensor, "out in"],
    inputs: Float[Tensor, "row in"] | None = None,
    *,
    name: str = "weight",
) -> QuantizedLayer:
    """Quantize the weight of one Linear layer, to the bits that ``quantize`` gives it in a whole model.

    Args:
        quantizer: A quantizer or its spec string; its scope does not matter here.
        weight: The layer's weight; it stays unchanged.
        inputs: What goes into the layer, for a quantizer that needs it.
        name: What to call the weight in messages.

    Raises:
        QuantizerError: As ``quantize``, or a quantizer whose groups span a whole model.

    Example:
        >>> done = quantize_layer("sign(granularity='channel')", torch.tensor([[-3.0, 0.5]]))
        >>> done.dense, done.bytes
        (tensor([[-1.,  1.]]), 1)
    """
    quantizer = parse(quantizer) if isinstance(quantizer, str) else quantizer
    spec = _find.spec(quantizer, PACKAGE)
    if quantizer.granularity == "model":
        choices = "'tensor', 'channel' or 'group(n)'"
        raise QuantizerError(
            f"{spec}: one layer does not tell groups of a whole model: use granularity {choices}"
        )
    if weight.ndim != 2 or not weight.numel():
        raise QuantizerError(f"{name} must be [out, in], neither 0, got shape {tuple(weight.shape)}")
    made = torch.empty_like(weight, memory_format=torch.contiguous_format)
    given, taken = {name: weight.detach()[None]}, {name: made[None]}
    calibration = one(quantizer, spec, name, weight, inputs)
    stored = 0
    for part in cut(check_shapes(quantizer, spec, given), quantizer.granularity):
        _, codes, values = encoded(quantizer, spec, part, given, calibration)
        part.put(values, taken)
        stored += codes.nbytes(weight.dtype)
    return QuantizedLayer(made, stored)

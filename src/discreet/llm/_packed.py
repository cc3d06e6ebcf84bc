"""Layers of a base as quantizers made them, kept in their stored form from one measurement to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from discreet._types import Float
from discreet.quantizers import Quantized, QuantizedLayer, Quantizer, quantize, quantize_layer

__all__ = ["Packed"]


class Packed:
    """Quantized layers of one base, in the processor's memory.

    For checkpoints that are measured one at a time, while a training goes on: layers that no adapter touches are the
    base's at each of them.

    Args:
        most: Bytes to keep at most; the layers after that are quantized each time.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._held: dict[tuple[str, str], tuple[Mapping[str, Tensor], Mapping[str, Any]]] = {}

    def layer(self, quantizer: Quantizer, weight: Float[Tensor, "out in"], *, name: str) -> QuantizedLayer:
        """What ``quantize_layer`` makes of a layer of the base, to the bit.

        Raises:
            QuantizerError: As ``quantize``.
        """
        key = name, str(quantizer)
        if key not in self._held and self._left <= 0:
            return quantize_layer(quantizer, weight, name=name)
        done = Quantized.of(*self._held[key]) if key in self._held else quantize({name: weight}, quantizer)
        size = sum(value.nbytes for value in done.packed.values())
        if key not in self._held:
            if size <= self._left:
                self._held[key] = done.packed, done.about
            self._left -= size
        return QuantizedLayer(done.dense[name], size)

"""Quantizers: weights in, dense weights and their stored form out.

A quantizer is one frozen dataclass in one file of this folder, found by its file name; nothing else needs
an edit. It maps groups of weights to codes; everything else here is done around it.
"""

from __future__ import annotations

from discreet import _find
from discreet.quantizers._codes import Affine, Codes, Indices, Multiples, Raw
from discreet.quantizers._fields import PACKAGE, Grouped, QuantizerError, Scaled
from discreet.quantizers._file import quantize_file
from discreet.quantizers._layers import QuantizedLayer, needs_inputs, quantize_layer
from discreet.quantizers._library import Library
from discreet.quantizers._presets import PRESETS
from discreet.quantizers._protocol import NeedsInputs, Quantizer
from discreet.quantizers._quantize import parse, quantize, quantize_stack
from discreet.quantizers._quantized import Quantized
from discreet.quantizers._select import Select

__all__ = [
    "PRESETS",
    "Affine",
    "Codes",
    "Grouped",
    "Indices",
    "Library",
    "Multiples",
    "NeedsInputs",
    "Quantized",
    "QuantizedLayer",
    "Quantizer",
    "QuantizerError",
    "Raw",
    "Scaled",
    "Select",
    "names",
    "needs_inputs",
    "parse",
    "quantize",
    "quantize_file",
    "quantize_layer",
    "quantize_stack",
]


def names() -> tuple[str, ...]:
    """Names of all quantizers, by listing this folder."""
    return _find.names(PACKAGE)

"""Fields that quantizers have in common: what forms a group, what is covered, how levels are scaled."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from discreet import _find

__all__ = ["PACKAGE", "Grouped", "QuantizerError", "Scaled", "group_size", "one_of", "whole"]

PACKAGE = "discreet.quantizers"
GRANULARITIES = ("model", "tensor", "channel")
SCOPES = ("all", "weights", "linear")
SCALES = ("none", "absmean")


class QuantizerError(ValueError):
    """A model that cannot be quantized as asked, or a quantizer that broke its promise."""


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """Fields of every quantizer that works on groups of weights.

    Attributes:
        granularity: Which weights form one group, that is, share quantiles, maxima, scales and codebooks:
            ``"model"`` (all quantized parameters of a model together, as "An Indicator of Membership
            Inference Security in Post-Training Quantized Models", Table 2, writes it), ``"tensor"``,
            ``"channel"`` (each slice of axis 0; a tensor of fewer than two axes is one channel), or
            ``"group(n)"`` (runs of n weights inside a channel, the last one shorter where n does not divide).
        scope: ``"all"`` floating parameters, biases too (the paper's setting), ``"weights"`` of Linear,
            convolution and embedding layers (of a bare state dict: tensors of two or more axes), or weights of
            ``"linear"`` layers alone (of a bare state dict: tensors of two axes).
    """

    granularity: str = "model"
    scope: str = "all"

    def __post_init__(self) -> None:
        group_size(self.granularity)
        one_of("scope", self.scope, SCOPES)

    def __str__(self) -> str:
        return _find.spec(self, PACKAGE)


@dataclass(frozen=True, kw_only=True)
class Scaled(Grouped):
    """Fields of the quantizers whose levels are whole multiples of one number per group.

    Attributes:
        scale: ``"none"``: the levels are as the paper prints them. ``"absmean"``: the same codes, but each
            group is rescaled so that its non-zero levels have the mean magnitude of the weights they stand
            for: mean|w| for signs, and for ternary codes the mean over the weights that were not dropped.
    """

    scale: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("scale", self.scale, SCALES)


def group_size(granularity: str) -> Literal["model", "tensor", "channel"] | int:
    """Read a granularity: one of its three names, or the n of ``"group(n)"``.

    Raises:
        QuantizerError: Anything else.
    """
    if granularity == "model" or granularity == "tensor" or granularity == "channel":
        return granularity
    matched = re.fullmatch(r"group\(([1-9]\d{0,8})\)", granularity) if isinstance(granularity, str) else None
    if matched is None:
        known = ", ".join(repr(name) for name in GRANULARITIES)
        raise QuantizerError(f"granularity must be {known} or 'group(n)' with n >= 1, got {granularity!r}")
    return int(matched[1])


def whole(name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but a whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise QuantizerError(f"{name} must be a whole number from {low} to {high}, got {value!r}")


def one_of(name: str, value: object, known: tuple[object, ...]) -> None:
    """Refuse anything but one of the ``known`` values."""
    if isinstance(value, bool) or value not in known:
        *others, last = map(repr, known)
        listed = f"{', '.join(others)} or {last}" if others else last
        raise QuantizerError(f"{name} must be {listed}, got {value!r}")

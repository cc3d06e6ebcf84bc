"""The quantizers that are compared with each other by default."""

from __future__ import annotations

__all__ = ["PRESETS"]

_METHODS = (
    *(("sign", ""),),
    *(("ternary", f"zeros={share}") for share in (0.33, 0.5, 0.9)),
    *(("uniform", f"bits={bits}") for bits in (2, 3, 4, 5)),
)
_PRACTICE = "granularity='channel', scope='weights', scale='absmean'"

PRESETS: dict[str, tuple[str, ...]] = {
    # "An Indicator of Membership Inference Security in Post-Training Quantized Models", Table 2.
    "paper": tuple(f"{name}({own})" if own else name for name, own in _METHODS),
    # What would be shipped: biases kept, one scale per output channel.
    "scaled": tuple(
        f"{name}({own}, {_PRACTICE})" if own else f"{name}({_PRACTICE})" for name, own in _METHODS
    ),
}
"""Spec strings by preset: ``paper`` quantizes all parameters, unscaled; ``scaled`` is the usual practice."""

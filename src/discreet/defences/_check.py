"""Refuse fields out of their range."""

from __future__ import annotations

import math

__all__ = ["check_range"]


def check_range(
    name: str, value: float | int, low: float | int, high: float | int = math.inf, *, above: bool = False
) -> None:
    """Refuse what is not from ``low`` (or above it) to ``high``, and finite.

    Raises:
        ValueError: Naming the field.

    Example:
        >>> check_range("beta", -1, 0)
        Traceback (most recent call last):
        ValueError: beta: expected 0 or more, got -1
    """
    if (value > low if above else value >= low) and value <= high and math.isfinite(value):
        return
    wanted = f"above {low:g}" if above else f"{low:g} or more"
    wanted += "" if math.isinf(high) else f", at most {high:g}"
    raise ValueError(f"{name}: expected {wanted}, got {value}")

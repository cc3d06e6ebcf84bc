"""Differential privacy of a training, in words: how much of it, and against whom."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context

from discreet._words import number

__all__ = ["AGAINST", "guarantee"]

AGAINST = "only against those who do not know the seed, from which the noise can be repeated"


def guarantee(epsilon: Sequence[float]) -> str:
    """Epsilon at delta, epsilon rounded up: less than it is was not proved.

    Args:
        epsilon: Both, of one training and one record.

    Example:
        >>> guarantee((41.21, 1e-5))
        'ε = 41.3 at δ = 1e-5'
    """
    value, delta = epsilon
    up = Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(float(value)))
    return f"ε = {number(float(up))} at δ = {delta:g}".replace("e-0", "e-")

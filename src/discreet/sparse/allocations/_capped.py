"""Densities in proportion to given numbers, none above 1."""

from __future__ import annotations

import math
from collections.abc import Mapping

from discreet.sparse.allocations._protocol import Shapes

__all__ = ["capped"]


def capped(raw: Mapping[str, float], shapes: Shapes, density: float) -> dict[str, float]:
    """Densities ``eps * raw`` with the ``eps`` that keeps the wanted share of all weights.

    While the largest would be above 1, the tensors with the largest ``raw`` become dense and ``eps`` is solved for
    the others ("Rigging the Lottery: Making All Tickets Winners", section 3 and its released code).

    Args:
        raw: A positive number for each tensor.
        shapes: Of the tensors.
        density: Share of all weights that stays.

    Example:
        >>> capped({"a": 1.0, "b": 4.0}, {"a": (30,), "b": (10,)}, 0.5)
        {'a': 0.3333333333333333, 'b': 1.0}
    """
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    dense: set[str] = set()
    while True:
        left = density * sum(sizes.values()) - sum(sizes[name] for name in dense)
        free = [name for name in shapes if name not in dense]
        eps = left / sum(raw[name] * sizes[name] for name in free)
        most = max(raw[name] for name in free)
        if eps * most <= 1:
            return {name: 1.0 if name in dense else eps * raw[name] for name in shapes}
        dense |= {name for name in free if raw[name] == most}

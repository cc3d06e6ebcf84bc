"""Which way of computing is faster, as measured: the figures of ``measured.json``.

``python benchmarks/tuning/table.py`` writes that file anew for the machine it runs on. Nothing is timed while models
train, so the same call always takes the same way and gives the same bits.
"""

from __future__ import annotations

import json
import math
from functools import cache
from importlib import resources
from typing import Any

from torch import nn

__all__ = ["batches_well", "chunk", "convolves", "sparse_pays", "table"]


@cache
def table() -> dict[str, Any]:
    """The figures, with where and how they were measured under ``about``."""
    return json.loads(resources.files("discreet").joinpath("measured.json").read_text("utf-8"))


def chunk(path: str, parameters: int, batch_size: int) -> int:
    """How many models to train together on one core, from the nearest case measured.

    Args:
        path: ``"written"``, ``"sparse"`` or ``"func"``.
        parameters: Numbers in one model.
        batch_size: Samples a step.

    Example:
        >>> chunk("written", 16_641, 16) >= 8
        True
    """

    def distance(case: dict[str, int]) -> float:
        size = math.log(case["parameters"] / max(1, parameters))
        return abs(size) + 0.5 * abs(math.log(case["batch_size"] / batch_size))

    return int(min(table()["chunk"][path], key=distance)["models"])


def sparse_pays(width: int, share: float) -> bool:
    """Whether summing weight rows beats the dense product.

    Args:
        width: Columns of the inputs.
        share: Of their entries that are not zero.
    """
    return width >= table()["sparse"]["width"] and share <= table()["sparse"]["density"]


def batches_well(convolved: int) -> bool:
    """Whether ``vmap`` over models trains faster than a loop over them.

    Args:
        convolved: Products of one model's convolutions in one step; on a CPU, large ones gain nothing.
    """
    return convolved <= table()["convolutions"]["products"]


def convolves(layer: nn.Module) -> bool:
    """Whether this layer is a convolution."""
    return isinstance(layer, nn.modules.conv._ConvNd)

"""Smaller models of the same kind."""

from __future__ import annotations

import math

from discreet.forward import perceptron
from discreet.initial import Architecture, as_model
from discreet.mlp import MLP
from discreet.phase import Setting
from discreet.sparse import maskable
from discreet.sparse.counts import portion

__all__ = ["narrowed", "weights_of"]

_STEPS = 1024


def narrowed(setting: Setting) -> Architecture:
    """The widest model whose weights fit the budget: floor(density · weights of the big model).

    Hidden widths of a perceptron are multiplied by one share; of other modules ``setting.narrow`` is asked. What
    sparse training does not mask (biases, norms) is not counted.

    Raises:
        ValueError: A module that cannot be narrowed, or not far enough.
    """
    budget = portion(setting.density, weights_of(setting, setting.model))
    if setting.narrow is None and perceptron(as_model(setting.model)) is None:
        raise ValueError(
            "narrow: expected a function that gives the model with its hidden widths multiplied by a share, as the"
            " model is no plain perceptron, got None"
        )
    low, high = 0, _STEPS  # weights grow with the share: halve the range
    while high - low > 1:
        middle = (low + high) // 2
        fits = weights_of(setting, _at(setting, middle / _STEPS)) <= budget
        low, high = (middle, high) if fits else (low, middle)
    found = _at(setting, low / _STEPS)
    if weights_of(setting, found) > budget:
        raise ValueError(
            f"density: {setting.density} leaves {budget} weights; the narrowest model has"
            f" {weights_of(setting, found)}"
        )
    return found


def weights_of(setting: Setting, model: Architecture) -> int:
    """Weights of a model that sparse training would mask by the setting's plan."""
    wishes = setting.plan
    found = maskable(model, *((wishes.include, wishes.exclude) if wishes else (None, ())))
    return sum(math.prod(shape) for shape in found.shapes.values())


def _at(setting: Setting, share: float) -> Architecture:
    if setting.narrow is not None:
        return setting.narrow(max(share, 1 / _STEPS))
    network = perceptron(as_model(setting.model))
    if network is None:
        raise ValueError("narrow: the model is no perceptron")
    first, *hidden, last = network.widths
    return MLP((first, *(max(1, int(share * width)) for width in hidden), last), network.activation)

"""Put parts into the model that is trained, and leave the one that is released as it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import nn

from discreet.initial import Architecture, as_model
from discreet.mlp import MLP
from discreet.phase import Phase

__all__ = ["put_in", "released"]


def put_in(phase: Phase, change: Callable[[nn.Module], None]) -> Phase:
    """The phase with its module changed by ``change``; names of what is released must stay.

    Fresh weights are drawn as before: what is put in must draw after all else, or nothing.
    """
    return replace(phase, model=_rebuilt(phase.model, change), released=released(phase))


def released(phase: Phase) -> Architecture:
    """The model whose parameters come out."""
    return phase.model if phase.released is None else phase.released


def _rebuilt(architecture: Architecture, change: Callable[[nn.Module], None]) -> Architecture:
    if isinstance(architecture, MLP | nn.Module):
        with torch.random.fork_rng(devices=[]):
            module = architecture.module() if isinstance(architecture, MLP) else copy.deepcopy(architecture)
            change(module)
        return module

    def factory() -> nn.Module:
        module = architecture()
        change(module)
        return module

    as_model(factory)  # what cannot be changed is refused here
    return factory

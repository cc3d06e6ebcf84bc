"""Initialise many models of one architecture, each from its own seed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from discreet.forward import stack_of
from discreet.mlp import MLP

__all__ = ["Architecture", "as_model", "fresh", "initialise"]

Architecture = MLP | nn.Module | Callable[[], nn.Module]


def as_model(architecture: Architecture) -> MLP | nn.Module:
    """The model itself; of a factory, what it makes (torch's global random state is put back)."""
    if isinstance(architecture, MLP | nn.Module):
        return architecture
    with torch.random.fork_rng(devices=[]):
        made = architecture()
    if not isinstance(made, nn.Module):
        raise TypeError(f"model: expected a factory of modules, got one of {type(made).__name__}")
    return made


def initialise(
    architecture: Architecture, seeds: Sequence[int], dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """A stack with one freshly initialised model a seed.

    A factory is called, and a module's layers are reset by ``reset_parameters``, right after
    ``torch.manual_seed(seed)``; an ``MLP`` gets the values its layers would.

    Args:
        architecture: An ``MLP``, a module, or a function that makes one.
        seeds: One a model.
        dtype: Of the floating parameters.

    Raises:
        ValueError: A layer with parameters of its own that has no ``reset_parameters``.
    """
    if isinstance(architecture, MLP):
        return architecture.init(seeds, dtype)
    stacks = [stack_of(fresh(architecture, seed)) for seed in seeds]
    return {
        name: torch.cat(
            [stack[name].to(dtype) if value.is_floating_point() else stack[name] for stack in stacks]
        )
        for name, value in stacks[0].items()
    }


def fresh(architecture: nn.Module | Callable[[], nn.Module], seed: int) -> nn.Module:
    """One module, freshly initialised."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if not isinstance(architecture, nn.Module):
            return architecture()
        module = copy.deepcopy(architecture)
        for name, part in module.named_modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
            elif next(part.parameters(recurse=False), None) is not None:
                raise ValueError(
                    f"model: {name or 'the module'} ({type(part).__name__}) has parameters but no reset_parameters;"
                    " give a function that makes the module, or init"
                )
        return module

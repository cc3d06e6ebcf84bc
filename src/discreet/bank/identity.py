"""What an architecture is, as content for a key: its layers, their settings, and the code that computes with them."""

from __future__ import annotations

from typing import Any

from torch import nn

from discreet._code import code_of
from discreet.initial import Architecture, as_model, fresh
from discreet.mlp import MLP

__all__ = ["identity"]

_OF_TORCH = frozenset(vars(nn.Module()))


def identity(architecture: Architecture) -> dict[str, Any]:
    """Describe an architecture so that another one, or other code under the same name, is told apart.

    Args:
        architecture: An ``MLP``, a module, or a function that makes one.

    Returns:
        Plain content: layers with their settings, shapes and types of parameters, values of buffers, and hashes of
        the code of module classes that are not PyTorch's own, with the helpers they call.

    Example:
        >>> identity(MLP((8, 4, 1)))
        {'mlp': [8, 4, 1], 'activation': 'relu'}
    """
    model = as_model(
        architecture if isinstance(architecture, MLP | nn.Module) else lambda: fresh(architecture, 0)
    )
    if isinstance(model, MLP):
        return {"mlp": list(model.widths), "activation": model.activation}
    found: dict[str, Any] = {
        "layers": {name: [repr(type(part)), part.extra_repr()] for name, part in model.named_modules()},
        "parameters": {
            name: f"{list(value.shape)} {value.dtype} {value.requires_grad}"
            for name, value in model.named_parameters()
        },
        "buffers": {name: code_of(value) for name, value in model.named_buffers()},
        "settings": {name: code_of(_settings(part)) for name, part in model.named_modules()},
        "code": {name: code_of(type(part)) for name, part in model.named_modules()},
    }
    if not isinstance(architecture, nn.Module):
        found["factory"] = code_of(architecture)
    return found


def _settings(part: nn.Module) -> dict[str, Any]:
    """What a module was told beside its layers and tensors."""
    return {name: value for name, value in sorted(vars(part).items()) if name not in _OF_TORCH}

"""What an architecture is, as content for a key: its layers, their shapes, and the code that computes with them."""

from __future__ import annotations

import hashlib
from types import CodeType
from typing import Any

from torch import nn

from discreet.initial import Architecture, as_model
from discreet.mlp import MLP

__all__ = ["identity"]


def identity(architecture: Architecture) -> dict[str, Any]:
    """Describe an architecture so that another one, or other code under the same name, is told apart.

    Args:
        architecture: An ``MLP``, a module, or a function that makes one.

    Returns:
        Plain content: layers with their settings, shapes and types of parameters and buffers, and a hash of the
        compiled code of every module class that is not PyTorch's own.

    Example:
        >>> identity(MLP((8, 4, 1)))
        {'mlp': [8, 4, 1], 'activation': 'relu'}
    """
    model = as_model(architecture)
    if isinstance(model, MLP):
        return {"mlp": list(model.widths), "activation": model.activation}
    tensors = [*model.named_parameters(), *model.named_buffers()]
    own = sorted(
        {type(part) for part in model.modules() if not type(part).__module__.startswith("torch.")},
        key=lambda kind: (kind.__module__, kind.__qualname__),
    )
    found: dict[str, Any] = {
        "layers": repr(model),
        "tensors": {name: f"{list(value.shape)} {value.dtype}" for name, value in tensors},
        "code": {f"{kind.__module__}.{kind.__qualname__}": _code(kind) for kind in own},
    }
    if not isinstance(architecture, nn.Module):
        found["factory"] = _code(architecture)
    return found


def _code(thing: Any) -> str:
    """Hash of what a function or a class computes: its compiled code, wherever it was defined."""
    functions = vars(thing).values() if isinstance(thing, type) else [thing]
    digest = hashlib.sha256()
    for each in functions:
        code = getattr(getattr(each, "__func__", each), "__code__", None)
        if code is not None:
            _feed(digest, code)
    return digest.hexdigest()


def _feed(digest: Any, code: CodeType) -> None:
    digest.update(code.co_name.encode() + code.co_code + repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _feed(digest, constant)
        else:
            digest.update(repr(constant).encode())

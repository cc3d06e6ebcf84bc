"""One shape for model outputs: [rows, out], whatever the module returns for a single output."""

from __future__ import annotations

from torch import Tensor

__all__ = ["columns"]


def columns(outputs: Tensor) -> Tensor:
    """Give outputs of shape [rows] a last axis of one.

    Raises:
        TypeError: The module returned something else than a tensor.
        ValueError: Neither [rows] nor [rows, out].
    """
    if not isinstance(outputs, Tensor):
        raise TypeError(f"model: expected a tensor as output, got {type(outputs).__name__}")
    if outputs.ndim == 1:
        return outputs[:, None]
    if outputs.ndim != 2:
        raise ValueError(f"model: expected outputs [rows] or [rows, out], got shape {list(outputs.shape)}")
    return outputs

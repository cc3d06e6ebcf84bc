"""The one thing that a quantizer must do."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from discreet._types import Float
from discreet.quantizers._codes import Codes

__all__ = ["Quantizer"]


@runtime_checkable
class Quantizer(Protocol):
    """A map from weights to a finite set of values, group by group.

    A quantizer is a frozen dataclass whose fields are its parameters and whose ``str`` is its spec. It
    sees groups only: cutting models into groups, packing, checking and files are done around it.
    """

    @property
    def granularity(self) -> str:
        """Which weights form a group: ``model``, ``tensor``, ``channel`` or ``group(n)``."""
        ...

    @property
    def scope(self) -> str:
        """Which tensors are covered: ``all`` floating parameters, or ``weights`` of layers."""
        ...

    @property
    def levels(self) -> int | None:
        """Promise: at most so many values (or blocks of values) in a group; None promises nothing."""
        ...

    def encode(self, groups: Float[Tensor, "group weight"]) -> Codes:
        """Quantize each group by itself.

        The codes of a group depend on that group alone, bit for bit, however many come with it. The input
        is finite, float32 or float64, holds at least one group of at least one weight, and stays unchanged.
        """
        ...

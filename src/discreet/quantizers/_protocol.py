"""The one thing that a quantizer must do."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from discreet._types import Float
from discreet.quantizers._codes import Codes

__all__ = ["NeedsInputs", "Quantizer"]


@runtime_checkable
class Quantizer(Protocol):
    """A map from weights to a finite set of values, group by group.

    A quantizer is a frozen dataclass whose fields are its parameters and whose ``str`` is its spec. It
    sees groups only: cutting models into groups, packing, checking and files are done around it.

    It may have more: ``why_not(shape)``, a reason to refuse tensors of some shapes, or None; ``made_by``, the
    library that does the work, for the record; and the method of ``NeedsInputs``.
    """

    @property
    def granularity(self) -> str:
        """Which weights form a group: ``model``, ``tensor``, ``channel`` or ``group(n)``."""
        ...

    @property
    def scope(self) -> str:
        """Which tensors are covered: ``all`` floating parameters, ``weights`` of layers, or ``linear`` ones alone."""
        ...

    @property
    def levels(self) -> int | None:
        """Promise: at most so many values (or blocks of values) in a group; None promises nothing.

        Where codes have scales for runs of weights inside a group (``Affine``), it is a promise about each run.
        """
        ...

    def encode(self, groups: Float[Tensor, "group weight"]) -> Codes:
        """Quantize each group by itself.

        The codes of a group depend on that group alone, bit for bit, however many come with it. The input
        is finite, float32 or float64, holds at least one group of at least one weight, and stays unchanged.
        """
        ...


@runtime_checkable
class NeedsInputs(Quantizer, Protocol):
    """A quantizer of Linear layers that looks at what goes into each of them.

    Its granularity is ``channel``: rows of the weight are the groups that its codes stand for.
    """

    @property
    def needs_inputs(self) -> bool:
        """True."""
        ...

    def encode_layer(self, weight: Float[Tensor, "out in"], inputs: Float[Tensor, "row in"]) -> Codes:
        """Quantize one layer for these inputs; both are finite and stay unchanged."""
        ...

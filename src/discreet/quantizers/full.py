"""No quantization: the reference that every other quantizer is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from discreet import _find
from discreet._types import Float
from discreet.quantizers._codes import Raw
from discreet.quantizers._fields import PACKAGE

__all__ = ["Full"]


@dataclass(frozen=True)
class Full:
    """The identity. It promises no number of levels, and stores the weights in their own type."""

    def __str__(self) -> str:
        return _find.spec(self, PACKAGE)

    @property
    def granularity(self) -> str:
        """One tensor at a time, so that each is stored in its own type."""
        return "tensor"

    @property
    def scope(self) -> str:
        """All parameters."""
        return "all"

    @property
    def levels(self) -> None:
        """No promise."""
        return None

    def encode(self, groups: Float[Tensor, "group weight"]) -> Raw:
        """The weights themselves."""
        return Raw(groups)

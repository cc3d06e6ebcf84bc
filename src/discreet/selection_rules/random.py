"""The control: any candidate. What a rule is worth is what it gains over this one at the same cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.selection_rules._protocol import Candidate

__all__ = ["Random"]


@dataclass(frozen=True)
class Random:
    """Draw lots."""

    @property
    def needs(self) -> frozenset[str]:
        """Nothing."""
        return frozenset()

    def worth(
        self, candidates: Sequence[Candidate], draw: np.random.Generator
    ) -> Float[np.ndarray, " candidate"]:
        """See ``SelectionRule``."""
        return draw.random(len(candidates))

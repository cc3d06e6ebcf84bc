"""The one that leaks least: the first option of "Safety and Performance, Why not Both?" (2022), section 4.3.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.selection_rules._protocol import Candidate

__all__ = ["Least"]


@dataclass(frozen=True)
class Least:
    """Lowest leak, whatever the task performance."""

    @property
    def needs(self) -> frozenset[str]:
        """The leak."""
        return frozenset({"leak"})

    def worth(
        self, candidates: Sequence[Candidate], draw: np.random.Generator
    ) -> Float[np.ndarray, " candidate"]:
        """See ``SelectionRule``."""
        del draw
        return np.array([-each.leak for each in candidates])

"""L2: the squared size of the weights is added to the loss.

The comparison in Zhu et al., "Safety and Performance, Why not Both?", Table 3. It is the optimizer's weight decay, on
top of what the recipe has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from discreet.defences._check import check_range
from discreet.phase import Phase

__all__ = ["L2"]


@dataclass(frozen=True)
class L2:
    """Add half the sum of squares of all parameters, weighted.

    Attributes:
        weight: Of that sum.
    """

    weight: float | int = 5e-4

    def __post_init__(self) -> None:
        check_range("weight", self.weight, 0)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``.

        Raises:
            ValueError: ``adamw``, whose decay is no part of the loss.
        """
        recipe = phase.recipe
        if recipe.optimizer == "adamw":
            raise ValueError("l2: expected adam or sgd, got adamw, which decays weights apart from the loss")
        return replace(phase, recipe=replace(recipe, weight_decay=recipe.weight_decay + self.weight))

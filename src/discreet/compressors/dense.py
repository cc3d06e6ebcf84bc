"""The big model as it is: what all else is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.phase import Defence, Outcome, Progress, Setting, fresh_phase, run

__all__ = ["Dense"]


@dataclass(frozen=True)
class Dense:
    """Train all weights by the setting's recipe."""

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        phase = fresh_phase(setting)
        for defence in defences:
            phase = defence.apply(phase)
        trained = run(phase, progress=lambda done, of: progress("training", done / of))
        epochs = phase.recipe.epochs
        return Outcome(
            "dense",
            phase.model,
            trained.params,
            trained.masks,
            epochs,
            trained.spent,
            phase.notes,
            phase.epsilon,
        )

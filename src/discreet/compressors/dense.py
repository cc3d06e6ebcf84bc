"""The big model as it is: what all else is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.compressors._common import outcome
from discreet.phase import Defence, Outcome, Progress, Setting, defended, fresh_phase, run

__all__ = ["Dense"]


@dataclass(frozen=True)
class Dense:
    """Train all weights by the setting's recipe."""

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        phase, spent = defended(fresh_phase(setting), defences, progress)
        trained = run(phase, progress=lambda done, of: progress("training", done / of))
        return outcome(self, phase, trained, spent=spent)

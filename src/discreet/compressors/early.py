"""The big model, stopped early: the control that every defence must beat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from discreet._types import Float
from discreet.compressors._chosen import train_and_choose
from discreet.compressors._common import outcome, spec_of
from discreet.compressors._performance import losses, performance
from discreet.compressors.dense import Dense
from discreet.phase import Defence, Outcome, Phase, Progress, Setting

__all__ = ["Early"]

RULES = ("loss", "performance")


@dataclass(frozen=True)
class Early:
    """Train all weights, and keep the epoch that is best on the validation samples, or a given one.

    The whole training counts as spent, as the best epoch is known at its end. ``history`` has the epoch of each run
    and the worth of every epoch.

    Attributes:
        epochs: To train for just so long; None: choose by validation.
        by: ``"loss"`` (lowest mean) or ``"performance"`` (the setting's metric).
    """

    epochs: int | None = None
    by: str = "loss"

    def __post_init__(self) -> None:
        if self.epochs is not None and self.epochs < 1:
            raise ValueError(f"epochs: expected at least 1, or None, got {self.epochs}")
        if self.by not in RULES:
            raise ValueError(f"by: expected one of {', '.join(RULES)}, got {self.by!r}")

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        if self.epochs is not None:
            short = replace(setting, recipe=replace(setting.recipe, epochs=self.epochs))
            return replace(Dense()(short, defences, progress), method=spec_of(self))

        def judge(phase: Phase, params: Mapping[str, Tensor]) -> Float[np.ndarray, " run"]:
            if self.by == "loss":
                return -losses(setting, phase.model, params, setting.roles.validation).mean(axis=1)
            return performance(setting, phase.model, params)

        phase, trained, kept, spent = train_and_choose(setting, defences, progress, judge)
        history = {"epoch": kept.epoch.tolist(), "worth": kept.trace}
        done = outcome(self, phase, trained, spent=spent, history=history)
        return replace(done, epochs=float(kept.epoch.mean()))

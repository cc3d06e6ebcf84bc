"""The big model, stopped as soon as it is as good as a compressed one: what is left is the gain of compression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from torch import Tensor

from discreet._types import Float
from discreet.compressors import parse
from discreet.compressors._chosen import train_and_choose
from discreet.compressors._common import outcome
from discreet.compressors._performance import performance
from discreet.phase import Defence, Outcome, Phase, Progress, Setting

__all__ = ["Matched"]

NOTE = "not differentially private: when it stops was told by a model that was trained without noise"


@dataclass(frozen=True)
class Matched:
    """Train all weights, and keep the first epoch whose validation performance reaches a target.

    A run that never reaches it keeps its best epoch, and a note says so. ``history`` has the target and the epoch of
    each run, and the performance of every epoch.

    Attributes:
        target: Performance by the setting's metric, or the spec string of a compressor that is trained first,
            without the defences, and whose performance in the same run is to be reached.
    """

    target: float | int | str = "set"

    def __post_init__(self) -> None:
        if isinstance(self.target, str):
            parse(self.target)

    def check(self, setting: Setting) -> None:
        """Refuse what the compressor that is to be reached refuses."""
        own = getattr(parse(self.target), "check", None) if isinstance(self.target, str) else None
        if own is not None:
            own(setting)

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        if isinstance(self.target, str):
            other = parse(self.target)(setting, (), progress)
            wanted, before = performance(setting, other.model, other.params), other.spent
        else:
            wanted, before = np.full(setting.runs, float(self.target)), 0.0

        def judge(phase: Phase, params: Mapping[str, Tensor]) -> Float[np.ndarray, " run"]:
            return performance(setting, phase.model, params)

        phase, trained, kept, spent = train_and_choose(setting, defences, progress, judge, wanted)
        missed = np.flatnonzero(kept.worth < wanted).tolist()
        notes = (f"runs {', '.join(map(str, missed))} never reached the target; they keep their best epoch",)
        history = {"target": wanted.tolist(), "epoch": kept.epoch.tolist(), "worth": kept.trace}
        done = outcome(
            self, phase, trained, spent=before + spent, notes=notes if missed else (), history=history
        )
        done = replace(done, epochs=float(kept.epoch.mean()))
        if done.epsilon is not None and isinstance(self.target, str):
            return replace(done, epsilon=None, notes=(*done.notes, NOTE))
        return done

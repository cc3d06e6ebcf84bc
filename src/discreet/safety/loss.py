"""Yeom et al., "Privacy Risk in Machine Learning" (2018): members have lower losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from discreet._types import Float
from discreet.safety._judge import best_threshold, check_metric, judge
from discreet.safety._protocol import Answers, Case, Found
from discreet.signals import signals

__all__ = ["Loss"]


@dataclass(frozen=True)
class Loss:
    """One threshold on the loss, for any task.

    Attributes:
        metric: ``accuracy``, ``auc`` or ``tpr@RATE``.
    """

    metric: str = "accuracy"

    def __post_init__(self) -> None:
        check_metric(self.metric)

    @property
    def needs(self) -> frozenset[str]:
        """Nothing more."""
        return frozenset()

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        del seeds, init
        found = []
        for case in cases:
            threshold = best_threshold(_score(case.known), case.known_member)
            found.append(judge(_score(case.judged), case.judged_member, self.metric, threshold=threshold))
        return found


def _score(answers: Answers) -> Float[np.ndarray, " sample"]:
    given = torch.from_numpy(answers.outputs), torch.from_numpy(answers.label)
    return -signals(*given, answers.task, ["loss"])["loss"].numpy()

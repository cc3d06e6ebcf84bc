"""Song and Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models" (2021), section 3.2 and Eq. 8.

One threshold a class on the modified entropy: nothing to train, and as strong as attack networks on networks that
memorise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from discreet._types import Bool, Float
from discreet.safety._evidence import check_classes
from discreet.safety._judge import best_threshold, check_metric, judge
from discreet.safety._protocol import Answers, Case, Found
from discreet.signals import signals

__all__ = ["Modified"]


@dataclass(frozen=True)
class Modified:
    """Modified entropy against the threshold of the sample's class.

    Attributes:
        metric: ``accuracy``, ``auc`` or ``tpr@RATE``.
        least: A class with fewer known members or non-members uses the threshold of all classes.
    """

    metric: str = "accuracy"
    least: int = 20

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.least < 1:
            raise ValueError(f"least: expected at least 1, got {self.least}")

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
            check_classes(case.judged, "modified")
            known = _score(case.known)
            thresholds = self._thresholds(known, case.known.label, case.known_member)
            overall = best_threshold(known, case.known_member)
            edge = np.array([thresholds.get(int(label), overall) for label in case.judged.label])
            found.append(judge(_score(case.judged) - edge, case.judged_member, self.metric))
        return found

    def _thresholds(
        self, scores: Float[np.ndarray, " known"], label: np.ndarray, member: Bool[np.ndarray, " known"]
    ) -> dict[int, float]:
        found = {}
        for each in np.unique(label):
            here = label == each
            inside = int(member[here].sum())
            if min(inside, int(here.sum()) - inside) >= self.least:
                found[int(each)] = best_threshold(scores[here], member[here])
        return found


def _score(answers: Answers) -> Float[np.ndarray, " sample"]:
    given = torch.from_numpy(answers.outputs), torch.from_numpy(answers.label)
    return -signals(*given, answers.task, ["modified_entropy"])["modified_entropy"].numpy()

"""Zhu et al., "Safety and Performance, Why not Both?" (2022), Figure 6: the paper's simulated attacker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from discreet import learners
from discreet.safety._evidence import evidence
from discreet.safety._judge import check_metric, judge
from discreet.safety._protocol import Case, Found

__all__ = ["Whitebox"]


@dataclass(frozen=True)
class Whitebox:
    """The attack network of ``learners.neural_whitebox``, trained for each model by itself.

    Attributes:
        learner: Its settings, a spec string.
        metric: ``accuracy``, ``auc`` or ``tpr@RATE``.
    """

    learner: str = "neural_whitebox"
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if not self.learner.startswith("neural_whitebox"):
            raise ValueError(f"learner: expected neural_whitebox with settings, got {self.learner!r}")
        learners.parse(self.learner)

    @property
    def needs(self) -> frozenset[str]:
        """What the last layer takes in."""
        return frozenset({"hidden"})

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        learner: Any = learners.parse(self.learner)
        found = []
        for place, (case, seed) in enumerate(zip(cases, seeds, strict=True)):
            known, judged = (evidence(each, hidden=True) for each in (case.known, case.judged))
            start = None if init is None else init[place].attacker
            attacker = learner.fit(known, case.known_member, seed=seed, init=start)
            found.append(judge(attacker.score(judged), case.judged_member, self.metric, attacker=attacker))
        return found

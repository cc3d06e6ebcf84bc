"""Any attack of ``discreet.attacks``, by its spec string, on a model in the making."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from discreet import attacks
from discreet._types import Float
from discreet.records import Record, RecordError
from discreet.safety._judge import best_threshold, check_metric, judge
from discreet.safety._protocol import Case, Found
from discreet.signals import CLASSIFICATION, REGRESSION, signals

__all__ = ["Attack"]

_TARGET = "target"


@dataclass(frozen=True)
class Attack:
    """An attack that is called as on a finished model; a threshold on its scores is learnt on the known samples.

    Attacks that compare models (``rmia``, ``lira`` …) are given those of the other runs, so they need several.

    Attributes:
        attack: Spec string.
        metric: ``accuracy``, ``auc`` or ``tpr@RATE``.
    """

    attack: str = "loss"
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        check_metric(self.metric)
        attacks.parse(self.attack)

    @property
    def needs(self) -> frozenset[str]:
        """Models of other runs."""
        return frozenset({"references"})

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        del seeds, init
        found = []
        for case in cases:
            scores = self._scores(case)
            known, judged = np.split(scores, [len(case.known)])
            threshold = best_threshold(known, case.known_member)
            found.append(judge(judged, case.judged_member, self.metric, threshold=threshold))
        return found

    def _scores(self, case: Case) -> Float[np.ndarray, " sample"]:
        task = case.known.task
        own = np.concatenate([case.known.outputs, case.judged.outputs])
        others = [np.concatenate([each.known, each.judged]) for each in case.references]
        outputs = np.stack([own, *others])
        label = np.concatenate([case.known.label, case.judged.label])
        told = list(REGRESSION if task == "mse" else CLASSIFICATION)
        found = signals(torch.from_numpy(outputs), torch.from_numpy(label), task, ["loss", *told])
        member = [np.concatenate([case.known_member, case.judged_member])]
        member += [np.concatenate([each.known_member, each.judged_member]) for each in case.references]
        runs = (_TARGET, *(f"other {number}" for number in range(len(others))))
        known = np.full(outputs.shape[:2], -1, np.int8)
        known[0, : len(case.known)] = case.known_member
        values = {name: each.numpy() for name, each in found.items()}
        extra = {"outputs": outputs, "label": label, "known": known} if task != "mse" else {"known": known}
        record = Record(
            run=runs,
            step=np.ones(len(runs)),
            variant=("candidate",) * len(runs),
            sample=np.concatenate([case.known.sample, case.judged.sample]),
            signals=values | extra,
            axes={"outputs": ("row", "sample", "class")} if task != "mse" else {},
            member=np.stack(member),
        )
        try:
            return attacks.parse(self.attack)(record.blind(_TARGET), 0)
        except RecordError as error:
            raise ValueError(f"attack: {self.attack} cannot be run while a model is made: {error}") from error

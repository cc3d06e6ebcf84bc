"""Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023), the attack A_q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from discreet._types import Bool, Float, Num
from discreet.attacks._own import own_score
from discreet.attacks._public import Roles, features, labels, roles
from discreet.attacks._references import SIGNALS, check_choice
from discreet.records import Record
from discreet.records.laws import quoted

if TYPE_CHECKING:
    from discreet.learners import Selection

__all__ = ["Quantile"]


@dataclass(frozen=True, eq=False)
class Fitting:
    """What one attack fitted, and what came of it.

    Attributes:
        scores: One score a sample; higher = more likely member.
        selection: Every learner tried, with its held-out pinball loss and its share of crossed quantiles.
        roles: Which public samples were fitted on, and which no fit saw.
    """

    scores: Float[np.ndarray, " sample"]
    selection: Selection
    roles: Roles


@dataclass(frozen=True)
class Quantile:
    """How high a sample's score is for such a sample, by quantile regression on known non-members.

    No other model is trained: the attacker needs the target's scores on non-members (see
    ``Record.signals``: ``public``) and something known of each sample (``features``). The paper accuses where
    the score exceeds the predicted 1 - alpha quantile. Here each sample gets the level that its score attains
    (or its standardised residual), which gives the same accusations at every alpha from one fit.

    The level is a prediction. Only calibration on samples that no fit saw, see :meth:`untouched`, turns it
    into a false positive rate.

    Attributes:
        learner: Spec string of what predicts the quantiles, see ``discreet.learners``; of several, the one
            with the least held-out pinball loss at the level 1 - ``alpha``.
        signal: The score: ``"margin"`` as in the paper, ``"confidence"`` or ``"loss"``.
        label: Predict from features and label; False: from features alone.
        folds: Parts of the samples fitted on; each is judged and scored by a fit on the others.
        calibrate: Share of public samples that no fit sees.
        seed: Of the split, the fits and the search.
        trials: Hyper-parameter settings to try beside the learners as given (needs Optuna).
        alpha: False positive rate at which learners are compared.
    """

    learner: str | tuple[str, ...] = "pinball"
    signal: str = "margin"
    label: bool = True
    folds: int = 5
    calibrate: float = 0.3
    seed: int = 0
    trials: int = 0
    alpha: float = 0.01

    def __post_init__(self) -> None:
        check_choice("signal", self.signal, SIGNALS)
        if not self.learner:
            raise ValueError("learner: expected the spec of at least one learner, got none")
        if self.folds < 2:
            raise ValueError(f"folds: expected at least 2, got {self.folds}")
        if not 0 <= self.calibrate < 1:
            raise ValueError(f"calibrate: expected a share from 0 to below 1, got {self.calibrate}")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha: expected a rate above 0 and below 1, got {self.alpha}")
        for name in ("seed", "trials"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: expected at least 0, got {getattr(self, name)}")

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        return self.fit(blind, row).scores

    def untouched(self, blind: Record, row: int) -> Bool[np.ndarray, " sample"]:
        """Public samples that no fit saw; their scores are exchangeable with those of fresh non-members."""
        del row
        return roles(blind, self.calibrate, self.seed).calibrate

    def fit(self, blind: Record, row: int) -> Fitting:
        """Choose a learner, fit it and score every sample.

        Samples that were fitted on get the score of a fit that left out their fold: judged by a fit that saw
        them, non-members look like members where the fit is close to them.

        Raises:
            RecordError: No public samples, too few of them, no features, or a label that none of them has.
            SpecError: Unknown learner, or one whose package is not installed.
        """
        from discreet import learners

        specs = (self.learner,) if isinstance(self.learner, str) else self.learner
        tried = [learners.quantile_learner(spec) for spec in specs]
        split = roles(blind, self.calibrate, self.seed)
        # Everything is computed in the order of ids, so that the record's order changes no byte.
        order = np.argsort(blind.sample, kind="stable")
        chosen = np.flatnonzero(split.fit[order])
        x, s = self.known(blind)[order], own_score(blind, row, self.signal)[order]
        y = self._labels(blind, split)
        y = None if y is None else y[order]
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.cumsum(split.fit[order]) - 1
        try:
            fold = learners.deal(place[split.order], None if y is None else y[chosen], self.folds)
        except ValueError as error:
            raise blind.error(f"public samples to fit on: {error}") from None
        own = None if y is None else y[chosen]
        selection = learners.select(
            tried, x[chosen], own, s[chosen], fold, level=1 - self.alpha, seed=self.seed, trials=self.trials
        )
        best = selection.best
        fitted = best.learner.fit(
            x[chosen], own, s[chosen], levels=selection.levels, seed=learners.fold_seed(self.seed, self.folds)
        )
        scores = fitted.score(x, y, s)
        scores[chosen] = best.scores
        found = np.empty(len(order))
        found[order] = scores
        return Fitting(found, selection, split)

    def known(self, blind: Record) -> Num[np.ndarray, " sample *feature"]:
        """What scores are predicted from.

        Raises:
            RecordError: The record lacks it.
        """
        return features(blind)

    def _labels(self, blind: Record, split: Roles) -> np.ndarray | None:
        if not self.label:
            return None
        found = labels(blind)
        unseen = ~np.isin(found, found[split.fit])
        if unseen.any():
            raise blind.error(
                f"label: no public sample to fit on has the label {quoted(found[unseen][0])} ({int(unseen.sum())} "
                "samples have such labels); use label=False to predict from features alone"
            )
        return found

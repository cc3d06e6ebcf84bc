"""Boosting with CatBoost (Prokhorenkova et al. (2018)): mean and scale as in Bertran et al. (2023), or quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import catboost
import numpy as np

from discreet._types import Float, Num
from discreet.learners._design import Design, Scale, check_fit
from discreet.learners._predictors import Curves, LocationScale
from discreet.learners._space import Choice, Range

__all__ = ["CatBoost"]

_HEADS = ("gaussian", "levels")


@dataclass(frozen=True)
class CatBoost:
    """Boosted symmetric trees with one output a level, or a mean and a log-scale.

    Attributes:
        head: ``"gaussian"`` (objective RMSEWithUncertainty, a normal distribution's likelihood) or
            ``"levels"`` (objective MultiQuantile, pinball loss).
        trees: Number of trees.
        depth: Depth of each tree.
        learning_rate: Weight of each tree.
        l2: Penalty on leaf values.
    """

    head: str = "gaussian"
    trees: int = 200
    depth: int = 4
    learning_rate: float = 0.05
    l2: float = 3.0

    def __post_init__(self) -> None:
        if self.head not in _HEADS:
            raise ValueError(f"head: expected one of {', '.join(_HEADS)}, got {self.head!r}")
        if self.trees < 1 or not 1 <= self.depth <= 16:
            raise ValueError(
                f"trees and depth: expected at least 1, and 1 to 16, got {self.trees}, {self.depth}"
            )
        if not self.learning_rate > 0 or not self.l2 >= 0:
            raise ValueError(
                f"learning_rate and l2: expected above 0 and not below, got {self.learning_rate}, {self.l2}"
            )

    def fit(
        self,
        x: Num[np.ndarray, " n *feature"],
        y: np.ndarray | None,
        s: Float[np.ndarray, " n"],
        *,
        levels: Float[np.ndarray, " level"],
        seed: int,
    ) -> Curves | LocationScale:
        """Grow one ensemble for all outputs; see ``QuantileLearner.fit``."""
        s, levels = check_fit(x, y, s, levels)
        design, scale = Design.of(x, y), Scale.of(s)
        alphas = ",".join(f"{level:.12g}" for level in levels)
        table = design.table(x, y)
        # Trees need something to split on.
        flat = bool((table == table[0]).all())
        model = catboost.CatBoostRegressor(
            loss_function="RMSEWithUncertainty"
            if self.head == "gaussian"
            else f"MultiQuantile:alpha={alphas}",
            iterations=self.trees,
            depth=self.depth,
            learning_rate=self.learning_rate,
            l2_leaf_reg=self.l2,
            random_seed=seed % 2**31,
            thread_count=1,
            verbose=False,
            allow_writing_files=False,
        )
        target = scale(s)
        if not flat and np.ptp(target) > 0:
            model.fit(table, target)

        def outputs(x: np.ndarray, y: np.ndarray | None) -> np.ndarray:
            rows = design.table(x, y)
            if not model.is_fitted():
                start = [target.mean(), np.log(target.std() or 1.0)]
                constant = start if self.head == "gaussian" else np.quantile(target, levels)
                return np.tile(constant, (len(rows), 1))
            # Raw: the second output is log sigma, where the prediction of an "uncertainty" is sigma squared.
            found = np.asarray(model.predict(rows, prediction_type="RawFormulaVal", thread_count=1))
            return found.reshape(len(rows), -1)

        if self.head == "levels":
            return Curves.of(levels, scale, outputs, x, y)
        return LocationScale(levels, scale, outputs)

    def space(self) -> Mapping[str, Range | Choice]:
        return {
            "trees": Range(20, 1000, log=True),
            "depth": Range(1, 8),
            "learning_rate": Range(0.01, 0.5, log=True),
            "l2": Range(0.1, 1000.0, log=True),
        }

"""Quantile boosting with LightGBM (Ke et al. (2017)), one ensemble a level: pinball loss as objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import lightgbm
import numpy as np

from discreet._types import Float, Num
from discreet.learners._design import Design, Scale, check_fit
from discreet.learners._predictors import Curves
from discreet.learners._space import Choice, Range

__all__ = ["LightGBM"]


@dataclass(frozen=True)
class LightGBM:
    """Boosted trees for each level on its own.

    Attributes:
        trees: Trees a level.
        leaves: Most leaves of a tree.
        learning_rate: Weight of each tree.
        leaf_rows: Least rows in a leaf. A leaf's value is a quantile of its rows' residuals, so a high
            level needs many.
        l2: Penalty on leaf values.
    """

    trees: int = 100
    leaves: int = 8
    learning_rate: float = 0.1
    leaf_rows: int = 20
    l2: float = 1.0

    def __post_init__(self) -> None:
        for name, least in (("trees", 1), ("leaves", 2), ("leaf_rows", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
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
    ) -> Curves:
        """Grow one ensemble a level; see ``QuantileLearner.fit``."""
        s, levels = check_fit(x, y, s, levels)
        design, scale = Design.of(x, y), Scale.of(s)
        settings = {
            "objective": "quantile",
            "num_leaves": self.leaves,
            "learning_rate": self.learning_rate,
            # Fewer rows than two leaves hold would leave the trees without a split.
            "min_data_in_leaf": min(self.leaf_rows, max(1, len(s) // 4)),
            "lambda_l2": self.l2,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": seed % 2**31,
            "verbosity": -1,
        }
        data = lightgbm.Dataset(design.table(x, y), scale(s), params={"verbosity": -1}, free_raw_data=False)
        grown = [
            lightgbm.train(settings | {"alpha": float(level)}, data, num_boost_round=self.trees)
            for level in levels
        ]

        def outputs(x: np.ndarray, y: np.ndarray | None) -> np.ndarray:
            table = design.table(x, y)
            return np.stack([np.asarray(each.predict(table, num_threads=1)) for each in grown], axis=1)

        return Curves.of(levels, scale, outputs, x, y)

    def space(self) -> Mapping[str, Range | Choice]:
        return {
            "trees": Range(20, 500, log=True),
            "leaves": Range(2, 31, log=True),
            "learning_rate": Range(0.01, 0.3, log=True),
            "leaf_rows": Range(5, 200, log=True),
            "l2": Range(0.01, 100.0, log=True),
        }

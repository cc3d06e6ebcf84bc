"""The one thing that a quantile learner must do, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from discreet._types import Float, Num
from discreet.learners._space import Choice, Range

__all__ = ["Predictor", "QuantileLearner"]


@runtime_checkable
class Predictor(Protocol):
    """The distribution of a score given the record, as it was fitted. Each row is predicted by itself."""

    def quantiles(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None
    ) -> Float[np.ndarray, "n level"]:
        """Quantiles of the score at the levels of the fit, never falling along them."""
        ...

    def score(
        self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None, s: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """How high each record's score is among scores of such records, in standard normal units.

        Rises with ``s``, so one fit gives the whole ROC curve. Only its order means something: the
        distribution was fitted, so a score above 2.33 is no proof of a false positive rate of 1 %.
        """
        ...

    def crossed(self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> float:
        """Share of rows whose quantiles were out of order before they were sorted."""
        ...


@runtime_checkable
class QuantileLearner(Protocol):
    """A frozen dataclass whose fields are its hyper-parameters."""

    def fit(
        self,
        x: Num[np.ndarray, " n *feature"],
        y: np.ndarray | None,
        s: Float[np.ndarray, " n"],
        *,
        levels: Float[np.ndarray, " level"],
        seed: int,
    ) -> Predictor:
        """Fit the distribution of ``s`` given ``x``, and ``y`` if it is given; one thread, the same for a seed.

        Args:
            x: Features, or images [n, channel, height, width].
            y: Class labels, numbers or text; None for a distribution that does not know them.
            s: Scores of records that the audited model was not trained on.
            levels: Levels of the quantiles, rising, each between 0 and 1.
            seed: Of everything random.

        Raises:
            ValueError: An argument does not fit the others, or has values that are not finite.
        """
        ...

    def space(self) -> Mapping[str, Range | Choice]:
        """Fields worth a search, and where."""
        ...

"""What a representation says of an attribute: "Safety and Performance, Why not Both?" (2022), section 4.4.

The attacker sees what the last layer takes in and learns, on samples whose attribute it knows, to tell a private
attribute: logistic regression as in Kosinski et al., "Private traits and attributes are predictable from digital
records of human behavior" (2013), or a basket of learners, of which the strongest counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._types import Float, Num
from discreet.estimate import Estimate
from discreet.intervals import wilson
from discreet.safety._judge import LEVEL
from discreet.safety._protocol import Case, Found

__all__ = ["Attribute"]

_LEARNERS = ("linear", "neighbours", "trees")
_METRICS = ("accuracy", "mae")


@dataclass(frozen=True)
class Attribute:
    """How well an attribute can be told from the representation.

    Attributes:
        learners: Of ``linear`` (logistic regression, or ridge for numbers), ``neighbours`` and ``trees``.
        metric: ``accuracy`` of a class (leaks more the higher), or ``mae``, the mean absolute error of a number,
            which leaks more the lower: its leak is the error of the median guess divided by it.
    """

    learners: tuple[str, ...] = ("linear",)
    metric: str = "accuracy"

    def __post_init__(self) -> None:
        unknown = [each for each in self.learners if each not in _LEARNERS]
        if unknown or not self.learners:
            raise ValueError(f"learners: expected some of {', '.join(_LEARNERS)}, got {self.learners!r}")
        if self.metric not in _METRICS:
            raise ValueError(f"metric: expected accuracy or mae, got {self.metric!r}")

    @property
    def needs(self) -> frozenset[str]:
        """The representation and the attribute."""
        return frozenset({"hidden", "attribute"})

    def __call__(
        self, cases: Sequence[Case], *, seeds: Sequence[int], init: Sequence[Found] | None = None
    ) -> list[Found]:
        """See ``SafetyTest``."""
        del init
        return [self._one(case, seed) for case, seed in zip(cases, seeds, strict=True)]

    def _one(self, case: Case, seed: int) -> Found:
        if case.known.hidden is None or case.judged.hidden is None:
            raise ValueError("hidden: expected what the last layer takes in, got nothing")
        if case.known.attribute is None or case.judged.attribute is None:
            raise ValueError("attribute: expected the private attribute of every sample, got none")
        _check_kind(case.known.attribute, self.metric)
        order = np.argsort(case.known.sample, kind="stable")
        x, a = case.known.hidden[order], case.known.attribute[order]
        judge = self._mae if self.metric == "mae" else self._accuracy
        parts = {}
        for name in self.learners:
            told = _fit(name, self.metric, seed).fit(x, a).predict(case.judged.hidden)
            parts[name] = judge(told, case.judged.attribute, a)
        worst = max(parts.values(), key=lambda each: each.leak)
        return Found(worst.leak, worst.value, worst.metric, None, None, parts)

    @staticmethod
    def _accuracy(told: Num[np.ndarray, " n"], true: Num[np.ndarray, " n"], known: np.ndarray) -> Found:
        values, counts = np.unique(known, return_counts=True)
        guess = float((true == values[counts.argmax()]).mean())
        hits, n = int((told == true).sum()), len(true)
        low, high = wilson(hits, n, level=LEVEL)
        value = Estimate(hits / n, low, high, n, LEVEL, "Wilson's interval")
        return Found(max(guess, hits / n), value, "accuracy")

    @staticmethod
    def _mae(told: Float[np.ndarray, " n"], true: Num[np.ndarray, " n"], known: np.ndarray) -> Found:
        wrong = np.abs(told - true)
        guess = float(np.abs(true - np.median(known)).mean())
        n, mean = len(wrong), float(wrong.mean())
        half = 1.959963984540054 * float(wrong.std(ddof=1)) / np.sqrt(n)
        value = Estimate(mean, mean - half, mean + half, n, LEVEL, "normal interval of a mean")
        return Found(max(1.0, guess / max(mean, 1e-300)), value, "mae")


def _check_kind(attribute: np.ndarray, metric: str) -> None:
    """Refuse an attribute that the metric cannot judge.

    Raises:
        ValueError: Numbers that are no classes for an accuracy, or no numbers for an error.
    """
    number = attribute.dtype.kind in "biuf"
    if metric == "mae" and not number:
        raise ValueError(f"attribute: expected numbers for the metric mae, got {attribute.dtype}")
    if metric == "accuracy" and attribute.dtype.kind == "f" and (attribute != np.floor(attribute)).any():
        raise ValueError(
            "attribute: expected classes for the metric accuracy, got numbers that are not whole; use"
            " attribute(metric='mae')"
        )


def _fit(name: str, metric: str, seed: int) -> Any:
    try:
        from sklearn import ensemble, linear_model, neighbors, pipeline, preprocessing
    except ImportError as error:
        raise ValueError(
            "attribute: this test needs scikit-learn: pip install 'discreet[compress]'"
        ) from error
    number = metric == "mae"
    if name == "linear":
        model: Any = linear_model.Ridge() if number else linear_model.LogisticRegression(max_iter=1000)
    elif name == "neighbours":
        model = neighbors.KNeighborsRegressor(15) if number else neighbors.KNeighborsClassifier(15)
    else:
        forest = ensemble.ExtraTreesRegressor if number else ensemble.ExtraTreesClassifier
        model = forest(100, min_samples_leaf=3, random_state=seed % 2**31, n_jobs=1)
    return pipeline.make_pipeline(preprocessing.StandardScaler(), model)

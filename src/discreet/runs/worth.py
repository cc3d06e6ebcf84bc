"""How well runs do their task: a figure for each, and what each sample did to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float, Int
from discreet.auc import auc, auc_parts
from discreet.crossed import crossed
from discreet.estimate import Estimate
from discreet.records import Record

__all__ = ["Worth", "metric_of", "worth"]

_METRICS = {"bce": "auroc", "ce": "accuracy", "mse": "r2", "lm": "token likelihood"}


@dataclass(frozen=True, eq=False)
class Worth:
    """Task performance of the same model of each run; higher is better.

    Attributes:
        metric: ``"auroc"``, ``"accuracy"``, ``"r2"`` or ``"token likelihood"``.
        values: Of each run.
        influence: How much each sample moved it: its squares add up to the variance of the run's figure.
        outputs: For ``"auroc"``: the logit of the positive class, which its interval is taken from.
        positive: For ``"auroc"``: the answer.
    """

    metric: str
    values: Float[np.ndarray, " run"]
    influence: Float[np.ndarray, "run sample"]
    outputs: np.ndarray | None = None
    positive: np.ndarray | None = None

    def estimate(self, pairs: Int[np.ndarray, " run"], *, level: float) -> Estimate:
        """The mean over runs, runs and samples crossed.

        Args:
            pairs: Equal numbers mark runs with complementary training halves.
            level: Confidence level.
        """
        if self.outputs is not None and self.positive is not None:
            return auc(self.outputs, np.tile(self.positive, (len(self.values), 1)), level=level)
        spread = crossed(self.values, self.influence, pairs)
        value = float(np.sort(self.values).mean())
        half = spread.quantile(level) * float(np.sqrt(spread.variance))
        low, high = value - half, min(1.0, value + half)
        if self.metric in ("accuracy", "token likelihood"):
            low = max(0.0, low)
        how = "normal interval, runs x samples crossed"
        return Estimate(value, min(low, value), max(high, value), self.influence.shape[1], level, how)


def metric_of(task: str) -> str:
    """The metric of a task.

    Example:
        >>> metric_of("ce")
        'accuracy'
    """
    return _METRICS[task]


def worth(record: Record, rows: Int[np.ndarray, " run"], task: str) -> Worth:
    """Task performance of some models of a record, from their margins, or for ``mse`` and ``lm`` their losses.

    Args:
        record: Measurements on samples that no run trained on.
        rows: One a run.
        task: ``"bce"``: AUROC; ``"ce"``: accuracy (ties are no hit); ``"mse"``: R², 1 less the mean squared error
            over the variance of the targets, which is held fixed; ``"lm"``: the geometric mean likelihood of a token,
            exp(-mean loss) over texts, which is 1 / perplexity.

    Raises:
        ValueError: Equal targets, of which R² is not defined.
    """
    if task == "lm":
        return _likelihood(np.asarray(record.signal("loss")[rows], np.float64))
    label = np.asarray(record.signal("label"))
    if task == "bce":
        margin = np.asarray(record.signal("margin")[rows], np.float64)
        positive = label == 1
        outputs = np.where(positive, 1.0, -1.0) * margin  # a margin speaks for the true class
        parts = auc_parts(outputs, np.tile(positive, (len(rows), 1)), np.ones(outputs.shape, bool))
        return Worth("auroc", parts.values, parts.influence, outputs, positive)
    if task == "ce":
        scores = (np.asarray(record.signal("margin")[rows]) > 0).astype(np.float64)
    else:
        target = label.astype(np.float64)
        spread = float(((target - target.mean(axis=0)) ** 2).mean())
        if spread == 0:
            raise ValueError("y: expected targets that differ, got equal ones; R² is not defined")
        scores = 1 - np.asarray(record.signal("loss")[rows], np.float64) / spread
    values = scores.mean(axis=1)
    n = scores.shape[1]
    return Worth(_METRICS[task], values, (scores - values[:, None]) / np.sqrt(n * max(n - 1, 1)))


def _likelihood(losses: Float[np.ndarray, "run sample"]) -> Worth:
    """exp(-mean loss), its influence by the delta method."""
    mean = losses.mean(axis=1)
    values, n = np.exp(-mean), losses.shape[1]
    influence = values[:, None] * (mean[:, None] - losses) / np.sqrt(n * max(n - 1, 1))
    return Worth(_METRICS["lm"], values, influence)

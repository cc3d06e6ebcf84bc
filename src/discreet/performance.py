"""How well a model does its task: one number of a kind, higher is better, with its interval."""

from __future__ import annotations

import importlib

import numpy as np
import torch

from discreet._find import near
from discreet._types import Float, Num
from discreet.auc import auc
from discreet.estimate import Estimate
from discreet.intervals import wilson
from discreet.signals import signals

__all__ = ["METRICS", "check_metric", "performance"]

LEVEL = 0.95
METRICS = {"accuracy": ("bce", "ce"), "auroc": ("bce",), "r2": ("mse",)}
"""Names of metrics, and the tasks they are for; the first that fits is the default."""


def check_metric(metric: str, task: str) -> str:
    """The metric's name, the task's default for none.

    Args:
        metric: ``accuracy``, ``auroc``, ``r2``, the dotted path ``package.module:function`` of a function
            ``(outputs [sample, out], y [sample]) -> score of each sample``, whose mean counts, or nothing.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.

    Raises:
        ValueError: No such metric for this task.

    Example:
        >>> check_metric("", "mse")
        'r2'
    """
    fitting = [name for name, tasks in METRICS.items() if task in tasks]
    if not metric:
        return fitting[0]
    if metric in fitting or ":" in metric:
        return metric
    raise ValueError(
        f"metric: expected {' or '.join(fitting)} for {task}, or package.module:function, got {metric!r}"
        f"{near(metric, fitting)}"
    )


def performance(
    outputs: Float[np.ndarray, "sample out"],
    y: Num[np.ndarray, " sample *target"],
    task: str,
    metric: str = "",
) -> Estimate:
    """Measure task performance from raw outputs.

    Args:
        outputs: Raw outputs.
        y: Labels or targets.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        metric: See ``check_metric``.

    Returns:
        Accuracy (ties are no hit), AUROC, R² (1 less the mean squared error over the variance of the targets, which
        is held fixed in the interval), or the mean of the user's scores; n counts samples.

    Raises:
        ValueError: No such metric, or one that cannot be computed.
        CalledError: A function of the user's raised.

    Example:
        >>> performance(np.array([[2.0], [-1.0], [3.0]]), np.array([1, 0, 0]), "bce").value
        0.6666666666666666
    """
    name = check_metric(metric, task)
    n = len(outputs)
    if name == "accuracy":
        given = torch.from_numpy(outputs), torch.from_numpy(np.ascontiguousarray(y))
        hits = int(signals(*given, task, ["correct"])["correct"].sum())
        low, high = wilson(hits, n, level=LEVEL)
        return Estimate(hits / n, low, high, n, LEVEL, "Wilson's interval")
    if name == "auroc":
        return auc(outputs[:, 0].astype(np.float64), y > 0, level=LEVEL)
    if name == "r2":
        target = np.asarray(y, np.float64).reshape(outputs.shape)
        spread = float(((target - target.mean(axis=0)) ** 2).mean())
        if spread == 0:
            raise ValueError("y: expected targets that differ, got equal ones; R² is not defined")
        return _mean(1 - ((outputs - target) ** 2).mean(axis=1) / spread)
    return _mean(_own(name, outputs, y))


def _own(
    name: str, outputs: Float[np.ndarray, "sample out"], y: Num[np.ndarray, " sample *target"]
) -> Float[np.ndarray, " sample"]:
    """Scores by a function of the user."""
    from discreet.spec import Named  # here, as specs import what measures performance

    path, _, function = name.partition(":")
    score = getattr(importlib.import_module(path), function)
    call = Named(lambda: np.asarray(score(outputs, y), np.float64), name, "metric")
    scores = call(f"on outputs of shape {list(outputs.shape)} and labels of shape {list(y.shape)}")
    if scores.shape != (len(outputs),):
        raise ValueError(
            f"metric: expected one score for each of {len(outputs)} samples from {name}, got {list(scores.shape)}"
        )
    bad = np.flatnonzero(~np.isfinite(scores))
    if len(bad):
        raise ValueError(
            f"metric: expected finite scores from {name}, got {scores[bad[0]]:g} at position {bad[0]}"
            f" ({len(bad)} such)"
        )
    return scores


def _mean(scores: Float[np.ndarray, " sample"]) -> Estimate:
    from scipy import special

    mean, n = float(scores.mean()), len(scores)
    half = float(special.ndtri((1 + LEVEL) / 2) * scores.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return Estimate(mean, mean - half, mean + half, n, LEVEL, "normal interval of a mean")

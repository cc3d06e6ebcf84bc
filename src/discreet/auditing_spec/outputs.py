"""Models that are outputs alone: logits from what they return, and records of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from discreet._types import Bool, Float, Int, Num
from discreet.records import Record
from discreet.runs.following import Panel, by_outputs
from discreet.signals import signals

__all__ = ["FLOOR", "Logits", "logits_of", "probable", "record_of"]

FLOOR = 1e-12
"""A probability that a model rounds to 0 counts as this."""
_ROUNDED = 1e-3  # so far outside of 0 to 1 may half precision bring a probability

Logits = Float[np.ndarray, "sample out"]


def logits_of(
    values: Num[np.ndarray, " sample *out"], task: str, *, are_probabilities: bool | None = None
) -> Logits:
    """Logits for a task from what a model returns.

    Args:
        values: Logits or probabilities, a row a sample; one column may be left out for two classes.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        are_probabilities: None: they are if rows of several add up to 1, and of one column if all lie from 0 to 1 and
            some between. A few logits may do so too: say it, or give all samples at once.

    Returns:
        Logits (targets for ``mse``), one column for ``bce``.

    Raises:
        ValueError: Another shape, values that are not finite, or probabilities that are none.

    Example:
        >>> logits_of(np.array([[0.25, 0.75]]), "bce").round(4).tolist()
        [[1.0986]]
    """
    found = np.asarray(values, np.float64)
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2:
        raise ValueError(f"outputs: expected [sample, out], got shape {list(found.shape)}")
    if not np.isfinite(found).all():
        raise ValueError(f"outputs: expected finite ones, got {int((~np.isfinite(found)).sum())} others")
    if task == "mse":
        return found
    several = found.shape[1] > 1
    if are_probabilities is None:
        adds_up = bool((found >= 0).all() and np.allclose(found.sum(axis=1), 1.0, atol=1e-3))
        are_probabilities = adds_up if several else probable(found)
    if are_probabilities:
        outside = (found < -_ROUNDED) | (found > 1 + _ROUNDED)
        if outside.any():
            raise ValueError(
                f"outputs: expected probabilities, from 0 to 1, got {found[outside][0]:g} ({int(outside.sum())} such)"
            )
        found = found if several else np.hstack([1 - found, found])
        found = np.log(np.maximum(found, FLOOR))
    if task == "bce" and found.shape[1] == 2:
        return found[:, 1:] - found[:, :1]
    if task == "bce" and found.shape[1] > 2:
        raise ValueError(f"outputs: expected one or two columns, as the loss is bce, got {found.shape[1]}")
    if task == "ce" and found.shape[1] == 1:
        return np.hstack([np.zeros_like(found), found])
    return found


def probable(values: Num[np.ndarray, ...]) -> bool:
    """Whether values of one column are probabilities: all from 0 to 1, and some between.

    Example:
        >>> probable(np.array([0.2, 1.0])), probable(np.array([0.2, 1.1])), probable(np.array([0.0, 1.0]))
        (True, False, False)
    """
    return bool(((values >= 0) & (values <= 1)).all() and ((values > 0) & (values < 1)).any())


def record_of(
    panel: Panel,
    at: Int[np.ndarray, " part"],
    run: str,
    step: float,
    outputs: Mapping[str, Logits],
    member: Bool[np.ndarray, " part"],
    *,
    which: Sequence[str] | None = None,
    hashes: Num[np.ndarray, " variant"] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Record:
    """A record of what some variants of one run return.

    Args:
        panel: What is measured.
        at: Positions of the samples.
        run: Label of the run.
        step: Its step.
        outputs: Logits on these samples, by variant.
        member: Which of them the run was trained on.
        which: Signals; None: the usual ones.
        hashes: What tells the files of the variants apart.
        about: JSON to keep with the record, beside the panel's.
    """
    panel = replace(panel, about=dict(panel.about) | dict(about or {}))
    y = panel.y[torch.from_numpy(at)]
    names = None if which is None else [name for name in which if name != "outputs"]
    found = [signals(torch.from_numpy(values), y, panel.task, names) for values in outputs.values()]
    together = {name: np.stack([each[name].numpy() for each in found]) for name in found[0]}
    if which is not None and "outputs" in which:
        together["outputs"] = np.stack(list(outputs.values()))
    together = {name: values.astype(np.float32) for name, values in together.items()}
    rows = [(run, step, variant) for variant in outputs]
    return by_outputs(panel, at, rows, together, member[None], hashes)

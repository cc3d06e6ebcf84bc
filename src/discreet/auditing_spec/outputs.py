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

__all__ = ["FLOOR", "Logits", "logits_of", "record_of"]

FLOOR = 1e-12
"""A probability that a model rounds to 0 counts as this."""

Logits = Float[np.ndarray, "sample out"]


def logits_of(
    values: Num[np.ndarray, " sample *out"], task: str, *, are_probabilities: bool | None = None
) -> Logits:
    """Logits for a task from what a model returns.

    Args:
        values: Logits or probabilities, a row a sample; one column may be left out for two classes.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        are_probabilities: None: they are if all are from 0 to 1 and rows of several add up to 1.

    Returns:
        Logits (targets for ``mse``), one column for ``bce``.

    Raises:
        ValueError: Another shape, or values that are not finite.

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
        are_probabilities = several and bool(
            (found >= 0).all() and np.allclose(found.sum(axis=1), 1.0, atol=1e-3)
        )
    if are_probabilities and not several:
        found = np.hstack([1 - found, found])
    if are_probabilities:
        found = np.log(np.maximum(found, FLOOR))
    if task == "bce" and found.shape[1] == 2:
        return found[:, 1:] - found[:, :1]
    if task == "bce" and found.shape[1] > 2:
        raise ValueError(f"outputs: expected one or two columns, as the loss is bce, got {found.shape[1]}")
    if task == "ce" and found.shape[1] == 1:
        return np.hstack([np.zeros_like(found), found])
    return found


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

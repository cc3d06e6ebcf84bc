"""Streams of the neural attackers: what goes into each, and the layers that read it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.learners._evidence import Evidence, log_odds, posteriors, squashed

__all__ = ["VIEWS", "check_widths", "label_stream", "layers", "posterior_stream"]

VIEWS = ("odds", "ranked", "plain")


def posterior_stream(evidence: Evidence, view: str) -> Float[Tensor, "sample class"]:
    """What a stream reads of the model's answer.

    ``"plain"``: softmax, class by class. ``"ranked"``: softmax, in falling order. ``"odds"``: log-odds of the
    classes (through asinh), the true class first, the others in falling order.
    """
    if view == "plain":
        return torch.from_numpy(posteriors(evidence.outputs))
    if view == "ranked":
        return torch.from_numpy(_falling(posteriors(evidence.outputs)))
    odds = squashed(log_odds(evidence.outputs))
    rows = np.arange(len(odds))
    true = odds[rows, evidence.label]
    odds[rows, evidence.label] = np.inf  # sorts to the front
    odds = _falling(odds)
    odds[:, 0] = true
    return torch.from_numpy(odds)


def label_stream(evidence: Evidence) -> Float[Tensor, "sample class"]:
    """One-hot labels."""
    return torch.from_numpy(np.eye(evidence.classes)[evidence.label])


def layers(widths: Sequence[int]) -> nn.Sequential:
    """Fully connected layers, ReLU after each."""
    parts: list[nn.Module] = []
    for into, out in pairwise(widths):
        parts += [nn.Linear(into, out), nn.ReLU()]
    return nn.Sequential(*parts)


def check_widths(**streams: Sequence[int]) -> None:
    """Refuse streams without layers or with empty ones."""
    for name, widths in streams.items():
        if not widths or min(widths) < 1:
            raise ValueError(f"{name}: expected one positive width or more, got {widths!r}")


def _falling(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.sort(values, axis=1)[:, ::-1])

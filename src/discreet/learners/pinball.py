"""Bertran et al., "Scalable Membership Inference Attacks via Quantile Regression" (2023), Eq. 1: a small network."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from discreet._types import Float, Num
from discreet.learners._design import Design, Scale, check_fit
from discreet.learners._network import Network, Training, predict
from discreet.learners._predictors import Curves, LocationScale
from discreet.learners._space import Choice, Range

__all__ = ["Pinball"]

_HEADS = ("levels", "gaussian", "robust")
# One standard deviation above the median of a normal distribution.
_ONE_SIGMA = float(ndtr(1.0))
# Standardised log-scales are held inside, so that the loss of a row stays finite.
_LOW, _HIGH = -7.0, 5.0


@dataclass(frozen=True)
class Pinball:
    """A network for the quantiles of a score.

    It starts at the quantiles of all scores together, so it begins as the baseline that it is to beat,
    and stops when its loss on rows held out for that no longer falls.

    Attributes:
        head: ``"levels"``: a quantile for each level, mean pinball loss over levels; ``"gaussian"``: mean and
            log-scale, Gaussian likelihood; ``"robust"``: the median and the quantile one standard deviation up,
            two pinball losses, normal tails from them (Zhang et al., "Order of Magnitude Speedups for LLM
            Membership Inference" (2024)).
        hidden: Widths of the hidden layers.
        lr: Learning rate of AdamW.
        weight_decay: Its weight decay.
        epochs: At most so many passes over the rows.
        batch: Rows a step.
        patience: Passes without a lower held-out loss before training ends.
        held_out: Share of rows that only decide when to stop.
    """

    head: str = "levels"
    hidden: tuple[int, ...] = (64, 64)
    lr: float = 0.01
    weight_decay: float = 0.001
    epochs: int = 200
    batch: int = 256
    patience: int = 15
    held_out: float = 0.2

    def __post_init__(self) -> None:
        if self.head not in _HEADS:
            raise ValueError(f"head: expected one of {', '.join(_HEADS)}, got {self.head!r}")
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden: expected at least one width, each at least 1, got {self.hidden}")
        for name in ("epochs", "batch", "patience"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not self.lr > 0 or not self.weight_decay >= 0:
            raise ValueError(
                f"lr and weight_decay: expected above 0 and not below, got {self.lr}, {self.weight_decay}"
            )
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out: expected a share above 0 and below 1, got {self.held_out}")

    def fit(
        self,
        x: Num[np.ndarray, " n *feature"],
        y: np.ndarray | None,
        s: Float[np.ndarray, " n"],
        *,
        levels: Float[np.ndarray, " level"],
        seed: int,
    ) -> Curves | LocationScale:
        """Train the network; see ``QuantileLearner.fit``."""
        s, levels = check_fit(x, y, s, levels)
        design, scale = Design.of(x, y), Scale.of(s)
        target = scale(s)
        start, loss = _head(self.head, target, levels)
        inputs = (design.features(x), design.one_hot(y, len(x)))

        def build() -> Network:
            return Network(design.shape, inputs[1].shape[1], self.hidden, start)

        training = Training(self.lr, self.weight_decay, self.epochs, self.batch, self.patience, self.held_out)
        network = training.run(build, inputs, target, loss, seed)

        def outputs(x: np.ndarray, y: np.ndarray | None) -> np.ndarray:
            return predict(network, (design.features(x), design.one_hot(y, len(x))))

        if self.head == "levels":
            return Curves.of(levels, scale, outputs, x, y)
        return LocationScale(levels, scale, outputs)

    def space(self) -> Mapping[str, Range | Choice]:
        return {
            "hidden": Choice(((32,), (64, 64), (256, 256))),
            "lr": Range(0.001, 0.05, log=True),
            "weight_decay": Range(0.00001, 0.3, log=True),
            "batch": Choice((32, 256, 1024)),
        }


def _head(
    head: str, target: Float[np.ndarray, " n"], levels: Float[np.ndarray, " level"]
) -> tuple[Float[np.ndarray, " output"], Callable[[Tensor, Tensor], Tensor]]:
    """What the outputs start from, and their loss."""
    if head == "levels":
        taus = torch.as_tensor(levels, dtype=torch.float32)
        # Gradients of a level's pinball loss are 2 level (1 - level) of the median's on average.
        weights = 1 / torch.sqrt(taus * (1 - taus))
        weights = weights / weights.mean()
        return np.quantile(target, levels), lambda q, s: (weights * _pinball(q, s[:, None], taus)).mean()
    if head == "gaussian":
        # Negative log-likelihood of N(mu, sigma^2), less its constant.
        def nll(out: Tensor, s: Tensor) -> Tensor:
            log_sigma = out[:, 1].clamp(_LOW, _HIGH)
            return (log_sigma + (s - out[:, 0]) ** 2 * torch.exp(-2 * log_sigma) / 2).mean()

        return np.array([target.mean(), math.log(max(target.std(), 1e-3))]), nll

    def two(out: Tensor, s: Tensor) -> Tensor:
        sigma = torch.exp(out[:, 1].clamp(_LOW, _HIGH))
        return (_pinball(out[:, 0], s, 0.5) + _pinball(out[:, 0] + sigma, s, _ONE_SIGMA)).mean()

    middle, upper = np.quantile(target, [0.5, _ONE_SIGMA])
    return np.array([middle, math.log(max(upper - middle, 1e-3))]), two


def _pinball(q: Tensor, s: Tensor, level: Any) -> Tensor:
    residual = s - q
    return torch.maximum(level * residual, (level - 1) * residual)

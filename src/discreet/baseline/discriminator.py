"""Feed-forward networks that tell members from others, one a variant, trained together.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 11: inputs are x, the
flattened parameters and the loss; binary cross-entropy on balanced rows. Widths, rate and batches are open there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from discreet._types import Float
from discreet.baseline.split import Split
from discreet.model_seeds import Orders, init_seed
from discreet.optimizers import step_of
from discreet.recipe import Recipe

__all__ = ["Discriminator", "Inputs", "log_odds_of_loss", "standardised"]

_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the discriminators of all variants read.

    Attributes:
        loss: One number a row, from its loss.
        x: The rows' inputs, the same for every variant; None: not read.
        weights: One vector a run, which enters the first layer once a run; None: not read.
    """

    loss: Float[Tensor, "variant run row"]
    x: Float[Tensor, "run row feature"] | None = None
    weights: Float[Tensor, "variant run coordinate"] | None = None


@dataclass(frozen=True)
class Discriminator:
    """How the discriminators are built and trained.

    Attributes:
        hidden: Widths of the hidden layers.
        epochs: Most passes over the training runs' rows.
        patience: Passes without a lower cross-entropy on the stopping runs after which a variant's is done.
        lr: Adam's rate.
        weight_decay: AdamW's.
        batch_size: Rows a step.

    Raises:
        ValueError: A width, a count or a rate below what makes sense.
    """

    hidden: tuple[int, ...] = (64, 32)
    epochs: int = 30
    patience: int = 4
    lr: float = 1e-3
    weight_decay: float = 1e-2
    batch_size: int = 512

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise ValueError(f"hidden: expected at least one positive width, got {self.hidden}")
        Recipe(
            "bce", "adamw", self.lr, self.epochs, self.batch_size, self.weight_decay, patience=self.patience
        )

    def fit(
        self, inputs: Inputs, member: Float[Tensor, "run row"], split: Split, *, seed: int = 0
    ) -> Float[Tensor, "variant run row"]:
        """Train on some runs, stop by others, and return every row's log-odds of being a member.

        All variants start from the same weights and see the rows in the same order, so nothing of one depends on
        which others are there (up to the rounding of the products), and their comparison is paired.

        Args:
            inputs: What they read.
            member: 1 for members, 0 for others.
            split: The runs to train on and to stop by.
            seed: Of the start and the order.
        """
        with torch.enable_grad():
            return _Fit(self, inputs, member, seed).run(split)


class _Fit:
    """One training of the stack."""

    def __init__(self, how: Discriminator, inputs: Inputs, member: Tensor, seed: int) -> None:
        self.how, self.inputs, self.member, self.seed = how, inputs, member, seed
        self.variants, self.rows = len(inputs.loss), member.shape[1]
        self.loss = inputs.loss.flatten(1)
        self.x = None if inputs.x is None else inputs.x.flatten(0, 1)

    def run(self, split: Split) -> Float[Tensor, "variant run row"]:
        params = self._start()
        recipe = Recipe("bce", "adamw", self.how.lr, weight_decay=self.how.weight_decay)
        update = step_of(recipe)
        moments = {
            name: {key: torch.zeros_like(value) for key, value in params.items()}
            for name in ("exp_avg", "exp_avg_sq")
        }
        rows = (torch.from_numpy(split.train)[:, None] * self.rows + torch.arange(self.rows)).flatten()
        answer = self.member.flatten()
        orders = Orders(self.seed, [0], len(rows))
        best = {name: value.detach().clone() for name, value in params.items()}
        lowest, waited = self._judged(params, split), torch.zeros(self.variants, dtype=torch.long)
        count = 0
        for _ in range(self.how.epochs):
            for chosen in rows[torch.from_numpy(orders.next()[0])].split(self.how.batch_size):
                logits = self._forward(params, chosen)
                target = answer[chosen].expand_as(logits)
                total = cross_entropy(logits, target, reduction="none").mean(dim=1).sum()
                gradients = dict(zip(params, torch.autograd.grad(total, list(params.values())), strict=True))
                count += 1
                with torch.no_grad():
                    update(params, gradients, moments, count)
            now = self._judged(params, split)
            better = (now < lowest) & (waited < self.how.patience)
            lowest = torch.where(better, now, lowest)
            waited = torch.where(better, 0, waited + (waited < self.how.patience))
            for name, value in params.items():
                best[name][better] = value.detach()[better]
            if bool((waited >= self.how.patience).all()):
                break
        with torch.no_grad():
            every = torch.arange(self.member.numel())
            logits = torch.cat([self._forward(best, piece) for piece in every.split(_ROWS)], dim=1)
        return logits.double().reshape(self.variants, *self.member.shape)

    def _start(self) -> dict[str, Tensor]:
        """Every variant's parameters, as ``nn.Linear`` would start them; the output is 0.

        The first layer has one unit more, which leads straight to the output.
        """
        generator = torch.Generator().manual_seed(init_seed(self.seed, 0))
        into = {"loss": 1}
        if self.x is not None:
            into["x"] = self.x.shape[1]
        if self.inputs.weights is not None:
            into["weights"] = self.inputs.weights.shape[2]
        shapes: dict[str, tuple[tuple[int, ...], int]] = {}
        for name, width in into.items():
            shapes[f"0.{name}"] = (width, self.how.hidden[0] + 1), width
        for layer, (before, after) in enumerate(self._widths(), start=1):
            shapes[f"{layer}.weight"] = (before, after), before
        params = {}
        for name, (shape, fan) in shapes.items():
            value = (2 * torch.rand(shape, generator=generator) - 1) / math.sqrt(fan)
            params[name] = value.expand(self.variants, *shape).clone()
        for layer, width in enumerate((self.how.hidden[0] + 1, *self.how.hidden[1:], 1)):
            params[f"{layer}.bias"] = torch.zeros(self.variants, 1, width)
        for name in into:
            params[f"0.{name}"][..., -1] = 0.0
        params[f"{len(self.how.hidden)}.weight"].zero_()
        return {name: value.requires_grad_() for name, value in params.items()}

    def _widths(self) -> Iterator[tuple[int, int]]:
        yield from zip(self.how.hidden, (*self.how.hidden[1:], 1), strict=True)

    def _forward(self, params: dict[str, Tensor], rows: Tensor) -> Float[Tensor, "variant rows"]:
        """Log-odds; the first layer is a sum over its inputs, that of the weights taken once a run."""
        h = self.loss[:, rows, None] * params["0.loss"] + params["0.bias"]
        if self.x is not None:
            h = h + torch.bmm(self.x[rows].expand(self.variants, -1, -1), params["0.x"])
        if self.inputs.weights is not None:
            h = h + torch.bmm(self.inputs.weights, params["0.weights"])[:, rows // self.rows]
        h, straight = h[..., :-1], h[..., -1]
        for layer in range(1, len(self.how.hidden) + 1):
            h = torch.baddbmm(params[f"{layer}.bias"], torch.relu(h), params[f"{layer}.weight"])
        return h[..., 0] + straight

    def _judged(self, params: dict[str, Tensor], split: Split) -> Float[Tensor, " variant"]:
        """Cross-entropy on the stopping runs, in nats."""
        rows = (torch.from_numpy(split.stop)[:, None] * self.rows + torch.arange(self.rows)).flatten()
        total = torch.zeros(self.variants, dtype=torch.float64)
        with torch.no_grad():
            for piece in rows.split(_ROWS):
                logits = self._forward(params, piece).double()
                target = self.member.flatten()[piece].double().expand_as(logits)
                total += cross_entropy(logits, target, reduction="none").sum(dim=1)
        return total / len(rows)


def log_odds_of_loss(loss: Float[np.ndarray, ...]) -> Float[np.ndarray, ...]:
    """``log(exp(loss) - 1)``: minus the margin, where the loss is a cross-entropy; increasing, and even at both ends.

    Example:
        >>> log_odds_of_loss(np.array([np.log(2.0), 50.0, 1e-9])).round(3).tolist()
        [0.0, 50.0, -20.723]
    """
    loss = np.maximum(loss.astype(np.float64), np.finfo(np.float64).tiny)
    return np.where(loss > 30, loss, np.log(np.expm1(np.minimum(loss, 30))))


def standardised(values: Float[np.ndarray, ...], train: np.ndarray) -> Float[Tensor, ...]:
    """Mean 0 and deviation 1 over the training runs' rows (the first axis is the run), as float32.

    Deviations beyond a few are squeezed (asinh), and what is constant becomes 0.
    """
    seen = values[train]
    axes = (0, 1)
    mean, deviation = seen.mean(axis=axes), seen.std(axis=axes)
    unit = (values - mean) / np.where(deviation > 0, deviation, 1.0)
    return torch.from_numpy(np.arcsinh(unit).astype(np.float32))

"""How a model is trained: everything but the data, the architecture and the seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

from torch import Tensor

from discreet.losses import loss_named

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """Loss, optimizer and length of a training run, named as in ``torch.optim``.

    Attributes:
        loss: ``"bce"`` (one logit, labels 0 and 1), ``"ce"`` (classes), ``"mse"``, or a function
            ``(outputs [batch, out], y [batch]) -> loss [batch]``. The mean over the batch is minimised.
        optimizer: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        lr: Step size.
        epochs: Passes over the subset.
        batch_size: Samples a step; the last batch of an epoch may be smaller.
        weight_decay: L2 term (``adam``, ``sgd``) or decoupled decay (``adamw``).
        momentum: Of ``sgd``.
        nesterov: Nesterov's momentum, of ``sgd``.
        milestones: Epochs after each of which ``lr`` is multiplied by ``gamma``, as in ``MultiStepLR``.
        gamma: What it is multiplied by.
        betas: Of ``adam`` and ``adamw``.
        eps: Of ``adam`` and ``adamw``.
        patience: Stop a model when its validation loss has not fallen below its lowest for so many epochs in a row;
            None: never.

    Raises:
        ValueError: A field out of its range; the message names it.

    Example:
        >>> Recipe(lr=1e-3, epochs=30, batch_size=16).optimizer
        'adam'
    """

    loss: str | Callable[[Tensor, Tensor], Tensor] = "bce"
    optimizer: str = "adam"
    lr: float = 1e-3
    epochs: int = 30
    batch_size: int = 16
    weight_decay: float = 0.0
    momentum: float = 0.0
    nesterov: bool = False
    milestones: tuple[int, ...] = ()
    gamma: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    patience: int | None = None

    def __post_init__(self) -> None:
        loss_named(self.loss)
        if self.optimizer not in ("adam", "adamw", "sgd"):
            raise ValueError(f"optimizer: expected adam, adamw or sgd, got {self.optimizer!r}")
        whole = {"epochs": self.epochs, "batch_size": self.batch_size}
        if self.patience is not None:
            whole["patience"] = self.patience
        for name, count in whole.items():
            if count < 1:
                raise ValueError(f"{name}: expected at least 1, got {count}")
        ranges = {
            "lr": (self.lr, 0 < self.lr < math.inf, "a positive number"),
            "eps": (self.eps, 0 < self.eps < math.inf, "a positive number"),
            "weight_decay": (self.weight_decay, 0 <= self.weight_decay < math.inf, "0 or more"),
            "momentum": (self.momentum, 0 <= self.momentum < 1, "0 up to below 1"),
            "betas": (self.betas, all(0 <= beta < 1 for beta in self.betas), "two numbers from 0 to below 1"),
        }
        ranges["gamma"] = (self.gamma, 0 < self.gamma < math.inf, "a positive number")
        rising = list(self.milestones) == sorted(set(self.milestones))
        ranges["milestones"] = (
            self.milestones,
            rising and all(epoch >= 1 for epoch in self.milestones),
            "rising epochs from 1",
        )
        if self.nesterov and not (self.optimizer == "sgd" and self.momentum):
            raise ValueError(
                f"nesterov: expected sgd with momentum above 0, got {self.optimizer} with {self.momentum}"
            )
        for name, (value, fits, wanted) in ranges.items():
            if not fits:
                raise ValueError(f"{name}: expected {wanted}, got {value}")

    def rate(self, epoch: int) -> float:
        """Step size in an epoch, counted from 1.

        Example:
            >>> recipe = Recipe(optimizer="sgd", lr=0.5, milestones=(2,))
            >>> recipe.rate(2), recipe.rate(3)
            (0.5, 0.05)
        """
        return self.lr * self.gamma ** sum(epoch > each for each in self.milestones)

    def to_json(self) -> dict:
        """The fields, a loss of the user by its name."""
        fields = asdict(self) | {"loss": loss_named(self.loss).name}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}

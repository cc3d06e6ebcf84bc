"""What an attack is worth: how many members are expected, and how much more finding one counts.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

__all__ = ["Prior"]

Rate = TypeVar("Rate", float, np.ndarray)


@dataclass(frozen=True)
class Prior:
    """The share of members, and the weight of the true positive rate.

    Attributes:
        eta: Probability that a test sample is a member.
        lam: The paper's lambda: how much the true positive rate counts beside the true negative rate.

    Raises:
        ValueError: ``eta`` outside (0, 1), or ``lam`` not positive.

    Example:
        >>> Prior().mis(Prior().accuracy(0.75, 0.75))
        0.5
        >>> Prior(eta=0.1).gamma
        9.0
    """

    eta: float = 0.5
    lam: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.eta < 1:
            raise ValueError(f"eta: expected a probability between 0 and 1, got {self.eta}")
        if not 0 < self.lam < math.inf:
            raise ValueError(f"lam: expected a positive number, got {self.lam}")

    @property
    def gamma(self) -> float:
        """``(1 - eta) / (lambda eta)``: the likelihood ratio from which on accusing pays (Theorem 7.2)."""
        return (1 - self.eta) / (self.lam * self.eta)

    @property
    def cut(self) -> float:
        """Log-odds from which on a discriminator trained on balanced rows accuses.

        Its probability is g = f / (f + h) with f the density of members and h that of others, so f/h >= gamma is
        g >= gamma / (1 + gamma) (section 11; for lambda eta = 1 - eta the paper's f/h >= 1).
        """
        return math.log(self.gamma)

    @property
    def most(self) -> float:
        """The accuracy of an attack without error, ``1 - eta + lambda eta``."""
        return 1 - self.eta + self.lam * self.eta

    def accuracy(self, tpr: Rate, tnr: Rate) -> Rate:
        """``(1 - eta) TNR + lambda eta TPR`` (eq. 4)."""
        return (1 - self.eta) * tnr + self.lam * self.eta * tpr

    def mis(self, accuracy: float) -> float:
        """Membership-inference security if no attack beats this accuracy (eq. 6); ``2 - 2 accuracy`` by default.

        It exceeds 1 for an attack that is worse than accusing all or none; the supremum counts those two as well, so
        the MIS itself never does.
        """
        shares = 1 - self.eta, self.lam * self.eta
        return (sum(shares) - accuracy) / min(shares)

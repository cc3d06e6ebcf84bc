"""One setting of the synthetic study: the data, the network, its training, and how much is measured.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", sections 4.1 and 12. What the paper
leaves out is a field with a default: batch size, the law of the centres, depth and width, how labels fall on
clusters, granularity of the quantizers, size of the evaluation sample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from discreet.data.mixture import Mixture
from discreet.mlp import MLP
from discreet.recipe import Recipe

__all__ = ["FULL", "NAMES", "SETS", "Setting", "distinct_modes_x_sigma"]

FULL = "full"
SETS: tuple[tuple[int, float], ...] = tuple(
    (modes, sigma) for modes in (6, 8, 16) for sigma in (1.5, 2.0, 3.0)
)
"""The paper's nine data sets: modes and sigma."""
NAMES: Mapping[str, str] = {
    FULL: "full",
    "sign": "sign",
    "1.58b 33%": "ternary(zeros=0.33{})",
    "1.58b 50%": "ternary(zeros=0.5{})",
    "1.58b 90%": "ternary(zeros=0.9{})",
    "2 bits": "uniform(bits=2{})",
    "3 bits": "uniform(bits=3{})",
    "4 bits": "uniform(bits=4{})",
    "5 bits": "uniform(bits=5{})",
}
"""The paper's variants, and the specs of their quantizers (Table 2)."""


@dataclass(frozen=True)
class Setting:
    """Everything that one run depends on.

    Attributes:
        modes: Clusters.
        sigma: Standard deviation within a cluster.
        spread: Standard deviation of the centres' coordinates.
        labels: How labels fall on clusters, see ``Mixture``.
        depth: Hidden layers; the paper's "single-layer" may be 0 or 1.
        width: Units of each.
        batch_size: Samples a step.
        lr: Adam's rate (the paper's 1e-4).
        epochs: Passes, each followed by a checkpoint (the paper's 30).
        n: Training samples, and fresh non-members, of each run (the paper's 128).
        granularity: What shares a quantile or a maximum: ``"model"`` (as Table 2 writes it) or ``"tensor"``.
        evaluation: Samples that r is measured on, the same for all runs.
        seed: Of everything.
    """

    modes: int = 8
    sigma: float = 2.0
    spread: float = 0.3
    labels: str = "halves"
    depth: int = 1
    width: int = 128
    batch_size: int = 8
    lr: float = 1e-4
    epochs: int = 30
    n: int = 128
    granularity: str = "model"
    evaluation: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        if self.depth < 0:
            raise ValueError(f"depth: expected 0 or more hidden layers, got {self.depth}")
        if self.granularity not in ("model", "tensor"):
            raise ValueError(f"granularity: expected model or tensor, got {self.granularity!r}")
        for name, least in (("epochs", 2), ("n", 2), ("evaluation", 2), ("width", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: expected at least {least}, got {getattr(self, name)}")
        _ = self.mixture, self.recipe  # each refuses what it cannot be

    @property
    def name(self) -> str:
        """The data set, as the paper names it."""
        return f"{self.modes} modes, sigma {self.sigma:g}"

    @property
    def mixture(self) -> Mixture:
        """Where samples come from."""
        return Mixture(self.modes, self.sigma, spread=self.spread, labels=self.labels, seed=self.seed)

    @property
    def training_seed(self) -> int:
        """Of starts, orders and attackers: each data set has its own, so that data sets repeat independently."""
        return self.mixture.entropy >> 65

    @property
    def network(self) -> MLP:
        """The classifier."""
        return MLP((self.mixture.features, *[self.width] * self.depth, 1))

    @property
    def recipe(self) -> Recipe:
        """How it is trained."""
        return Recipe("bce", "adam", lr=self.lr, epochs=self.epochs, batch_size=self.batch_size)

    @property
    def specs(self) -> dict[str, str]:
        """Spec strings of the variants by name."""
        more = "" if self.granularity == "model" else f"granularity='{self.granularity}'"
        found = {}
        for name, spec in NAMES.items():
            if "{}" in spec:
                found[name] = spec.format(f", {more}" if more else "")
            else:
                found[name] = spec if name == FULL or not more else f"{spec}({more})"
        return found

    def at(self, **changed: Any) -> Setting:
        """The same with other fields."""
        return dataclasses.replace(self, **changed)

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


def distinct_modes_x_sigma(text: str) -> tuple[tuple[int, float], ...]:
    """Data sets from a text; its name is what ``changed.read`` says it expects.

    Raises:
        ValueError: No pairs of numbers, or one twice, which would count twice in what is said over data sets.

    Example:
        >>> distinct_modes_x_sigma("8x2,16x1.5")
        ((8, 2.0), (16, 1.5))
    """
    pairs = [part.split("x") for part in text.split(",")]
    found = tuple((int(modes), float(sigma)) for modes, sigma in pairs)
    if len(set(found)) < len(found):
        raise ValueError(f"expected each data set once, got {text!r}")
    return found

"""Networks trained here and now on noise, and measured twice: on samples they never saw, and on their own.

Labels are coin flips, so a network can only learn them by heart. For the record without a leak, the memberships of
unseen samples are drawn after the training, and nothing can tell them; for the other, the network's own are true.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool
from discreet.data.splits import complementary_halves
from discreet.measure import measure_stack
from discreet.mlp import MLP
from discreet.quantizers import quantize_stack
from discreet.recipe import Recipe
from discreet.records import Record
from discreet.selfcheck.texts import with_texts
from discreet.signals import CLASSIFICATION
from discreet.training import train

__all__ = ["VARIANTS", "Sizes", "build"]

VARIANTS = ("full", "uniform(bits=4)", "ternary")
"""Variants of every network."""

_CLASSES = 3
_EPOCHS = 60


@dataclass(frozen=True)
class Sizes:
    """Sizes of the built-in test.

    Attributes:
        samples: Samples judged in each record; half of them train each network.
        features: Columns of the inputs.
        runs: Networks, in pairs with complementary halves.
        seed: Of everything.
    """

    samples: int = 160
    features: int = 16
    runs: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.samples < 40 or self.samples % 2:
            raise ValueError(f"samples: expected an even number of at least 40, got {self.samples}")
        if self.features < 2:
            raise ValueError(f"features: expected at least 2, got {self.features}")
        if self.runs < 4 or self.runs % 2:
            raise ValueError(
                f"runs: expected an even number of at least 4 (a target and its partner are not references), "
                f"got {self.runs}"
            )
        if self.seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {self.seed}")


def build(sizes: Sizes) -> tuple[Record, Record]:
    """Train, quantize and measure.

    Returns:
        A record without a leak, on unseen samples, and one with a leak, on the training samples of the very
        same networks. Each has as many public samples as judged ones.
    """
    n, generator = sizes.samples, torch.Generator().manual_seed(sizes.seed)
    x = torch.randn(3 * n, sizes.features, generator=generator)
    y = torch.randint(_CLASSES, (3 * n,), generator=generator)
    halves = complementary_halves(np.arange(n), sizes.runs // 2, seed=sizes.seed)
    network = MLP((sizes.features, _hidden(sizes), _CLASSES))
    recipe = Recipe("ce", "adam", lr=1e-2, epochs=_EPOCHS, batch_size=max(16, n // 40))
    subsets = np.stack([np.flatnonzero(half) for half in halves])
    weights = train(network, x, y, subsets, recipe, seed=sizes.seed, workers=1)
    drawn = complementary_halves(np.arange(n), sizes.runs // 2, seed=sizes.seed + 1)
    own, unseen, public = torch.arange(n), torch.arange(n, 2 * n), torch.arange(2 * n, 3 * n)
    return (
        with_texts(_record(network, weights, x, y, torch.cat([unseen, public]), drawn), sizes.seed),
        with_texts(_record(network, weights, x, y, torch.cat([own, public]), halves), sizes.seed),
    )


def _hidden(sizes: Sizes) -> int:
    """Units enough to learn the labels by heart: about two weights for each."""
    return int(min(max(32, 2 * sizes.samples // sizes.features), 1024))


def _record(
    network: MLP,
    weights: dict[str, Tensor],
    x: Tensor,
    y: Tensor,
    chosen: Tensor,
    halves: Bool[np.ndarray, "run judged"],
) -> Record:
    """Measure some samples under every variant; the first of them belong to the halves, the rest are public."""
    variants = {name: weights if name == "full" else quantize_stack(weights, name) for name in VARIANTS}
    names = ("loss", *CLASSIFICATION, "outputs", "hidden")
    found = measure_stack(network, variants, x[chosen], y[chosen], "ce", which=names, workers=1)
    runs, judged = halves.shape
    rows = [(str(run), variant) for run in range(runs) for variant in VARIANTS]
    signals = {name: values.reshape(len(rows), *values.shape[2:]) for name, values in found.items()}
    return Record(
        run=tuple(run for run, _ in rows),
        step=np.full(len(rows), float(_EPOCHS)),
        variant=tuple(variant for _, variant in rows),
        sample=chosen.numpy(),
        signals=signals
        | {
            "label": y[chosen].numpy(),
            "features": x[chosen].numpy(),
            "public": (np.arange(len(chosen)) >= judged).astype(np.int8),
        },
        axes={
            "outputs": ("row", "sample", "class"),
            "hidden": ("row", "sample", "unit"),
            "features": ("sample", "feature"),
        },
        member=np.hstack([halves, np.zeros((runs, len(chosen) - judged), dtype=bool)]),
    )

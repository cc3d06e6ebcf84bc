"""Gaussian clusters with labels, and as many independent samples of them as one asks for.

"An Indicator of Membership Inference Security in Post-Training Quantized Models", section 4.1: isotropic Gaussians in
128 dimensions, each with a label 0 or 1. Where the centres lie and how labels fall on clusters is not said there.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from discreet._types import Float, Int

__all__ = ["LABELS", "Mixture"]

LABELS = ("halves", "coins")
_CENTRES, _SAMPLES = 0, 1


@dataclass(frozen=True)
class Mixture:
    """A law of samples.

    Attributes:
        modes: Clusters, all equally likely.
        sigma: Standard deviation within a cluster, in each dimension.
        features: Dimensions.
        spread: Standard deviation of the centres' coordinates around 0 (normal).
        labels: ``"halves"``: half of the clusters have label 1 (one fewer, if they are odd). ``"coins"``: a coin for
            each, drawn again if all fall alike.
        seed: Of the centres, the labels and all samples. Mixtures that differ in any field share none of them, so
            studies of several are independent repetitions.

    Raises:
        ValueError: A field out of its range; the message names it.

    Example:
        >>> x, y = Mixture(8, 2.0).draw(5, stream=3)
        >>> x.shape, set(y.tolist()) <= {0, 1}
        ((5, 128), True)
    """

    modes: int
    sigma: float
    features: int = 128
    spread: float = 0.3
    labels: str = "halves"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.modes < 2 or self.features < 1:
            raise ValueError(
                f"modes, features: expected at least 2 and at least 1, got {self.modes} and {self.features}"
            )
        if not (0 < self.sigma < math.inf and 0 < self.spread < math.inf):
            raise ValueError(f"sigma, spread: expected positive numbers, got {self.sigma} and {self.spread}")
        if self.labels not in LABELS:
            raise ValueError(f"labels: expected one of {', '.join(LABELS)}, got {self.labels!r}")

    def clusters(self) -> tuple[Float[np.ndarray, "mode feature"], Int[np.ndarray, " mode"]]:
        """Centres and labels of the clusters; centres differ between seeds by more than their numbering."""
        rng = self._rng(_CENTRES)
        centres = self.spread * rng.standard_normal((self.modes, self.features))
        if self.labels == "halves":
            return centres, rng.permutation(np.arange(self.modes) % 2)
        labels = rng.integers(2, size=self.modes)
        while labels.min() == labels.max():
            labels = rng.integers(2, size=self.modes)
        return centres, labels

    def draw(self, n: int, *, stream: int) -> tuple[Float[np.ndarray, "n feature"], Int[np.ndarray, " n"]]:
        """Independent samples: inputs in float32, and labels.

        Args:
            n: How many; the first of a longer draw are those of a shorter one.
            stream: Which draw; different ones are independent.
        """
        centres, labels = self.clusters()
        rng = self._rng(_SAMPLES, stream)
        cluster = np.empty(n, np.int64)
        noise = np.empty((n, self.features))
        for row in range(n):
            cluster[row] = rng.integers(self.modes)
            noise[row] = rng.standard_normal(self.features)
        return (centres[cluster] + self.sigma * noise).astype(np.float32), labels[cluster]

    @property
    def entropy(self) -> int:
        """A number below 2**128 of its own for each mixture, for whatever else is drawn for it."""
        words = [self.labels, *map(int, (self.modes, self.features, self.seed))]
        text = " ".join(map(str, [*words, float(self.sigma).hex(), float(self.spread).hex()]))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")

    def _rng(self, *use: int) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence(self.entropy, spawn_key=use))

"""Random numbers of one model among many: from one seed and the model's id alone, never from its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._types import Int

__all__ = ["Orders", "init_seed", "stream"]

_INIT, _ORDER = 0, 1


def init_seed(seed: int, model: int) -> int:
    """Seed of torch for the initialisation of a model, below 2**63.

    Example:
        >>> init_seed(0, 3) == init_seed(0, 3) != init_seed(0, 4)
        True
    """
    return int(_sequence(seed, model, _INIT).generate_state(1, np.uint64)[0] >> np.uint64(1))


def stream(seed: int, model: int, use: int, *more: int) -> np.random.Generator:
    """Random numbers of a model for another use: 2 or more, as 0 is its start and 1 its orders.

    Example:
        >>> int(stream(0, 3, 2).integers(100)), int(stream(0, 4, 2).integers(100))
        (9, 70)
    """
    return np.random.Generator(np.random.PCG64(_sequence(seed, model, use, *more)))


class Orders:
    """The order in which each model sees its samples, epoch after epoch.

    Args:
        seed: Of the whole training.
        models: Ids of the models.
        n: Samples of each.

    Example:
        >>> alone, together = Orders(0, [7], 5), Orders(0, [3, 7], 5)
        >>> alone.next()[0].tolist() == together.next()[1].tolist()
        True
    """

    def __init__(self, seed: int, models: Sequence[int], n: int) -> None:
        self.n = n
        self._draw = [
            np.random.Generator(np.random.PCG64(_sequence(seed, model, _ORDER))) for model in models
        ]

    def next(self) -> Int[np.ndarray, "model n"]:
        """A permutation for each model."""
        return np.stack([draw.permutation(self.n) for draw in self._draw])


def _sequence(seed: int, model: int, *use: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(int(model), *use))

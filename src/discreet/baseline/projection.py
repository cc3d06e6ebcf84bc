"""What a discriminator's first layer can learn of the weights, computed once for each run.

The layer's part for the weights is a product with the whole weight vector, and it is the same for all rows of a run.
Gradients of it are combinations of the training runs' weight vectors, so gradient descent moves it within their span
alone: coordinates in that span (one number a training run instead of tens of thousands of weights) lose nothing that
it could learn. Along directions that no training run has, a layer would keep its random start, which is noise.
"""

from __future__ import annotations

import numpy as np

from discreet._types import Float, Int

__all__ = ["in_span"]

_NOTHING = 1e-10
_PIECE = 1 << 12


def in_span(
    weights: Float[np.ndarray, "run parameter"], train: Int[np.ndarray, " train"]
) -> Float[np.ndarray, "run train"]:
    """Coordinates of every run's weights in the span of the training runs' deviations from their mean.

    Inner products of coordinates are those of the weights projected into the span, up to one scale, at which the
    training runs' coordinates have mean square 1.

    Args:
        weights: Flattened parameters.
        train: Positions of the training runs.

    Raises:
        ValueError: Not a table, or a weight that is not finite.

    Example:
        >>> weights = np.random.default_rng(0).normal(size=(5, 1000))
        >>> found = in_span(weights, np.arange(4))
        >>> gap = weights[:4] - weights[:4].mean(axis=0)
        >>> ratio = (found[:4] @ found[:4].T) / (gap @ gap.T)
        >>> bool(np.allclose(ratio, ratio[0, 0]))
        True
    """
    if weights.ndim != 2 or not np.isfinite(weights).all():
        raise ValueError(
            f"weights: expected finite numbers [run, parameter], got shape {list(weights.shape)}"
        )
    inner = np.zeros((len(weights), len(train)))
    for start in range(0, weights.shape[1], _PIECE):  # a float64 copy of a piece at a time
        piece = weights[:, start : start + _PIECE].astype(np.float64)
        piece -= piece[train].mean(axis=0)
        inner += piece @ piece[train].T
    own = inner[train]
    value, vector = np.linalg.eigh((own + own.T) / 2)
    kept = value > _NOTHING * max(value[-1], 0.0)
    if not kept.any():
        return np.zeros((len(weights), len(train)))
    # The symmetric root: unlike eigenvectors, it has no sign that could be either.
    root = (vector[:, kept] / np.sqrt(value[kept])) @ vector[:, kept].T
    found = inner @ root
    return found / np.sqrt(np.mean(found[train] ** 2))

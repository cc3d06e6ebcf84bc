"""What a neural attacker sees of a model, turned into the numbers that its streams take in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from discreet._types import Float, Int

__all__ = ["Evidence", "log_odds", "posteriors", "residual", "squashed"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """One model's answers on some samples; arrays of NumPy or tensors, kept as NumPy.

    Attributes:
        outputs: Raw logits [sample, class]. One column ``z`` stands for the two logits (0, z).
        label: True classes [sample], 0 … C - 1.
        hidden: What the last layer of the model takes in [sample, feature] (white box only).
        sample: Ids [sample], numbers or text, that settle the order of samples before anything is drawn; the order
            given when None. Ids may repeat (several models' answers in one).

    Raises:
        ValueError: Shapes that do not fit, labels that are no classes, or numbers that are not finite.

    Example:
        >>> Evidence(np.array([[2.0], [-1.0]]), np.array([1, 1])).classes
        2
    """

    outputs: Any
    label: Any
    hidden: Any = None
    sample: Any = None

    def __post_init__(self) -> None:
        put = self.__dict__.__setitem__
        outputs = _matrix("outputs", self.outputs, None)
        put("outputs", outputs.astype(np.float64, copy=False))
        put("label", _classes(_array(self.label), len(outputs), self.classes))
        if self.hidden is not None:
            put("hidden", _matrix("hidden", self.hidden, len(outputs)))
        if self.sample is not None:
            ids = _array(self.sample)
            if ids.shape != (len(outputs),):
                raise ValueError(
                    f"sample: expected {len(outputs)} ids, one a row of outputs, got {ids.shape}"
                )
            put("sample", ids)

    def __len__(self) -> int:
        return len(self.outputs)

    @property
    def classes(self) -> int:
        """The number of classes, 2 for one logit."""
        return max(2, self.outputs.shape[1])

    def order(self) -> Int[np.ndarray, " sample"]:
        """Positions by ascending id."""
        return np.arange(len(self)) if self.sample is None else np.argsort(self.sample, kind="stable")

    def take(self, rows: Int[np.ndarray, " row"]) -> Evidence:
        """Some of the samples, in the order given."""
        hidden = None if self.hidden is None else self.hidden[rows]
        sample = None if self.sample is None else self.sample[rows]
        return Evidence(self.outputs[rows], self.label[rows], hidden, sample)


def log_odds(outputs: Float[np.ndarray, "sample out"]) -> Float[np.ndarray, "sample class"]:
    """log p - log(1 - p) of every class, from logits: no probability is rounded to 1.

    Example:
        >>> log_odds(np.array([[1e6]])).tolist()
        [[-1000000.0, 1000000.0]]
    """
    z = np.hstack([np.zeros_like(outputs), outputs]) if outputs.shape[1] == 1 else outputs
    rows, best = np.arange(len(z)), z.argmax(axis=1)
    top = z[rows, best]
    rest = z.copy()
    rest[rows, best] = -np.inf
    second = rest.max(axis=1)
    others = second + np.log(np.exp(rest - second[:, None]).sum(axis=1))  # all but the best class
    total = np.logaddexp(top, others)
    with np.errstate(over="ignore", invalid="ignore"):
        lower = z - total[:, None]  # log p
        odds = lower - np.log1p(-np.exp(np.minimum(lower, -np.log(2.0))))
    tied = lower > -np.log(2.0)
    odds[tied] = 0.0  # a rounding above one half, in a class that ties for the best
    odds[rows, best] = top - others
    return odds


def posteriors(outputs: Float[np.ndarray, "sample out"]) -> Float[np.ndarray, "sample class"]:
    """Probabilities of the classes (softmax).

    Example:
        >>> posteriors(np.array([[0.0]])).tolist()
        [[0.5, 0.5]]
    """
    z = np.hstack([np.zeros_like(outputs), outputs]) if outputs.shape[1] == 1 else outputs
    grown = np.exp(z - z.max(axis=1, keepdims=True))
    return grown / grown.sum(axis=1, keepdims=True)


def residual(
    outputs: Float[np.ndarray, "sample out"], label: Int[np.ndarray, " sample"]
) -> Float[np.ndarray, "sample out"]:
    """Gradient of the cross-entropy with respect to the logits, softmax - onehot; for one logit sigmoid - label.

    Its outer product with what the last layer takes in is the gradient of that layer's weight.
    """
    p = posteriors(outputs)
    if outputs.shape[1] == 1:
        return p[:, 1:] - label[:, None]
    p[np.arange(len(p)), label] -= 1
    return p


def squashed(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """asinh, which is all but linear near 0 and logarithmic far from it: strictly rising and never huge."""
    return np.arcsinh(values)


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _matrix(name: str, values: Any, rows: int | None) -> np.ndarray:
    array = _array(values)
    if array.ndim != 2 or array.dtype.kind not in "fiu" or array.shape[1] < 1:
        raise ValueError(f"{name}: expected numbers [sample, column], got {array.dtype} {list(array.shape)}")
    if rows is not None and len(array) != rows:
        raise ValueError(f"{name}: expected {rows} rows as in outputs, got {len(array)}")
    bad = ~np.isfinite(array).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name}: sample number {int(bad.argmax())} has NaN or infinite values ({int(bad.sum())} such)"
        )
    return array


def _classes(label: np.ndarray, rows: int, classes: int) -> np.ndarray:
    if label.shape != (rows,):
        raise ValueError(
            f"label: expected {rows} labels, one a row of outputs, got shape {list(label.shape)}"
        )
    expected = f"label: expected the classes 0 to {classes - 1}, as many as outputs has"
    if label.dtype.kind not in "biuf":
        raise ValueError(f"{expected}, got {label.dtype} such as {label[:1].tolist()}")
    wrong = (label < 0) | (label >= classes) | (label != np.floor(label))
    if wrong.any():
        raise ValueError(f"{expected}, got {label[wrong][0]} for sample number {int(wrong.argmax())}")
    return label.astype(np.int64)

"""From features and labels to the standardised table that a learner fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float, Num
from discreet.learners._levels import check_levels
from discreet.records.laws import quoted

__all__ = ["Design", "Scale", "check_fit"]


@dataclass(frozen=True, eq=False)
class Scale:
    """Centre and width of each column; a column without width keeps its values' distance from the centre."""

    centre: Float[np.ndarray, "*feature"]
    width: Float[np.ndarray, "*feature"]

    @classmethod
    def of(cls, values: Float[np.ndarray, " n *feature"]) -> Scale:
        """Measure the columns of ``values``; image pixels share the figures of their channel."""
        axes = (0, 2, 3) if values.ndim == 4 else (0,)
        centre = values.mean(axis=axes)
        width = values.std(axis=axes)
        # Rounding gives a constant column a width of about an ulp of its value.
        flat = width <= 1e-12 * np.maximum(1.0, np.abs(centre))
        width = np.where(flat, 1.0, width)
        if values.ndim == 4:
            centre, width = centre[:, None, None], width[:, None, None]
        return cls(np.asarray(centre), np.asarray(width))

    def __call__(self, values: Float[np.ndarray, " n *feature"]) -> Float[np.ndarray, " n *feature"]:
        return (values - self.centre) / self.width


@dataclass(frozen=True, eq=False)
class Design:
    """How features and labels are read: as they were when the learner was fitted.

    Attributes:
        shape: Shape of one record's features.
        scale: Centre and width of the features.
        classes: Labels seen in fitting, in order; None for a learner that does not know them.
    """

    shape: tuple[int, ...]
    scale: Scale
    classes: np.ndarray | None

    @classmethod
    def of(cls, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> Design:
        """Learn the reading from the rows to be fitted."""
        classes = None if y is None else np.unique(_labels(y))
        return cls(x.shape[1:], Scale.of(np.asarray(x, dtype=np.float64)), classes)

    def features(self, x: Num[np.ndarray, " n *feature"]) -> Float[np.ndarray, " n *feature"]:
        """Standardised features of new rows.

        Raises:
            ValueError: Other features than those fitted, or values that are not finite.
        """
        if x.shape[1:] != self.shape:
            raise ValueError(f"x: expected {self.shape} features a row as in fitting, got {x.shape[1:]}")
        values = np.asarray(x, dtype=np.float64)
        _check_finite("x", values)
        return self.scale(values)

    def one_hot(self, y: np.ndarray | None, rows: int) -> Float[np.ndarray, "n label"]:
        """One column a class, 1 in that of the row's label; no columns for a learner without labels.

        Raises:
            ValueError: Labels missing, or one that fitting did not see.
        """
        if self.classes is None:
            return np.zeros((rows, 0))
        if y is None or y.shape != (rows,):
            got = "none" if y is None else f"shape {y.shape}"
            raise ValueError(f"y: expected one label for each of the {rows} rows, got {got}")
        labels = _labels(y)
        place = np.searchsorted(self.classes, labels).clip(max=len(self.classes) - 1)
        unseen = self.classes[place] != labels
        if unseen.any():
            seen = ", ".join(str(each) for each in self.classes[:8]) + (
                ", …" if len(self.classes) > 8 else ""
            )
            raise ValueError(
                f"y: label {quoted(labels[unseen][0])} was not seen in fitting, which saw {seen} "
                f"({int(unseen.sum())} such rows); a learner without labels (y=None) needs none"
            )
        return (place[:, None] == np.arange(len(self.classes))).astype(np.float64)

    def table(self, x: Num[np.ndarray, " n *feature"], y: np.ndarray | None) -> Float[np.ndarray, "n column"]:
        """Standardised features, flattened, beside the one-hot labels."""
        return np.hstack([self.features(x).reshape(len(x), -1), self.one_hot(y, len(x))])


def check_fit(
    x: np.ndarray, y: np.ndarray | None, s: np.ndarray, levels: Float[np.ndarray, " level"]
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " level"]]:
    """Check what a learner is given, and return scores and levels as float64.

    Raises:
        ValueError: The message names the argument, what was expected and what came.
    """
    if s.ndim != 1 or s.size < 2:
        raise ValueError(f"s: expected a list of at least 2 scores, got shape {s.shape}")
    if x.ndim < 2 or len(x) != s.size or 0 in x.shape:
        raise ValueError(
            f"x: expected {s.size} rows of at least one feature, as many as scores, got shape {x.shape}"
        )
    if y is not None and y.shape != s.shape:
        raise ValueError(f"y: expected one label for each of the {s.size} rows, got shape {y.shape}")
    scores = np.asarray(s, dtype=np.float64)
    _check_finite("s", scores)
    _check_finite("x", np.asarray(x, dtype=np.float64))
    return scores, check_levels(levels)


def _labels(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (y == np.floor(y)).all()):
        raise ValueError(
            f"y: expected class labels, whole numbers or text, got {y.dtype} with other values; "
            "a learner without labels (y=None) needs none"
        )
    return y


def _check_finite(name: str, values: Float[np.ndarray, " n *feature"]) -> None:
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise ValueError(f"{name}: row {int(np.argmax(bad))} is NaN or infinite ({int(bad.sum())} such rows)")

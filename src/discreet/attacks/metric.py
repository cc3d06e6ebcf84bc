"""Song and Mittal, "Systematic Evaluation of Privacy Risks of Machine Learning Models" (2021), section 3.2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.attacks._references import check_choice, references
from discreet.records import Record

__all__ = ["Metric"]


@dataclass(frozen=True)
class Metric:
    """One number read off the target's prediction, as it is or against non-members of the same class.

    Of several queries the mean is taken.

    Attributes:
        kind: ``"confidence"`` (log of the true label's probability), ``"correctness"`` (1 or 0; a margin above
            0), ``"entropy"`` or ``"modified"``, the last two recorded as signals ``entropy`` and
            ``modified_entropy`` in nats.
        by_class: Score by the share of the same class's non-members of the reference models that the
            sample beats (the paper's class-dependent thresholds); needs the signal ``label``.
    """

    kind: str = "confidence"
    by_class: bool = False

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("confidence", "correctness", "entropy", "modified"))

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        own = self._read(blind, np.array([row]))[0]
        if not self.by_class:
            return own
        refs = references(blind, row)
        theirs, label = self._read(blind, refs.rows), blind.signal("label")
        score = np.zeros(len(own))
        for each in np.unique(label):
            here = label == each
            known = np.sort(theirs[:, here][refs.outside[:, here]])
            if not known.size:
                raise blind.error(f"by_class: no reference has a non-member of class {each}")
            beaten = np.searchsorted(known, own[here], "left") + np.searchsorted(known, own[here], "right")
            score[here] = beaten / (2 * len(known))
        return score

    def _read(self, blind: Record, rows: np.ndarray) -> Float[np.ndarray, "row sample"]:
        name = {
            "confidence": "loss",
            "correctness": "margin",
            "entropy": "entropy",
            "modified": "modified_entropy",
        }[self.kind]
        values = np.asarray(blind.signal(name)[rows], dtype=np.float64)
        if blind.axes[name] not in (("row", "sample"), ("row", "query", "sample")):
            raise blind.error(
                f"{name}: expected axes row, (query,) sample, got {', '.join(blind.axes[name])}"
            )
        score = (values > 0).astype(np.float64) if self.kind == "correctness" else -values
        return score.reshape(len(rows), -1, score.shape[-1]).mean(axis=1)

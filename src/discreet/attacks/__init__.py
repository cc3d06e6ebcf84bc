"""Membership attacks: one frozen dataclass a file, found by file name, run on blind records.

An attack sees losses of all models and the training halves of all *other* runs, and gives each sample a
score. It runs no model, and whether it was right is worked out elsewhere (:mod:`discreet.stats`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from discreet import _find
from discreet._types import Float
from discreet.records import Record, RecordError

__all__ = ["Attack", "Scores", "attack", "names", "parse"]


@runtime_checkable
class Attack(Protocol):
    """A way to guess who was in the training set."""

    def __call__(self, blind: Record, row: int) -> Float[np.ndarray, " sample"]:
        """Score every sample of the model in ``row``; higher = more likely member, finite.

        Args:
            blind: A record in which the membership of the target's whole run is hidden.
            row: Number of the target's row in it.
        """
        ...


@dataclass(frozen=True, eq=False)
class Scores:
    """What one attack says about one model.

    Attributes:
        values: One score a sample, in the record's order; higher = more likely member.
        attack: Spec string of the attack, with the rule it went by (``"lira(mode='offline')"``).
        run: Training run of the target.
        step: Step of the target.
        variant: Variant of the target.
    """

    values: Float[np.ndarray, " sample"]
    attack: str
    run: str
    step: float
    variant: str

    def __post_init__(self) -> None:
        bad = ~np.isfinite(self.values)
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(
                f"{self.attack}: expected finite scores, got {self.values[at]} for sample number {at} of run "
                f"{self.run!r}, variant {self.variant!r} ({int(bad.sum())} such scores)"
            )


def attack(
    record: Record, method: Attack | str, *, run: str, variant: str, step: float | None = None
) -> Scores:
    """Attack one model of a record, blind to its run's membership.

    Args:
        record: Measurements, membership included or not (attacks that need references need it).
        method: An attack, or its spec string (``"loss"``).
        run: Training run of the target.
        variant: Variant of the target.
        step: Step of the target; its last one when None.

    Raises:
        RecordError: No such model, or the record lacks what the attack needs.
        SpecError: Unknown attack.

    Example:
        >>> record = Record(
        ...     run=("0",), step=np.array([1.0]), variant=("full",), sample=np.arange(2),
        ...     signals={"loss": np.array([[0.5, 2.0]])},
        ... )
        >>> attack(record, "loss", run="0", variant="full").values
        array([-0.5, -2. ])
    """
    method = parse(method) if isinstance(method, str) else method
    blind = record.blind(run)
    rows = blind.trajectory(variant, run)
    if step is not None:
        rows = rows[blind.step[rows] == step]
        if not rows.size:
            raise RecordError(f"run {run!r} has no row of variant {variant!r} at step {step:g}")
    row = int(rows[-1])
    values = np.asarray(method(blind, row), dtype=np.float64)
    return Scores(values, _find.spec(method, __name__), run, float(blind.step[row]), variant)


def names() -> tuple[str, ...]:
    """Names of all attacks, found by listing this folder.

    Example:
        >>> "loss" in names()
        True
    """
    return _find.names(__name__)


def parse(spec: str) -> Attack:
    """Build the attack that a spec string describes.

    Raises:
        SpecError: Unknown attack or field, or a value that it refuses.
    """
    return _find.parse(spec, __name__)

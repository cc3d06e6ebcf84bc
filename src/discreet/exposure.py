"""An attack on every run of a variant in turn: the scores and the answers, ready to be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Bool, Float
from discreet.attacks import Attack, attack
from discreet.records import Record, RecordError

__all__ = ["Exposure", "expose"]


@dataclass(frozen=True, eq=False)
class Exposure:
    """Scores of one attack on the same variant of several runs, beside the truth.

    The three arrays go to the figures of merit as they are: ``auc(e.scores, e.member, keep=e.keep)``.

    Attributes:
        attack: Spec string of the attack, with the rule it went by.
        variant: The variant attacked.
        runs: The runs attacked.
        scores: Higher = more likely member.
        member: The answer.
        keep: False for samples that calibrated the target's quantizer: neither members nor strangers.
    """

    attack: str
    variant: str
    runs: tuple[str, ...]
    scores: Float[np.ndarray, "run sample"]
    member: Bool[np.ndarray, "run sample"]
    keep: Bool[np.ndarray, "run sample"]

    @property
    def members(self) -> int:
        """Members judged, summed over runs."""
        return int((self.member & self.keep).sum())

    @property
    def nonmembers(self) -> int:
        """Non-members judged, summed over runs."""
        return int((~self.member & self.keep).sum())


def expose(
    record: Record,
    method: Attack | str,
    variant: str,
    *,
    runs: Sequence[str] | None = None,
    step: float | None = None,
) -> Exposure:
    """Attack a variant of each run, one after the other, each time blind to that run.

    Args:
        record: Measurements with membership.
        method: An attack or its spec string.
        variant: The variant to attack.
        runs: The runs to attack; all that have the variant when None.
        step: Step of every target; each run's last one when None.

    Raises:
        RecordError: No membership in the record, or no such run, variant or step.
    """
    if record.member is None:
        raise RecordError("no membership: an attack cannot be judged without knowing who was in which run")
    if runs is None:
        having = {record.run[row] for row in record.rows(variant)}
        runs = [run for run in record.runs if run in having]
    if not runs:
        raise RecordError("runs: expected at least one run to attack, got none")
    found = [attack(record, method, run=run, variant=variant, step=step) for run in runs]
    member = np.array([record.membership(run) for run in runs])
    keep = np.ones_like(member)
    if record.calibration is not None:
        lines = [record.member_runs.index(run) for run in runs]
        keep = ~record.calibration[lines, record.variants.index(variant)]
    return Exposure(found[0].attack, variant, tuple(runs), np.array([s.values for s in found]), member, keep)

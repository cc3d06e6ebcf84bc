"""What the demo does, before it does it: its settings, and the molecules dealt out to their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discreet._types import Bool, Int
from discreet.data import b3db
from discreet.data.splits import split_groups
from discreet.runs.dealing import deal

__all__ = ["Material", "Plan", "prepare"]


@dataclass(frozen=True)
class Plan:
    """Settings of the demo.

    Attributes:
        seed: Seed of everything: splits, halves, initial weights, orders, bootstrap.
        runs: Training runs, in pairs with complementary training halves.
        epochs: Passes over a training half, each followed by a checkpoint; the lowest validation loss lies
            about halfway.
        lr: Step size of Adam ("An Indicator of Membership Inference Security in Post-Training Quantized
            Models", section 4.3).
        batch_size: Samples a step, on which the paper is silent.
        hidden: Hidden units of the two-layer network (section 4.3).
        bits: Length of the fingerprints.
        every: The coarser of the two spacings of checkpoints, in epochs.
        shares: Of the families of stereoisomers: for training, for choosing the checkpoint, for evaluation
            (40 %, section 4.3).
        molecules: About how many molecules to use; None: all.
        level: Confidence level of all intervals.

    Raises:
        ValueError: Runs are not an even number, or there are too few epochs for the coarser spacing.
    """

    seed: int = 0
    runs: int = 16
    epochs: int = 40
    lr: float = 1e-4
    batch_size: int = 64
    hidden: int = 128
    bits: int = 2048
    every: int = 4
    shares: tuple[float, float, float] = (0.5, 0.1, 0.4)
    molecules: int | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        if self.runs < 2 or self.runs % 2:
            raise ValueError(f"runs: expected an even number, since runs come in pairs, got {self.runs}")
        if self.seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {self.seed}")
        if self.epochs < 2 * self.every:
            raise ValueError(
                f"epochs: expected at least {2 * self.every}, two checkpoints every {self.every} epochs, "
                f"got {self.epochs}"
            )

    def training(self) -> dict[str, Any]:
        """What one run depends on: all but the number of runs and the analysis."""
        skipped = ("runs", "every", "level")
        return {name: value for name, value in asdict(self).items() if name not in skipped}


@dataclass(frozen=True)
class Material:
    """Molecules dealt out to training, validation and evaluation; a family is wholly in one of them.

    Attributes:
        number: Sample ids: the numbers of the molecules in their table.
        fingerprint: Inputs.
        label: 1 for molecules that pass the blood-brain barrier.
        family: Which molecules are stereoisomers of each other.
        training: Positions of the molecules that runs train on, each in half of the runs.
        validation: Positions of those that choose the shipped checkpoint, one a family.
        evaluation: Positions of those that r and AUROC are measured on, one a family.
        halves: Which training molecules each run sees; runs 2i and 2i + 1 complement each other.
        counts: How many molecules went where, and which were left out.
    """

    number: Int[np.ndarray, " molecule"]
    fingerprint: Bool[np.ndarray, "molecule bit"]
    label: Int[np.ndarray, " molecule"]
    family: Int[np.ndarray, " molecule"]
    training: Int[np.ndarray, " trained"]
    validation: Int[np.ndarray, " validated"]
    evaluation: Int[np.ndarray, " evaluated"]
    halves: Bool[np.ndarray, "run trained"]
    counts: Mapping[str, int] = field(repr=False)

    @property
    def n_train(self) -> int:
        """Training molecules of a run, the theorem's n."""
        return len(self.training) // 2


def prepare(plan: Plan) -> Material:
    """Load the molecules and deal them out.

    Raises:
        MoleculesError: RDKit or ``qc-b3db`` is not installed, or not the one expected.
    """
    molecules = b3db.load(bits=plan.bits)
    family = molecules.family
    parts = deal(family, plan.shares, plan.runs // 2, seed=plan.seed, among=_some(family, plan))
    training, validation, evaluation = parts.training, parts.validation, parts.evaluation
    counts = dict(molecules.counts) | {
        "training molecules": len(training),
        "training molecules of each run": len(training) // 2,
        "validation molecules, one a family": len(validation),
        "evaluation molecules, one a family": len(evaluation),
    }
    return Material(
        molecules.number,
        molecules.fingerprint,
        molecules.permeable.astype(np.int64),
        family,
        training,
        validation,
        evaluation,
        parts.halves,
        counts,
    )


def _some(family: Int[np.ndarray, " molecule"], plan: Plan) -> Int[np.ndarray, " kept"]:
    """Positions of all molecules, or of those of some families at random."""
    if plan.molecules is None or plan.molecules >= len(family):
        return np.arange(len(family))
    share = plan.molecules / len(family)
    return split_groups(family, (share, 1 - share), seed=plan.seed)[0]

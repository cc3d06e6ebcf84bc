"""Settings of the study of molecules, and how molecules are dealt out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from discreet._types import Float, Int
from discreet.data.molecule_set import MoleculeSet
from discreet.data.splits import split_groups
from discreet.model_seeds import stream

__all__ = ["SCALES", "MoleculeScale", "Parts", "deal", "prepared", "subset"]

_SUBSET = 0x40  # use of a run's random numbers: which 90 % it trains on


@dataclass(frozen=True)
class MoleculeScale:
    """How large the study is (section 4.3 where it says so).

    Attributes:
        tasks: Names for ``discreet.data.molecules.load``.
        embedders: Spec strings.
        runs: Training runs of each task and embedder; the paper does not say how many it took.
        epochs: Passes over the training molecules (500 there).
        every: Epochs between two checkpoints that r is taken over (1 there).
        lr: Step size of Adam (1e-4 there).
        batch_size: Molecules a step, on which the paper is silent.
        hidden: Hidden units (128 there).
        validation: Share of molecules (of families of stereoisomers) that are held out (40 % there).
        trained: Share of the others that a run trains on (90 % there).
        most: Molecules of a task that are used at most, whole families drawn at random; None: all.
        at_once: Runs that are trained side by side, one unit of work.

    Raises:
        ValueError: A number out of its range.
    """

    tasks: tuple[str, ...]
    embedders: tuple[str, ...]
    runs: int = 4
    epochs: int = 500
    every: int = 5
    lr: float = 1e-4
    batch_size: int = 128
    hidden: int = 128
    validation: float = 0.4
    trained: float = 0.9
    most: int | None = None
    at_once: int = 2

    def __post_init__(self) -> None:
        if self.runs < 2:
            raise ValueError(f"runs: expected at least 2, since intervals are over runs, got {self.runs}")
        if not (self.every >= 1 and 2 * self.every <= self.epochs):
            raise ValueError(
                f"every: expected from 1 to half of {self.epochs} epochs, since r compares checkpoints, got "
                f"{self.every}"
            )
        if not (0 < self.validation < 1 and 0 < self.trained <= 1):
            raise ValueError(
                f"validation, trained: expected shares, got {self.validation:g} and {self.trained:g}"
            )
        if not self.tasks or not self.embedders or min(self.at_once, self.most or 1) < 1:
            raise ValueError("tasks, embedders, at_once, most: expected at least one of each")

    def training(self) -> dict[str, Any]:
        """What one run depends on."""
        skipped = ("tasks", "embedders", "runs", "at_once")
        return {name: value for name, value in asdict(self).items() if name not in skipped}


_EMBEDDERS = ("ecfp4", "descriptors", "rxnfp")
_SHORTER = ("ecfp4(bits=1024)", "descriptors", "rxnfp")  # half the bits, half the time

SCALES: Mapping[str, MoleculeScale] = {
    "small": MoleculeScale(("AMES", "BBB Martins", "freesolv", "solubility"), _SHORTER, most=3000),
    "paper": MoleculeScale(
        (
            "AMES",
            "BBB Martins",
            "b3db",
            "freesolv",
            "solubility",
            "logbb",
            "logp",
            "melting_point",
            "boiling_point",
            "moleculeace:CHEMBL234_Ki",
        ),
        _EMBEDDERS,
        runs=20,
        every=1,
    ),
}


@dataclass(frozen=True, eq=False)
class Parts:
    """Molecules dealt out; stereoisomers stay together.

    Attributes:
        pool: Positions of the molecules that runs draw their training sets from.
        validation: Positions of the molecules that r, performance and the choice of a checkpoint rest on.
        n_train: Training molecules of a run, the theorem's n.
    """

    pool: Int[np.ndarray, " pooled"]
    validation: Int[np.ndarray, " validated"]
    n_train: int


def deal(data: MoleculeSet, scale: MoleculeScale, seed: int) -> Parts:
    """Hold molecules out for validation.

    Raises:
        ValueError: Too few molecules, or a class is missing from a part.
    """
    kept = np.arange(len(data))
    if scale.most is not None and scale.most < len(data):
        share = scale.most / len(data)
        kept = split_groups(data.family, (share, 1 - share), seed=seed)[0]
    pool, validation = (
        kept[part]
        for part in split_groups(data.family[kept], (1 - scale.validation, scale.validation), seed=seed)
    )
    if data.task == "classification":
        for name, part in (("training", pool), ("validation", validation)):
            if len(np.unique(data.label[part])) < 2:
                raise ValueError(f"{data.name}: the {name} molecules are of one class; more are needed")
    return Parts(pool, validation, max(1, int(scale.trained * len(pool))))


def subset(parts: Parts, run: int, seed: int) -> Int[np.ndarray, " trained"]:
    """Places in the pool of what a run trains on; the same for every embedder."""
    return np.sort(stream(seed, run, _SUBSET).permutation(len(parts.pool))[: parts.n_train])


def prepared(
    x: Float[np.ndarray, "molecule feature"], pool: Int[np.ndarray, " pooled"]
) -> Float[np.ndarray, "molecule feature"]:
    """Vectors as networks are given them: bits as they are, anything else standardised over the pool.

    Standardised values are cut at 10 standard deviations: a descriptor that is 0 in nearly all molecules would
    otherwise decide the output of the few others.

    Example:
        >>> prepared(np.array([[1.0, 5.0], [3.0, 5.0]], np.float32), np.array([0, 1])).tolist()
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    if ((x == 0) | (x == 1)).all():
        return x.astype(np.float32)
    mean, spread = x[pool].mean(axis=0, dtype=np.float64), x[pool].std(axis=0, dtype=np.float64)
    return np.clip((x - mean) / np.where(spread > 0, spread, 1.0), -10, 10).astype(np.float32)

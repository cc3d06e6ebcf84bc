"""The rows of an audit that say what attacks found: figures, curves, records, classes and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["Agreement", "Attack", "Blind", "Exposed", "OfClass", "Paired", "RocCurve", "more"]


def more() -> Any:
    """The field of a row that keeps what a newer release wrote."""
    return field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Attack:
    """One figure of one attack on one variant: an AUC of 0.5 is guessing, higher means that it leaks more.

    ``metric`` is ``auc``, ``tpr@FPR``, ``balanced_accuracy``, ``advantage`` or ``epsilon`` (a lower bound, with no
    high end). Of a ``tpr@FPR``, ``more`` may say ``realised_fpr``, ``resolvable`` and ``needs`` (non-members a run).
    """

    variant: str
    attack: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    members: int | None = None
    nonmembers: int | None = None
    runs: int | None = None
    rule: str | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Blind:
    """How well a classifier that sees no model tells members from non-members, by their texts or features alone.

    ``confounded`` if the whole interval of its AUC lies above 1/2: then members and non-members differ of themselves,
    and no attack's figure is evidence of a leak. Otherwise the split may still be confounded in ways it cannot see.
    """

    of: str
    auc: float
    low: float
    high: float
    level: float
    confounded: bool
    members: int | None = None
    nonmembers: int | None = None
    runs: int | None = None
    rule: str | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Agreement:
    """Spearman correlation between r and another figure of the same variants."""

    with_: str
    spearman: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    more: Mapping[str, Any] = more()

    @property
    def full_agreement(self) -> int:
        """The correlation of full agreement: -1 against the success of an attack, +1 against a security."""
        return -1 if any(word in self.with_.lower() for word in ("auc", "tpr", "attack")) else 1


@dataclass(frozen=True)
class RocCurve:
    """True positive rates of an attack over false positive rates, both ascending, the mean over runs.

    Below ``resolvable``, one over the non-members of a run, no false accusation fits into the rate.
    """

    variant: str
    attack: str
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    resolvable: float
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Exposed:
    """One record under one attack: in how many of the runs that trained on it was it found out?

    ``caught`` of ``runs`` member runs at false positive rate ``fpr``; ``accused`` of the ``others`` runs that did not
    train on it, falsely; ``mean_rank`` is the share of a run's non-members that it outscores, over member runs.
    """

    variant: str
    attack: str
    sample: str
    runs: int
    caught: int
    mean_rank: float
    others: int
    accused: int
    fpr: float
    label: str | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class OfClass:
    """One figure of an attack among the records of one class; thresholds are those of that class."""

    variant: str
    attack: str
    label: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    members: int | None = None
    nonmembers: int | None = None
    more: Mapping[str, Any] = more()


@dataclass(frozen=True)
class Paired:
    """A figure of ``variant`` less that of ``against``: same attack, same rows; below 0 it leaks less."""

    variant: str
    against: str
    attack: str
    metric: str
    value: float
    low: float
    high: float
    answer: Literal["less", "more", "not told apart"]
    more: Mapping[str, Any] = more()

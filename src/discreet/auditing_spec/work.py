"""What all units of an audit's work have in common, and what a unit is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discreet._types import Bool, Int
from discreet.runs.dealing import Parts
from discreet.runs.following import Panel
from discreet.runs.units import Tick
from discreet.spec import AuditSpec, Loaded, Source
from discreet.store import Store

__all__ = ["OneRecordEach", "Prepared", "Unit", "Work"]


@runtime_checkable
class Unit(Protocol):
    """Some runs that are trained or read, and measured, together: what a kill may lose."""

    @property
    def name(self) -> str:
        """In words."""
        ...

    @property
    def runs(self) -> tuple[str, ...]:
        """Labels of the runs."""
        ...

    @property
    def keys(self) -> tuple[str, ...]:
        """All that it leaves in the store."""
        ...

    @property
    def trajectory(self) -> tuple[str, ...]:
        """Keys of its trajectory records; none for runs that are not followed."""
        ...

    @property
    def release(self) -> tuple[str, ...]:
        """Keys of its release records."""
        ...

    @property
    def ticks(self) -> int:
        """How often it ticks."""
        ...

    def do(self, tick: Tick) -> None:
        """Do it, unless it is done."""
        ...


class OneRecordEach(ABC):
    """Of units of one run with one checkpoint, which leave a trajectory and a release, one record each."""

    number: int

    @abstractmethod
    def kept(self) -> tuple[str, str]:
        """Their keys, the trajectory's first."""

    @property
    def runs(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return (str(self.number),)

    @cached_property
    def _kept(self) -> tuple[str, str]:
        return self.kept()

    @property
    def keys(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self._kept

    @property
    def trajectory(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self._kept[:1]

    @property
    def release(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self._kept[1:]


@dataclass(frozen=True, eq=False)
class Work:
    """The data, who plays which part, and what is measured.

    Attributes:
        spec: What to do.
        source: Where it came from.
        store: The run directory.
        data: The samples.
        panel: What is measured, and on whom.
        content: Key of all that every unit depends on.
        parts: Who is trained on; None if nothing is trained.
    """

    spec: AuditSpec
    source: Source
    store: Store
    data: Loaded
    panel: Panel
    content: str
    parts: Parts | None = None

    @property
    def dealt(self) -> Parts:
        """Who is trained on.

        Raises:
            ValueError: Nothing is trained.
        """
        if self.parts is None:
            raise ValueError("parts: expected runs that are trained")
        return self.parts

    def subset(self, run: int) -> Int[np.ndarray, " n"]:
        """Positions of the samples that a run trains on, ascending."""
        return self.dealt.training[self.dealt.halves[run]]

    def member(self, runs: tuple[int, ...]) -> Bool[np.ndarray, "run released"]:
        """Which of the released samples each run trains on."""
        return self.dealt.halves[list(runs)]


@dataclass(frozen=True, eq=False)
class Prepared:
    """An audit before it is done.

    Attributes:
        work: What all units share.
        units: In order; followed runs first.
        workers: How many units at a time.
        notes: What a reader must know.
        counts: How many samples went where.
        variants: Names of all variants, in their order; the first is what the others are compared with.
        storage: What variants without weights take on disk.
    """

    work: Work
    units: tuple[Unit, ...]
    workers: int | None
    notes: tuple[str, ...]
    counts: Mapping[str, int]
    variants: tuple[str, ...]
    storage: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

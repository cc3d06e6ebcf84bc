"""Units of an audit done on a backend; what they leave comes back through the store of the run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from discreet.auditing_spec.estimators import EstimatorUnit
from discreet.auditing_spec.training import TrainingUnit
from discreet.auditing_spec.work import Unit
from discreet.backends import Backend
from discreet.backends.keeping import make_elsewhere, moved
from discreet.spec import importable
from discreet.store import Store

__all__ = ["can_travel", "do_elsewhere"]


def can_travel(unit: Unit) -> bool:
    """Whether a unit needs nothing but what it is sent: those that read files of this machine stay."""
    return isinstance(unit, TrainingUnit | EstimatorUnit)


def do_elsewhere(
    backend: Backend,
    units: Sequence[Unit],
    *,
    done: Callable[[Unit, float], None],
    until: float = float("inf"),
) -> list[Unit]:
    """Train and measure units on a backend.

    Args:
        backend: Where.
        units: Units that can travel, of one store.
        done: Called with each that is done, and the seconds it took.
        until: None but the first is begun after this time, by ``time.monotonic``.

    Returns:
        The units that were not begun.
    """
    if not units:
        return []
    store: Store = units[0].work.store  # pyright: ignore[reportAttributeAccessIssue]
    left = make_elsewhere(
        backend,
        store,
        _do,
        tuple(units),
        range(len(units)),
        keys=lambda number: units[number].keys,
        done=lambda number, seconds: done(units[number], seconds),
        until=until,
    )
    return [units[number] for number in left]


def _do(units: tuple[Any, ...], number: int, store: Store) -> None:
    unit = units[number]
    with importable(unit.work.source.folder):
        replace(unit, work=moved(unit.work, store)).do(lambda count=1: None)

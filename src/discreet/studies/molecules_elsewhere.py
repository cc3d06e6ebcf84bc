"""Units of the study of molecules made on a backend, each one artefact."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.backends import Backend
from discreet.backends.keeping import make_elsewhere
from discreet.store import Store
from discreet.studies.molecules_plan import MoleculeScale
from discreet.studies.molecules_unit import run_unit

__all__ = ["Material", "make_units"]


@dataclass(frozen=True, eq=False)
class Material:
    """What all units are made of."""

    units: Sequence[Any]
    keys: Mapping[Any, str]
    tasks: Mapping[str, Any]
    vectors: Mapping[tuple[str, str], np.ndarray]
    scale: MoleculeScale
    seed: int


def make_units(
    backend: Backend, store: Store, material: Material, progress: Callable[[str, float], None]
) -> None:
    """Make every unit that is not in the store yet on a backend."""
    keys, ready = material.keys, 0
    missing = [number for number, unit in enumerate(material.units) if not store.has(keys[unit])]

    def done(number: int, seconds: float) -> None:
        del seconds
        nonlocal ready
        ready += 1
        unit = material.units[missing[number]]
        progress(f"{unit.task}, {unit.embedder}", 0.05 + 0.92 * ready / len(missing))

    make_elsewhere(backend, store, _make_unit, material, missing, keys=lambda number: (), done=done)


def _make_unit(material: Material, number: int, store: Store) -> None:
    unit = material.units[number]
    task, x = material.tasks[unit.task], material.vectors[unit.task, unit.embedder]
    store.make(
        material.keys[unit],
        lambda aside: run_unit(
            x,
            task.y,
            task.loss,
            task.parts,
            material.scale,
            unit.runs,
            seed=material.seed,
            path=aside,
            on_epoch=lambda: None,
        ),
    )

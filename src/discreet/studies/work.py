"""The demo's units of work, each done once and kept in the run directory; pairs of runs side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, stack

from discreet.data import b3db
from discreet.runs.units import Tick, do_units
from discreet.store import Store
from discreet.studies.pair import VARIANTS, measure_release, measure_storage, train_pair
from discreet.studies.plan import Material, Plan

__all__ = ["PairKeys", "do_pairs", "keys_of", "storage"]


@dataclass(frozen=True)
class PairKeys:
    """Keys of what a pair of runs leaves in the store."""

    trajectory: str
    weights: tuple[str, str]
    release: str


def keys_of(store: Store, plan: Plan, material: Material, pair: int) -> PairKeys:
    """Name a pair's artefacts by all that they depend on (not by how many other runs there are)."""
    first, second = 2 * pair, 2 * pair + 1
    number, training = material.number, material.training
    content = {
        "settings": plan.training(),
        "data": b3db.SHA256,
        "halves": [number[training[material.halves[run]]] for run in (first, second)],
        "validation": number[material.validation],
        "evaluation": number[material.evaluation],
        "variants": VARIANTS,
        "versions": {name: metadata.version(name) for name in ("discreet", "torch", "rdkit")},
    }
    return PairKeys(
        store.key(f"trajectory/runs-{first}-{second}.safetensors", **content),
        (
            store.key(f"weights/run-{first}.safetensors", **content),
            store.key(f"weights/run-{second}.safetensors", **content),
        ),
        store.key(f"release/runs-{first}-{second}.safetensors", **content),
    )


def do_pairs(
    store: Store,
    plan: Plan,
    material: Material,
    keys: list[PairKeys],
    *,
    workers: int | None,
    progress: Callable[[float], None],
) -> None:
    """Train and measure every pair that is not in the store yet, each on one core.

    Ctrl-C, or a pair that fails, stops the others after the epoch they are in; finished pairs are kept.

    Args:
        store: The run directory.
        plan: Settings.
        material: The molecules.
        keys: The keys of each pair.
        workers: How many pairs at a time; None: one a core.
        progress: Called with the share that is done, from several threads in turn.
    """

    def work(pair: int, tick: Tick) -> None:
        _do_pair(store, plan, material, pair, keys[pair], tick)

    total = len(keys) * (plan.epochs + 1)
    do_units(range(len(keys)), work, total, workers=workers, progress=progress)


def storage(store: Store, plan: Plan, material: Material, keys: PairKeys) -> dict[str, dict[str, Any]]:
    """What each variant of the first run's shipped checkpoint takes on disk."""

    def write(aside: Path) -> None:
        weights, _ = _load(store.path(keys.weights[0]))
        aside.write_text(json.dumps(measure_storage(plan, material, weights), indent=2), "utf-8")

    path = store.make(store.key("release/storage.json", weights=keys.weights[0]), write)
    return json.loads(path.read_text("utf-8"))


def _do_pair(store: Store, plan: Plan, material: Material, pair: int, keys: PairKeys, tick: Tick) -> None:
    if all(store.has(key) for key in (keys.trajectory, *keys.weights)):
        tick(plan.epochs)
    else:
        trained = train_pair(plan, material, pair, lambda epoch: tick())
        for row, key in enumerate(keys.weights):
            weights = {name: value[row].contiguous() for name, value in trained.shipped.items()}
            data = save(weights, {"step": f"{trained.steps[row]:g}"})
            store.make(key, lambda aside, data=data: aside.write_bytes(data))
        store.make(keys.trajectory, trained.followed.save)

    def write(aside: Path) -> None:
        (first, a), (second, b) = (_load(store.path(key)) for key in keys.weights)
        shipped = {name: stack([first[name], second[name]]) for name in first}
        measure_release(plan, material, pair, shipped, (a, b)).save(aside)

    store.make(keys.release, write)
    tick()


def _load(path: Path) -> tuple[dict[str, Tensor], float]:
    """A run's shipped weights, and the epoch they are from."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, float(file.metadata()["step"])  # noqa: SIM118

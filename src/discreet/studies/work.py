"""The demo's units of work, each done once and kept in the run directory; pairs of runs side by side."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from discreet.data import b3db
from discreet.runs.keeping import RunKeys, keep_runs, load_weights
from discreet.runs.units import Tick, do_units
from discreet.store import Store
from discreet.studies.pair import VARIANTS, measure_release, measure_storage, train_pair
from discreet.studies.plan import Material, Plan

__all__ = ["do_pairs", "keys_of", "storage"]


def keys_of(store: Store, plan: Plan, material: Material, pair: int) -> RunKeys:
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
    return RunKeys(
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
    keys: list[RunKeys],
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


def storage(store: Store, plan: Plan, material: Material, keys: RunKeys) -> dict[str, dict[str, Any]]:
    """What each variant of the first run's shipped checkpoint takes on disk."""

    def write(aside: Path) -> None:
        weights, _ = load_weights(store.path(keys.weights[0]))
        aside.write_text(json.dumps(measure_storage(plan, material, weights), indent=2), "utf-8")

    path = store.make(store.key("release/storage.json", weights=keys.weights[0]), write)
    return json.loads(path.read_text("utf-8"))


def _do_pair(store: Store, plan: Plan, material: Material, pair: int, keys: RunKeys, tick: Tick) -> None:
    now = keep_runs(
        store,
        keys,
        lambda: train_pair(plan, material, pair, lambda epoch: tick()),
        lambda shipped, steps: measure_release(plan, material, pair, shipped, steps),
    )
    tick(1 if now else plan.epochs + 1)

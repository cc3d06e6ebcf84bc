"""What there is to do, written before it is done, so that anyone can see how far a run directory is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._json import dumps, loads, save
from discreet.attack_specs import chosen
from discreet.auditing_spec.work import Prepared
from discreet.store import Store

__all__ = ["Planned", "planned", "save_plan"]

SCHEMA = "discreet.plan/1"
FILE = "plan.json"


@dataclass(frozen=True)
class Planned:
    """How far a run directory is.

    Attributes:
        done: Names of the units that are done.
        left: Of those that are not.
        attacks_done: Attacks on variants that are done.
        attacks: Of how many; some may turn out not to be possible.
        seconds: What is left of the units may take, from those that were done; None if none was timed.
    """

    done: tuple[str, ...]
    left: tuple[str, ...]
    attacks_done: int
    attacks: int
    seconds: float | None


def save_plan(store: Store, prepared: Prepared) -> None:
    """Write ``plan.json``: units with the keys of what they leave, attacks and variants."""
    methods, _ = chosen([*prepared.work.spec.attacks.names, "loss"])
    told = {
        "schema": SCHEMA,
        "workers": prepared.workers,
        "units": [{"name": unit.name, "keys": list(unit.keys)} for unit in prepared.units],
        "attacks": list(methods),
        "variants": list(prepared.variants),
    }
    save(store.folder / FILE, dumps(told))


def planned(store: Store) -> Planned | None:
    """Compare the plan with what is there; None if there is no plan.

    Raises:
        ValueError: A plan that cannot be read.
    """
    path = store.folder / FILE
    if not path.is_file():
        return None
    told = loads(path.read_bytes())
    if not isinstance(told, Mapping) or told.get("schema") != SCHEMA:
        raise ValueError(f"{path}: expected the schema {SCHEMA!r}")
    units = {unit["name"]: all(store.has(key) for key in unit["keys"]) for unit in told["units"]}
    done, left = ([name for name, there in units.items() if there is wanted] for wanted in (True, False))
    seconds = _seconds(store.manifest["sessions"])
    return Planned(
        tuple(done),
        tuple(left),
        _attacks(store.folder, told),
        len(told["attacks"]) * len(told["variants"]),
        _estimate(seconds, left, told["workers"]),
    )


def _seconds(sessions: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {name: took for session in sessions for name, took in session.get("seconds", {}).items()}


def _estimate(seconds: Mapping[str, float], left: Sequence[str], workers: int | None) -> float | None:
    """Mean time of a unit of the same kind, times what is left of it."""
    if not left:
        return 0.0
    if not seconds:
        return None
    total = 0.0
    for name in left:
        kind = name.partition(" ")[0]
        alike = [took for each, took in seconds.items() if each.partition(" ")[0] == kind]
        alike = alike or list(seconds.values())
        total += sum(alike) / len(alike)
    return total / (workers or 1)


def _attacks(folder: Path, told: Mapping[str, Any]) -> int:
    """Attacks on variants of which there is a file newer than the records; older ones are of other records."""
    parts = [path.stat().st_mtime_ns for path in (folder / "release").glob("*.safetensors")]
    newest = max(parts, default=0)
    found = [path for path in (folder / "attacks").glob("*.safetensors") if path.stat().st_mtime_ns >= newest]
    return min(len(found), len(told["attacks"]) * len(told["variants"]))

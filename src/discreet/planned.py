"""What there is to do in a run directory, written before it is done, so that anyone can see how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet._json import dumps, loads, save
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
        seconds: What is left may take, from those that were timed; None if none was.
        stage: What comes after the units, in words: which attacks are done; nothing before.
    """

    done: tuple[str, ...]
    left: tuple[str, ...]
    seconds: float | None
    stage: str


def save_plan(
    store: Store,
    units: Mapping[str, Sequence[str]],
    *,
    workers: int | None,
    attacks: Sequence[str],
    variants: Sequence[str],
) -> None:
    """Write ``plan.json``.

    Args:
        store: The run directory.
        units: For each unit of work, by name, the keys of what it leaves.
        workers: How many are done at a time.
        attacks: Attacks that come after them.
        variants: On what.
    """
    told = {
        "schema": SCHEMA,
        "workers": workers,
        "units": [{"name": name, "keys": list(keys)} for name, keys in units.items()],
        "attacks": list(attacks),
        "variants": list(variants),
    }
    save(store.folder / FILE, dumps(told))


def planned(store: Store) -> Planned:
    """Compare the plan with what is there.

    Raises:
        ValueError: A plan that is none.
        OSError: It cannot be read.
    """
    path = store.folder / FILE
    told = loads(path.read_bytes())
    if not isinstance(told, Mapping) or told.get("schema") != SCHEMA:
        raise ValueError(f"{path}: expected the schema {SCHEMA!r}")
    units = {unit["name"]: all(store.has(key) for key in unit["keys"]) for unit in told["units"]}
    done, left = (tuple(name for name, there in units.items() if there is wanted) for wanted in (True, False))
    seconds = {
        name: took
        for session in store.manifest["sessions"]
        for name, took in session.get("seconds", {}).items()
    }
    return Planned(
        done, left, _estimate(seconds, left, told["workers"]), "" if left else _attacks(store, told)
    )


def _estimate(seconds: Mapping[str, float], left: Sequence[str], workers: int | None) -> float | None:
    """The mean time of a unit of the same kind, for each that is left."""
    if not seconds:
        return None if left else 0.0

    def kind(name: str) -> str:
        return name.partition(" ")[0]

    total = 0.0
    for name in left:
        alike = [took for each, took in seconds.items() if kind(each) == kind(name)] or list(seconds.values())
        total += sum(alike) / len(alike)
    return total / (workers or 1)


def _attacks(store: Store, told: Mapping[str, Any]) -> str:
    """How many attacks on variants are done; files older than the records are of other records."""
    wanted = len(told["attacks"]) * len(told["variants"])
    newest = max((p.stat().st_mtime_ns for p in (store.folder / "release").glob("*.safetensors")), default=0)
    found = [p for p in (store.folder / "attacks").glob("*.safetensors") if p.stat().st_mtime_ns >= newest]
    return (
        f"attacks: {min(len(found), wanted)} of {wanted} done; what the records do not allow is left out"
        if found
        else ""
    )

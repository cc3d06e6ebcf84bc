"""What there is to do in a run directory, written before it is done, so that anyone can see how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from discreet._json import dumps, loads, save
from discreet.store import Store

__all__ = ["Command", "Planned", "planned", "planned_by", "save_plan"]

SCHEMA = "discreet.plan/1"
FILE = "plan.json"
Command = Literal["audit", "compress"]


@dataclass(frozen=True)
class Planned:
    """How far a run directory is.

    Attributes:
        done: Names of the units that are done.
        left: Of those that are not.
        failed: Why, of those that failed when they were tried last.
        seconds: What is left may take, from those that were timed; None if none was.
        stage: What comes after the units, in words: which attacks are done; nothing before.
    """

    done: tuple[str, ...]
    left: tuple[str, ...]
    failed: Mapping[str, str]
    seconds: float | None
    stage: str


def save_plan(
    store: Store,
    units: Mapping[str, Sequence[str]],
    *,
    workers: int | None,
    attacks: Sequence[str] = (),
    variants: Sequence[str] = (),
    command: Command = "audit",
    failed: Mapping[str, str] | None = None,
) -> None:
    """Write ``plan.json``.

    Args:
        store: The run directory.
        units: For each unit of work, by name, the keys of what it leaves.
        workers: How many are done at a time.
        attacks: Attacks that come after them.
        variants: On what.
        command: What works on it.
        failed: Of units that failed, why.
    """
    failed = failed or {}
    told = {
        "schema": SCHEMA,
        "command": command,
        "workers": workers,
        "units": [
            {"name": name, "keys": list(keys)} | ({"failed": failed[name]} if name in failed else {})
            for name, keys in units.items()
        ],
        "attacks": list(attacks),
        "variants": list(variants),
    }
    save(store.folder / FILE, dumps(told))


def planned_by(folder: Path) -> Command | None:
    """Which command works on a run directory; None if it has no plan.

    Raises:
        ValueError: A plan that is none.
        OSError: It cannot be read.
    """
    return _read(folder).get("command", "audit") if (folder / FILE).is_file() else None


def planned(store: Store) -> Planned:
    """Compare the plan with what is there.

    Raises:
        ValueError: A plan that is none.
        OSError: It cannot be read.
    """
    told = _read(store.folder)
    units = {unit["name"]: all(store.has(key) for key in unit["keys"]) for unit in told["units"]}
    failed = {
        unit["name"]: unit["failed"] for unit in told["units"] if "failed" in unit and not units[unit["name"]]
    }
    done = tuple(name for name, there in units.items() if there)
    left = tuple(name for name, there in units.items() if not there and name not in failed)
    seconds = {
        name: took
        for session in store.manifest["sessions"]
        for name, took in session.get("seconds", {}).items()
    }
    stage = "" if left else _attacks(store, told)
    return Planned(done, left, failed, _estimate(seconds, left, told["workers"]), stage)


def _read(folder: Path) -> Mapping[str, Any]:
    path = folder / FILE
    told = loads(path.read_bytes())
    if not isinstance(told, Mapping) or told.get("schema") != SCHEMA:
        raise ValueError(f"{path}: expected the schema {SCHEMA!r}")
    return told


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

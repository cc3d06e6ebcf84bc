"""What a compression tells: its units as plain data, ``compress.json``, the page and the audit that is made of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from discreet._find import bare
from discreet._json import dumps, loads, save
from discreet.compressed_audit import audit_of, names_of
from discreet.compressing_kept import Job, Work, audit_key, key_of
from discreet.phase import Outcome, Progress, Setting
from discreet.planned import save_plan
from discreet.release_audit import assess, less
from discreet.report.compressed import compressed
from discreet.shipping import Shipped, count_parameters, void

__all__ = ["SCHEMA", "Results", "covers", "keep", "plan", "told_of", "unit_of"]

SCHEMA = "discreet.compress/1"
HISTORY = ("points", "rounds", "extra", "epoch")


@dataclass
class Results:
    """How far a compression is.

    Attributes:
        units: What was trained and audited, as plain data, the method that ships first.
        left: What is not done yet.
        failed: Controls that failed, and why.
        shipped: The files.
        over: Whether the time budget ended.
    """

    units: list[dict[str, Any]] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)
    failed: list[tuple[Job, str]] = field(default_factory=list)
    shipped: Shipped | None = None
    over: bool = False


def plan(work: Work, jobs: Sequence[Job], failed: Sequence[tuple[Job, str]] = ()) -> None:
    """Write down what there is to do, for ``discreet status``.

    Args:
        work: The spec.
        jobs: All of it.
        failed: What failed, and why.
    """
    names = dict(zip(jobs, names_of([asdict(job) for job in jobs]), strict=True))
    save_plan(
        work.store,
        {name: [key_of(work, job), audit_key(work, job)] for job, name in names.items()},
        workers=1,
        command="compress",
        failed={names[job]: reason for job, reason in failed},
    )


def unit_of(
    work: Work, setting: Setting, job: Job, outcome: Outcome, first: Mapping[str, Any] | None, show: Progress
) -> dict[str, Any]:
    """A unit as plain data, audited.

    Args:
        work: The spec.
        setting: The task.
        job: What the unit is.
        outcome: Its models.
        first: The unit that ships, which it is compared with; None if this is the one.
        show: Told what is being done.
    """
    show("attacking", 1.0)

    def write(aside: Path) -> None:
        found = assess(setting, outcome.model, outcome.params, tests=list(work.spec.safety.audit))
        aside.write_text(dumps(found.to_json()), "utf-8")

    audit = json.loads(work.store.make(audit_key(work, job), write).read_text("utf-8"))
    weights = count_parameters(outcome.model)
    used = weights - sum(int((~mask[0]).sum()) for mask in outcome.masks.values())
    unit = {
        **asdict(job),
        "epochs": outcome.epochs,
        "spent": outcome.spent,
        "parameters": weights,
        "used": used,
        "parameters_full": count_parameters(setting.model),
        "notes": list(outcome.notes),
        "epsilon": None if outcome.epsilon is None else list(outcome.epsilon),
        "audit": audit,
        "history": json.loads(
            json.dumps({n: outcome.history[n] for n in HISTORY if n in outcome.history}, sort_keys=True)
        ),
    }
    return unit | {"beside": {} if first is None else _beside(first, unit)}


def told_of(
    work: Work, data: Mapping[str, Any], metric: str, notes: Sequence[str], found: Results
) -> dict[str, Any]:
    """What ``compress.json`` holds.

    Args:
        work: The spec.
        data: Where the samples came from, and how many there are.
        metric: Task performance, by name.
        notes: What a reader must know of data, model and loss.
        found: What there is.
    """
    spec = asdict(work.spec) | {"train": work.spec.train.to_json()}
    return {
        "schema": SCHEMA,
        "spec": json.loads(json.dumps(spec)),
        "data": dict(data),
        "roles": dict(work.content["sizes"]),
        "metric": metric,
        "audit": list(work.spec.safety.audit),
        "units": found.units,
        "left": [asdict(job) for job in found.left],
        "failed": [asdict(job) | {"reason": reason} for job, reason in found.failed],
        "shipped": None if found.shipped is None else found.shipped.to_json(),
        "notes": [*notes, *work.notes, *_left(found), *_failed(found.failed)],
    }


def keep(folder: Path, told: Mapping[str, Any], shipped: Shipped | None) -> None:
    """Write ``compress.json`` and what is made of it, the audit last: what is there speaks of the files beside it.

    Args:
        folder: The run directory.
        told: What ``compress.json`` holds.
        shipped: The files, with latencies of this machine.
    """
    speed = {} if shipped is None else shipped.speed
    data, audit = dumps(told), dumps(audit_of(told).to_json())
    if not all(
        _holds(folder / name, each) for name, each in (("compress.json", data), ("audit.json", audit))
    ):
        void(folder)
        save(folder / "compress.json", data)
    save(folder / "speed.json", dumps(speed))
    save(folder / "report.html", compressed(told, speed))
    if not (folder / "audit.json").exists():
        save(folder / "audit.json", audit)


def covers(folder: Path, told: Mapping[str, Any]) -> bool:
    """Whether the folder tells all of this already, and perhaps more, of the same files.

    Args:
        folder: The run directory.
        told: What ``compress.json`` would hold.
    """
    path = folder / "compress.json"
    if not path.is_file() or not (folder / "audit.json").is_file():
        return False
    there, told = loads(path.read_bytes()), loads(dumps(told))
    same = all(there.get(name) == told[name] for name in ("schema", "spec", "data", "roles", "shipped"))
    return same and all(each in there[name] for name in ("units", "failed") for each in told[name])


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _beside(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The first unit less another, run by run: runs share their records and seeds. Empty for one run."""
    one, two = first["audit"]["by_run"], other["audit"]["by_run"]
    if len(one) < 2:
        return {}
    undefined = any(each["tm"] is None for each in (*one, *two))
    names = ("task", "mia") if undefined else ("task", "mia", "tm")
    return {name: less(one, two, name).to_json() for name in names}


def _left(found: Results) -> list[str]:
    if not found.left:
        return []
    names = ", ".join(f"{bare(job.method)} at {job.density:g}" for job in found.left)
    why = "The time budget ended before" if found.over else "Not done yet"
    return [f"{why}: {names}; the next call goes on with them"]


def _failed(failed: Sequence[tuple[Job, str]]) -> list[str]:
    return [f"{bare(job.method)} at {job.density:g} failed: {reason}" for job, reason in failed]

"""From a spec to an audit, in order: units, records, ranking, attacks, verdict. What is done is not done again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from discreet._json import dumps
from discreet.attack_specs import chosen
from discreet.audit import Audit, Data
from discreet.auditing_spec.elsewhere import can_travel, do_elsewhere
from discreet.auditing_spec.existing import FilesUnit
from discreet.auditing_spec.onnx_quantized import QuantizedUnit
from discreet.auditing_spec.panels import contents_of
from discreet.auditing_spec.preparing import prepare
from discreet.auditing_spec.telling import about, check_gate, notes_of, title_of
from discreet.auditing_spec.training import TrainingUnit
from discreet.auditing_spec.work import Prepared, Unit
from discreet.backends import Backend
from discreet.gate import Verdict, gate
from discreet.planned import planned_by, save_plan
from discreet.records import Record, read_all
from discreet.runs.analysis import Evidence, analyse, look_beside
from discreet.runs.following import measure_storage
from discreet.runs.keeping import load_weights
from discreet.runs.units import Tick, do_units
from discreet.spec import AuditSpec, Source, importable
from discreet.store import Store
from discreet.summary import summarize

__all__ = ["Done", "audit_spec"]

Progress = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class Done:
    """What came of a spec.

    Attributes:
        audit: As written to ``audit.json``.
        verdict: The gate's, if anything is required.
        left: Names of the units that the time budget left.
    """

    audit: Audit
    verdict: Verdict | None
    left: tuple[str, ...]


def audit_spec(
    spec: AuditSpec,
    source: Source,
    folder: str | Path,
    *,
    workers: int | None = None,
    backend: Backend | None = None,
    progress: Progress = lambda doing, share: None,
    started: float | None = None,
) -> Done:
    """Do what a spec says; a second call goes on from what is there.

    Leaves in the folder ``manifest.json``, ``plan.json`` (what there is to do, for ``discreet status``),
    ``trajectory/`` and ``release/`` (records), ``weights/`` (shipped checkpoints), ``audit.json``, ``report.html``,
    ``exposed.csv`` and, if anything is required, ``gate.json``.

    Args:
        spec: What to do.
        source: Where it came from; modules that it names are looked for there.
        folder: The run directory.
        workers: Cores for the built-in trainer and for attacks; None: all. The bytes do not depend on it.
        backend: Where runs are trained and measured, and where attacks run; None: here. Nor on that.
        progress: Called with what is being done, and the share of all work that is done.
        started: When the time budget began, by ``time.monotonic``; None: now.

    Returns:
        The audit: the same bytes for the same spec, data and code on the same machine.

    Raises:
        SpecFileError, CalledError: The spec does not fit the data, or code that it names failed.
        StoreError: The folder is in use or cannot be written.
        FileExistsError: It holds files of others that would be overwritten.
    """
    from discreet.auditing import attack_held
    from discreet.report import write

    begun = time.monotonic() if started is None else started
    until = begun + 60 * spec.budget.minutes if spec.budget.minutes else float("inf")
    store = Store(folder)
    _check_folder(store.folder)
    with store.lock(), importable(source.folder):
        progress("reading the data", 0.0)
        prepared = prepare(spec, source, store, workers)
        check_gate(prepared, source)
        _plan(prepared)
        left = _do(prepared, until, lambda doing, share: progress(doing, 0.02 + 0.68 * share), backend)
        progress("ranking", 0.7)
        done = [unit for unit in prepared.units if unit not in left]
        audit = _audit(prepared, done, left)
        # A verdict must not outlive the audit that it judged.
        (store.folder / "gate.json").unlink(missing_ok=True)
        if any(analysis.attacks for analysis in audit.analyses):
            audit = attack_held(
                store,
                audit,
                spec.attacks.names,
                strict=False,
                workers=workers or _cores(),
                backend=backend,
                progress=lambda doing, share: progress(doing, 0.75 + 0.24 * share),
            )
        else:
            progress("writing the report", 0.95)
            audit.save(store.folder / "audit.json")
            write(audit, store.folder / "report.html")
        verdict = _judge(spec, store, audit)
        progress("done", 1.0)
    return Done(audit, verdict, tuple(unit.name for unit in left))


def _check_folder(folder: Path) -> None:
    if (folder / "manifest.json").exists() and planned_by(folder) == "audit":
        return
    for name in ("plan.json", "audit.json", "report.html", "exposed.csv", "gate.json"):
        if (folder / name).exists():
            raise FileExistsError(
                17,
                f"no earlier audit of a spec wrote the {name} in it, which would be lost; give another --folder",
                str(folder),
            )


def _plan(prepared: Prepared) -> None:
    """Write down what there is to do, for ``discreet status``."""
    attacks, _ = chosen([*prepared.work.spec.attacks.names, "loss"])
    save_plan(
        prepared.work.store,
        {unit.name: unit.keys for unit in prepared.units},
        workers=prepared.workers or _cores(),
        attacks=list(attacks),
        variants=prepared.variants,
    )


def _do(prepared: Prepared, until: float, progress: Progress, backend: Backend | None) -> list[Unit]:
    """Do the units; one is done whatever the time."""
    if backend is not None and all(map(can_travel, prepared.units)):
        return _elsewhere(prepared, until, progress, backend)
    store, units = prepared.work.store, prepared.units
    seconds: dict[str, float] = {}
    lock = Lock()
    doing = f"training and measuring {len({run for unit in units for run in unit.runs})} runs"
    if prepared.work.spec.is_existing:
        doing = "measuring checkpoints"

    def work(unit: Unit, tick: Tick) -> None:
        fresh = not all(store.has(key) for key in unit.keys)
        begun = time.monotonic()
        unit.do(tick)
        if fresh:
            with lock:
                seconds[unit.name] = round(time.monotonic() - begun, 3)
                store.note(seconds=dict(seconds))

    def kept(unit: Unit) -> bool:
        return all(store.has(key) for key in unit.keys)

    total = sum(unit.ticks for unit in units)
    missing = [unit for unit in units if not kept(unit)]
    shown = 1 - sum(unit.ticks for unit in missing) / total

    def some(of: Sequence[Unit], workers: int | None, end: float) -> list[Unit]:
        nonlocal shown
        begun, span = shown, sum(unit.ticks for unit in of)

        def show(share: float) -> None:
            progress(doing, begun + span * share / total)

        left = do_units(of, work, max(1, span), workers=workers, progress=show, until=end)
        shown += span / total
        return left

    progress(doing, shown)
    if until < float("inf") and missing == list(units):
        some(missing[:1], 1, float("inf"))  # one at least: without a run there is nothing to report
        missing = missing[1:]
    return some(missing, prepared.workers, until)


def _elsewhere(prepared: Prepared, until: float, progress: Progress, backend: Backend) -> list[Unit]:
    """Do the units on a backend."""
    store, units = prepared.work.store, prepared.units
    missing = [unit for unit in units if not all(store.has(key) for key in unit.keys)]
    seconds: dict[str, float] = {}
    doing = f"training and measuring {len({run for unit in units for run in unit.runs})} runs elsewhere"
    progress(doing, 1 - len(missing) / len(units))

    def done(unit: Unit, took: float) -> None:
        seconds[unit.name] = round(took, 3)
        store.note(seconds=dict(seconds))
        progress(doing, 1 - (len(missing) - len(seconds)) / len(units))

    return do_elsewhere(backend, missing, done=done, until=until)


def _audit(prepared: Prepared, done: Sequence[Unit], left: Sequence[Unit]) -> Audit:
    work = prepared.work
    trajectory, release = _records(work.store, done)
    evidence = Evidence(
        trajectory,
        release,
        _storage(prepared, done),
        full=prepared.variants[0],
        seed=work.spec.split.seed,
        task=work.panel.task,
    )
    beside = look_beside(evidence, prepared.variants)
    analysis = analyse(evidence, beside, name="as shipped", note=_note(prepared))
    return Audit(
        title_of(prepared),
        (analysis,),
        summary=summarize(analysis),
        **about(prepared, done, release),
        data=Data(dict(prepared.counts)),
        notes=tuple(notes_of(prepared, release, left)),
    )


def _note(prepared: Prepared) -> str:
    return "r is taken over all checkpoints of each run." if prepared.work.panel.model is not None else ""


def _records(store: Store, done: Sequence[Unit]) -> tuple[Record, Record]:
    trajectory = [store.path(key) for unit in done for key in unit.trajectory]
    release = [store.path(key) for unit in done for key in unit.release]
    return read_all(trajectory), read_all(release)


def _storage(prepared: Prepared, done: Sequence[Unit]) -> Mapping[str, Mapping[str, Any]]:
    """What each variant of the first run's shipped checkpoint takes on disk."""
    work, first = prepared.work, done[0]
    if not isinstance(first, TrainingUnit | FilesUnit | QuantizedUnit):
        return prepared.storage
    more = first.sizes if isinstance(first, QuantizedUnit) else prepared.storage
    store, weights = work.store, first.weights[0]

    def write(aside: Path) -> None:
        found = measure_storage(work.panel, load_weights(store.path(weights))[0])
        aside.write_text(dumps(found), "utf-8")

    key = store.key("release/storage.json", weights=weights, variants=contents_of(work.panel.variants))
    return json.loads(store.make(key, write).read_text("utf-8")) | dict(more)


def _judge(spec: AuditSpec, store: Store, audit: Audit) -> Verdict | None:
    if not spec.gate.require:
        return None
    verdict = gate(audit, spec.gate.require, bound=spec.gate.bound, accept=spec.gate.accept)
    verdict.save(store.folder / "gate.json")
    return verdict


def _cores() -> int:
    from discreet._spread import available

    return available()

"""The attacks of an audit: every attack on every variant of a run directory, kept as it is done.

What one attack finds in one variant is one artefact of the store, keyed by the bytes of the release records, the
attack and the settings; so a stopped audit goes on, and another attack costs only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from discreet._json import save
from discreet.attack_specs import chosen
from discreet.attacked import LeftOut
from discreet.audit import Audit
from discreet.auditing_made import LOSS, Made, put
from discreet.auditing_release import release_of
from discreet.auditing_units import Units
from discreet.backends import Backend
from discreet.records import Record
from discreet.store import Store

__all__ = ["attack_held", "audit_attacks"]

Progress = Callable[[str, float], None]


def audit_attacks(
    run_dir: str | Path,
    specs: Sequence[str] = ("all",),
    *,
    strict: bool = True,
    workers: int = 1,
    backend: Backend | None = None,
    progress: Progress = lambda doing, share: None,
) -> Audit:
    """Attack every variant of a run directory, and put what was found into its audit and its report.

    Rewrites ``audit.json`` and ``report.html``, and writes ``exposed.csv`` beside them; a ``gate.json``, which judged
    what was there, goes. The attack ``loss`` is always among the attacks. Level and seed are those of the audit.

    Args:
        run_dir: A run directory with an ``audit.json`` and records in ``release/``.
        specs: Spec strings; ``"all"`` stands for every attack with its defaults.
        strict: Whether a named attack that the records do not allow is an error; else it is left out, with why.
        workers: Threads; the bytes do not depend on it.
        backend: Where attacks run; None: here. Nor on that.
        progress: Called with what is being done, and the share of all work that is done.

    Returns:
        The audit, as written: the same bytes for the same directory and attacks.

    Raises:
        RecordError: There are no release records of this audit, or they lack what a named attack needs.
        SpecError: A named attack is unknown.
        StoreError: The directory is in use or cannot be written.
        FileNotFoundError: It holds no audit.
        ValueError: ``workers`` below 1.
    """
    store = Store(run_dir)
    path = store.folder / "audit.json"
    if not path.exists():
        raise FileNotFoundError(2, "no audit to add attacks to; expected a run directory", str(path))
    with store.lock():
        return attack_held(
            store,
            Audit.load(path),
            specs,
            strict=strict,
            workers=workers,
            backend=backend,
            progress=progress,
        )


def attack_held(
    store: Store,
    audit: Audit,
    specs: Sequence[str],
    *,
    strict: bool,
    workers: int,
    backend: Backend | None,
    progress: Progress,
) -> Audit:
    """Do what ``audit_attacks`` does, in a run directory whose lock is held; arguments and errors are the same."""
    from discreet.report import write

    if workers < 1:
        raise ValueError(f"workers: expected at least 1, got {workers}")
    methods, unusable = chosen([*specs, LOSS])
    if not strict:
        methods = {spec: spec != LOSS for spec in methods}
    progress("reading records", 0.0)
    record, content = release_of(store.folder, audit)
    variants = _variants(audit, record)
    work = Units(store, record, content, audit.analyses[0].ranking.level, audit.provenance.seed or 0)

    def attacked(doing: str, share: float) -> None:
        progress(doing, 0.02 + 0.83 * share)

    if backend is not None:
        work.elsewhere(backend, variants, methods, attacked)
    units, left = work.all(variants, methods, workers, attacked)
    never = [LeftOut(name, variant, why) for name, why in unusable.items() for variant in variants]
    progress("telling members apart without a model", 0.85)
    made = Made(work, units, (*never, *left), *work.split())
    progress("comparing", 0.85)
    found, lines = put(audit, made, lambda share: progress("comparing", 0.85 + 0.1 * share))
    progress("writing the report", 0.95)
    # A verdict must not outlive the audit that it judged.
    (store.folder / "gate.json").unlink(missing_ok=True)
    save(store.folder / "exposed.csv", lines)
    found.save(store.folder / "audit.json")
    write(found, store.folder / "report.html")
    progress("done", 1.0)
    return found


def _variants(audit: Audit, record: Record) -> list[str]:
    """The variants that are both ranked and released."""
    ranked = dict.fromkeys(row.variant for analysis in audit.analyses for row in analysis.ranking.variants)
    found = [variant for variant in ranked if variant in record.variants]
    if not found:
        raise record.error(f"release: none of the variants ranked ({', '.join(ranked)}) is in these records")
    return found

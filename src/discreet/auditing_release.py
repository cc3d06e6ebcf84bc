"""The release records of a run directory that belong to its audit, without anything that names a path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.audit import Audit
from discreet.records import Record, RecordError, read_all
from discreet.store import Store, content_hash

__all__ = ["CONTENT", "FILES", "content_of", "release_of"]

CONTENT = "release record"
"""The setting that says which content the release record of an audit has, where several may lie beside each other."""

FILES = "release files"
"""The setting that names the files of the release record of an audit, where its spec has several units."""

_SHIPPED = "shipped checkpoint by run"


def release_of(folder: Path, audit: Audit) -> tuple[Record, tuple[str, ...]]:
    """Read the files in ``release/`` that the audit names; else all that are there and belong to it.

    Where the audit says which checkpoint of which run was shipped, with which settings and with which content, only
    such records are taken.

    Returns:
        The record, and the SHA-256 of each file it was read from.

    Raises:
        RecordError: No such records, or not those of all runs.
    """
    named = audit.settings.get(FILES)
    paths = _there(folder, named) if named else sorted((folder / "release").glob("*.safetensors"))
    if not paths:
        raise RecordError(f"{folder / 'release'}: no record (*.safetensors) to attack")
    shipped = audit.settings.get(_SHIPPED)
    if isinstance(shipped, Mapping) and not named:
        paths = [path for path in paths if _belongs(Record.open(path), shipped, audit.settings)]
        found = {run for path in paths for run in Record.open(path).runs}
        missing = [run for run in shipped if run not in found]
        if missing:
            raise RecordError(
                f"{folder / 'release'}: no record of run {missing[0]!r} with the settings of the audit "
                f"({len(missing)} of {len(shipped)} runs are missing)"
            )
    record = read_all(paths)
    if record.member is None:
        raise record.error("no membership: an attack cannot be judged without knowing who was in which run")
    return replace(record, source=""), tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in paths)


def _there(folder: Path, keys: Sequence[str]) -> list[Path]:
    """Files of the store; others may lie beside them that an earlier spec left."""
    store = Store(folder)
    paths = sorted(store.path(key) for key in keys)
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise RecordError(
            f"{missing[0]}: no such record; the audit is of it ({len(missing)} of {len(paths)} files are missing)"
        )
    return paths


def content_of(record: Record) -> str:
    """A hash of everything that a record holds."""
    rows = {"run": record.run, "step": record.step, "variant": record.variant, "sample": record.sample}
    flags = {"member": record.member, "calibration": record.calibration}
    axes = {name: list(each) for name, each in record.axes.items()}
    return content_hash({**rows, **flags, "signals": record.signals, "axes": axes, "about": record.about})


def _belongs(record: Record, shipped: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    told = record.about.get("settings", {})
    alike = all(settings[name] == value for name, value in told.items() if name in settings)
    alike &= told.get(CONTENT) == settings.get(CONTENT)
    return alike and all(
        shipped.get(run) == step for run, step in zip(record.run, record.step.tolist(), strict=True)
    )

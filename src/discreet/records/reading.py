"""Reading measurements from whatever file they are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from discreet.records.laws import RecordError, quoted
from discreet.records.merge import merge_runs, merge_samples
from discreet.records.npz import read_npz
from discreet.records.record import Record
from discreet.records.tables import read_table

__all__ = ["read", "read_all"]

_READERS = {".safetensors": Record.open, ".npz": read_npz, ".csv": read_table, ".parquet": read_table}


def read(path: str | Path) -> Record:
    """Read a record (``.safetensors``), arrays (``.npz``) or a long table (``.csv``, ``.parquet``).

    The same numbers give the same record whatever the kind of file: samples sorted, rows by variant (first
    appearance), run (naturally) and step. Nothing in the file is ever executed or unpickled.

    Raises:
        RecordError: The file is missing, of another kind, broken, or its numbers break a law.
    """
    path = Path(path)
    reader = _READERS.get(path.suffix.lower())
    if path.is_dir():
        raise RecordError(f"{path}: a folder, not a file{_inside(path)}")
    if reader is None:
        raise RecordError(f"{path}: expected a file that ends in {', '.join(_READERS)}")
    if not path.is_file():
        raise RecordError(f"{path}: no such file")
    return reader(path)


def _inside(folder: Path) -> str:
    """Where the records of a run directory lie, if it is one."""
    kept = folder / "trajectory"
    return f"; its records are {kept}/*.safetensors" if any(kept.glob("*.safetensors")) else ""


def read_all(paths: Sequence[str | Path]) -> Record:
    """Read several files as one record, by what they hold.

    Files on the same samples add rows (runs, steps, variants); files on different samples add samples.

    Raises:
        RecordError: A file cannot be read, or the files do not fit together.
    """
    if not paths:
        raise RecordError("no files: expected at least one")
    records = [read(path) for path in paths]
    if len(records) == 1:
        return records[0]
    first, *others = (set(record.sample.astype(str).tolist()) for record in records)
    if all(ids == first for ids in others):
        return merge_runs(records)
    for record, ids in zip(records[1:], others, strict=True):
        shared = ids & first
        if shared:
            raise RecordError(
                f"{records[0].source} and {record.source} share some samples ({quoted(min(shared))}), but"
                " not all: expected the same samples (more runs) or other samples (more samples)"
            )
    merged = merge_samples(records)
    order = np.argsort(merged.sample, kind="stable")
    return merged if (order == np.arange(order.size)).all() else merged.take_samples(order)

"""Who was trained on, as a file of row numbers or a function of the user says."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from discreet._types import Bool
from discreet.spec import AuditSpec, Source, SpecFileError, named

__all__ = ["members_of", "read_rows"]


def members_of(
    spec: AuditSpec, source: Source, runs: int, samples: int
) -> Bool[np.ndarray, "run sample"] | None:
    """Membership of every run, None if the spec does not tell it.

    Args:
        spec: The spec.
        source: Where it came from; files are relative to its folder.
        runs: How many runs there are.
        samples: How many samples.

    Raises:
        SpecFileError: Another number of entries than runs, a file that cannot be read, or rows that are none.
        CalledError: The function raised.
    """
    given = spec.checkpoints.members
    if not given:
        return None
    where = source.at("checkpoints", "members")
    if spec.checkpoints.by_function:
        function = named(given[0], source, "checkpoints", "members")
        told = [function(f"to tell the members of run {run}", {"run": run}) for run in range(runs)]
    elif len(given) == runs:
        told = [_read(source.folder / entry, where) for entry in given]
    else:
        raise SpecFileError(f"{where}: expected one entry for each of {runs} runs, got {len(given)}")
    return np.stack([_mask(rows, samples, f"{where}: run {run}") for run, rows in enumerate(told)])


def _read(path: Path, where: str) -> np.ndarray:
    try:
        return read_rows(path)
    except OSError as error:
        raise SpecFileError(f"{where}: {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise SpecFileError(f"{where}: {error}") from error


def read_rows(path: Path) -> np.ndarray:
    """Row numbers, or flags, from a file.

    Args:
        path: ``.npy``; ``.json`` (a list); ``.csv`` or ``.txt`` (the first column, one a line, a head line is
            skipped).

    Raises:
        ValueError: Another kind of file, or one that holds no numbers.
        OSError: It cannot be read.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".npy":
            return np.load(path, allow_pickle=False)
        if kind == ".json":
            return np.asarray(json.loads(path.read_text("utf-8")))
        if kind in (".csv", ".txt"):
            lines = [line[0].strip() for line in csv.reader(path.read_text("utf-8").splitlines()) if line]
            head = 1 if lines and not lines[0].lstrip("-").isdigit() else 0
            return np.array([int(line) for line in lines[head:]], np.int64)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: no row numbers: {error}") from error
    raise ValueError(f"{path}: expected a file of row numbers that ends in .npy, .json, .csv or .txt")


def _flags(found: np.ndarray) -> bool:
    """Whether numbers are flags: only 0 and 1, and too many to be rows."""
    return found.dtype.kind in "iu" and len(found) > 2 and bool(np.isin(found, (0, 1)).all())


def _mask(rows: Any, samples: int, where: str) -> Bool[np.ndarray, " sample"]:
    found = np.asarray(rows)
    if found.shape == (samples,) and (found.dtype == bool or _flags(found)):
        mask = found.astype(bool)
    else:
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise SpecFileError(
                f"{where}: expected row numbers or one flag for each of {samples} samples, got {found.dtype} of"
                f" shape {list(found.shape)}"
            )
        wrong = (found < 0) | (found >= samples)
        if wrong.any():
            more = f"{int(wrong.sum())} such rows"
            raise SpecFileError(
                f"{where}: expected rows from 0 to {samples - 1}, got {found[wrong][0]} ({more})"
            )
        row, often = np.unique(found, return_counts=True)
        if (often > 1).any():
            raise SpecFileError(
                f"{where}: expected each row once, got row {row[often > 1][0]} {often[often > 1][0]} times"
                f" ({int((often > 1).sum())} such rows); flags are one for each of {samples} samples"
            )
        mask = np.zeros(samples, bool)
        mask[found] = True
    if not mask.any():
        raise SpecFileError(f"{where}: expected at least one member, got none")
    if mask.all():
        raise SpecFileError(
            f"{where}: all {samples} samples are members; expected some that are not, to compare with"
        )
    return mask

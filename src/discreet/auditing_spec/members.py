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
        path: ``.npy``; ``.json`` (a list); ``.csv`` or ``.txt`` (one a line; a head line, which has a letter in it,
            is skipped, and so is the unnamed index that pandas writes).

    Raises:
        ValueError: Another kind of file, or one that holds no numbers or several columns.
        OSError: It cannot be read.
    """
    kind = path.suffix.lower()
    try:
        if kind == ".npy":
            return np.load(path, allow_pickle=False)
        if kind == ".json":
            return np.asarray(json.loads(path.read_text("utf-8-sig")))
        if kind in (".csv", ".txt"):
            return np.array([int(line) for line in _column(path.read_text("utf-8-sig"))], np.int64)
    except (ValueError, OverflowError, EOFError, csv.Error) as error:
        raise ValueError(f"{path}: no row numbers: {error}") from error
    raise ValueError(f"{path}: expected a file of row numbers that ends in .npy, .json, .csv or .txt")


def _column(text: str) -> list[str]:
    """The cells of the one column of a table, without its head line and without the index that pandas writes.

    Example:
        >>> _column(",0\\n0,17\\n1,23"), _column("row\\n17\\n23"), _column("17\\n23")
        (['17', '23'], ['17', '23'], ['17', '23'])
    """
    written = (line for line in text.splitlines() if line.strip())
    lines = [[cell.strip() for cell in line] for line in csv.reader(written)]
    first = lines[0] if lines else [""]
    index = len(first) > 1 and not first[0]
    if index or any(character.isalpha() for cell in first for character in cell):
        lines = lines[1:]
    for line in (first, *lines):
        if len(line) != 1 + index:
            raise ValueError(
                f"expected one column, or one beside an unnamed index, got {','.join(line)[:60]!r}"
            )
    return [line[-1] for line in lines]


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

"""Losses from an ``.npz`` file: one array a variant, and who was a member."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np

from discreet.records.laws import RecordError, quoted
from discreet.records.record import Record

__all__ = ["read_npz"]

_MEMBER = "member"


def read_npz(path: Path) -> Record:
    """Read losses of shape [run, checkpoint, sample], or [checkpoint, sample] for one run called "0".

    Runs are numbered from 0, checkpoints from 1, samples from 0. The reserved key ``member`` holds 0 and 1
    or booleans, [run, sample] or, for all runs alike, [sample]. Pickled objects are refused.

    Raises:
        RecordError: The file or one of its arrays cannot be used; the message names the key.
    """
    arrays = _arrays(path)
    member = arrays.pop(_MEMBER, None)
    if not arrays:
        raise RecordError(f"{path}: no losses: expected one array a variant")
    losses = {key: _losses(path, key, values) for key, values in arrays.items()}
    first = next(iter(losses))
    shape, dtype = losses[first].shape, np.result_type(*losses.values())
    for key, values in losses.items():
        if values.shape != shape:
            raise RecordError(
                f"{path}: {quoted(key)} has shape {values.shape}, {quoted(first)} has {shape}"
                " (run, checkpoint, sample): all variants need the same"
            )
        if values.dtype != dtype:
            raise RecordError(
                f"{path}: {quoted(key)} is {values.dtype}, others are {dtype}: expected one dtype"
            )
    runs, checkpoints, samples = shape
    if 0 in shape:
        raise RecordError(f"{path}: {quoted(first)} is empty: shape {shape} (run, checkpoint, sample)")
    loss = np.empty((len(losses), *shape), dtype)
    for block, key in zip(loss, list(losses), strict=True):
        block[:] = losses.pop(key)
    return Record(
        run=tuple(str(run) for _ in arrays for run in range(runs) for _ in range(checkpoints)),
        step=np.tile(np.arange(1.0, checkpoints + 1), len(arrays) * runs),
        variant=tuple(key for key in arrays for _ in range(runs * checkpoints)),
        sample=np.arange(samples),
        signals={"loss": loss.reshape(-1, samples)},
        member=None if member is None else _members(path, member, runs, samples),
        source=str(path),
    )


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        if path.stat().st_size == 0:
            raise RecordError(f"{path}: the file is empty")
        if not zipfile.is_zipfile(path):
            raise RecordError(f"{path}: not a whole npz file")
        with np.load(path, allow_pickle=False) as file:
            if len(set(file.files)) < len(file.files):
                raise RecordError(f"{path}: a key appears twice")
            return {key: _array(path, file, key) for key in file.files}
    except (OSError, zipfile.BadZipFile) as error:
        raise RecordError(f"{path}: cannot read the npz file: {error}") from error


def _array(path: Path, file: np.lib.npyio.NpzFile, key: str) -> np.ndarray:
    try:
        values = file[key]
    except (ValueError, zlib.error, EOFError) as error:
        reason = "it holds Python objects, which are never unpickled" if "pickle" in str(error) else error
        raise RecordError(f"{path}: cannot read {quoted(key)}: {reason}") from error
    if not isinstance(values, np.ndarray):
        raise RecordError(f"{path}: {quoted(key)} is no array")
    return values


def _losses(path: Path, key: str, values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "iuf":
        raise RecordError(f"{path}: {quoted(key)} is {values.dtype}: expected losses, numbers in nats")
    if values.ndim not in (2, 3):
        raise RecordError(
            f"{path}: {quoted(key)} has shape {values.shape}: expected [run, checkpoint, sample]"
            " or [checkpoint, sample]"
        )
    values = values if values.ndim == 3 else values[None]
    return values.astype(
        values.dtype.newbyteorder("=") if values.dtype.kind == "f" else np.float64, copy=False
    )


def _members(path: Path, values: np.ndarray, runs: int, samples: int) -> np.ndarray:
    if values.shape not in ((samples,), (runs, samples)):
        raise RecordError(
            f"{path}: 'member' has shape {values.shape}: expected ({runs}, {samples}) or ({samples},)"
        )
    if values.dtype.kind not in "biuf" or not np.isin(values, (0, 1)).all():
        raise RecordError(f"{path}: 'member' must hold only 0 and 1, or booleans")
    return np.array(np.broadcast_to(values.astype(bool), (runs, samples)))

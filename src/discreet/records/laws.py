"""The laws of a record, one function each: it returns the canonical form, or names what breaks the law."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from discreet._types import Float, Int

__all__ = [
    "OFFSETS",
    "RecordError",
    "all_finite",
    "bad_rows",
    "check_axes",
    "check_offsets",
    "check_sizes",
    "ids",
    "labels",
    "longest_text",
    "plain_json",
    "quoted",
    "repeated",
    "row_name",
    "steps",
    "table_of_flags",
    "unique_rows",
]

OFFSETS = "offsets"  # the signal that says where each sample's tokens begin and end
_BLOCK = 1 << 20
_ROOM = 1 << 29  # characters of all texts of a signal, each as long as the longest: 2 GiB


class RecordError(ValueError):
    """A record or a file of measurements breaks a law; the message says where."""


def quoted(name: object) -> str:
    """Show a label in a message, on one line and short.

    Example:
        >>> quoted("sign"), quoted("a\\nb"), len(quoted("x" * 10_000)), quoted(np.int64(3))
        ("'sign'", "'a\\\\nb'", 63, "'3'")
    """
    text = str(name)
    return repr(text if len(text) <= 60 else f"{text[:40]}…{text[-20:]}")


def row_name(run: str, step: float, variant: str) -> str:
    """Name a row in a message.

    Example:
        >>> row_name("3", 2.0, "sign")
        "variant 'sign', run '3', step 2"
    """
    return f"variant {quoted(variant)}, run {quoted(run)}, step {step:.15g}"


def labels(field: str, values: Iterable[str]) -> tuple[str, ...]:
    """Return labels as a tuple of plain strings, none of them empty."""
    found = tuple(values)
    for row, value in enumerate(found):
        if not isinstance(value, str):
            raise RecordError(f"{field} of row {row}: expected text, got {value!r}")
        if not value:
            raise RecordError(f"{field} of row {row} is empty")
    return tuple(map(str, found))


def steps(values: Any, rows: int) -> Float[np.ndarray, " row"]:
    """Return steps as float64, one finite number a row."""
    found = np.array(values, dtype=np.float64)
    if found.shape != (rows,):
        raise RecordError(f"step: expected one number for each of the {rows} rows, got shape {found.shape}")
    if not np.isfinite(found).all():
        row = int(np.argmin(np.isfinite(found)))
        raise RecordError(f"step of row {row} is {found[row]}: expected a finite number")
    return found + 0.0  # -0.0 and 0.0 are one step


def unique_rows(run: Sequence[str], step: Float[np.ndarray, " row"], variant: Sequence[str]) -> None:
    """Refuse no rows at all, columns of different length, and two rows of one (run, step, variant)."""
    if not run:
        raise RecordError("no rows: expected at least one model")
    if len(variant) != len(run):
        raise RecordError(f"variant: expected one label for each of the {len(run)} rows, got {len(variant)}")
    seen: dict[tuple[str, float, str], int] = {}
    for row, key in enumerate(zip(run, step.tolist(), variant, strict=True)):
        if seen.setdefault(key, row) != row:
            raise RecordError(f"{row_name(*key)} appears twice: rows {seen[key]} and {row}")


def ids(sample: np.ndarray) -> np.ndarray:
    """Return sample ids as int64 or fixed-width text, each once."""
    found = _text(sample, "sample") if sample.dtype.kind in "OU" else sample
    if found.dtype.kind not in "iuU":
        raise RecordError(f"sample: expected whole numbers or text, got {found.dtype}")
    if found.ndim != 1 or not found.size:
        raise RecordError(f"sample: expected a list of at least one id, got shape {found.shape}")
    if found.dtype.kind == "u" and found.max() > np.iinfo(np.int64).max:
        raise RecordError(f"sample: {found.max()} does not fit into 64 bits")
    found = found if found.dtype.kind == "U" else found.astype(np.int64, copy=False)
    twice = repeated(found)
    if twice is not None:
        raise RecordError(f"sample {quoted(twice)} appears {(found == twice).sum()} times")
    return found


def repeated(values: np.ndarray) -> Any:
    """Return a value that occurs more than once, or None.

    Example:
        >>> repeated(np.array([3, 1, 3])), repeated(np.array([1, 3]))
        (np.int64(3), None)
    """
    if values.dtype.kind == "i" and (values[1:] > values[:-1]).all():  # most files: no sort needed
        return None
    ordered = np.sort(values)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    return ordered[again[0]] if again.size else None


def longest_text(count: int) -> int:
    """How many characters the longest of so many texts may have, since in a record all take as much room.

    Example:
        >>> longest_text(1 << 20)
        512
    """
    return _ROOM // max(count, 1)


def _text(values: np.ndarray, field: str) -> np.ndarray:
    """Return text as narrow fixed-width unicode; refuse what NumPy would change or could not hold."""
    if values.dtype.kind == "O":
        items = values.ravel().tolist()
        for at, item in enumerate(items):
            if not isinstance(item, str):
                raise RecordError(f"{field} {at}: expected text in every place, got {item!r}")
            if item.endswith("\0"):
                raise RecordError(f"{field} {quoted(item)} ends in a NUL character, which NumPy text drops")
    width = int(np.char.str_len(values).max(initial=0)) if values.dtype.kind == "U" else _longest(values)
    if width > longest_text(values.size):
        raise RecordError(
            f"{field}: {values.size} texts of up to {width} characters take {width * values.size >> 28} GiB"
            " as fixed-width text; give shorter ones"
        )
    return values.astype(f"U{max(width, 1)}", copy=False)


def _longest(values: np.ndarray) -> int:
    return max(map(len, values.ravel().tolist()), default=0)


def check_axes(signal: str, array: np.ndarray, axes: Sequence[str]) -> np.ndarray:
    """Check the declared axes of one signal, and return it in the dtype the record keeps.

    Axes are ``row`` (first, or absent), exactly one of ``sample`` and ``token``, and any other names
    for the rest. The signal ``offsets`` has the one axis ``bound``.
    """
    if not signal:
        raise RecordError("a signal has an empty name")
    if array.dtype.kind in "OU":
        array = _text(array, signal)
        if tuple(axes) != ("sample",):
            raise RecordError(f"{signal}: text needs the axes (sample), got {_listed(axes)}")
    if array.dtype.kind not in "biufU":
        raise RecordError(f"{signal}: expected numbers, flags or text, got {array.dtype}")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        raise RecordError(f"{signal}: {array.dtype} has no place in a file; use float64")
    if len(axes) != array.ndim:
        raise RecordError(f"{signal}: {array.ndim} dimensions, but axes {_listed(axes)}")
    if signal == OFFSETS:
        if tuple(axes) != ("bound",) or array.dtype.kind not in "iu":
            raise RecordError(f"{OFFSETS}: expected whole numbers with the axes (bound), got {_listed(axes)}")
    elif tuple(axes) == ("row",):  # one figure a model, such as a hash of its parameters
        pass
    elif len(set(axes) & {"sample", "token"}) != 1 or "row" in axes[1:] or len(set(axes)) < len(axes):
        raise RecordError(
            f"{signal}: expected each axis once, row first, and one of sample and token; got {_listed(axes)}"
        )
    if signal == "loss" and array.dtype.kind != "f":
        raise RecordError(f"loss: expected floating-point numbers, got {array.dtype}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _listed(axes: Sequence[str]) -> str:
    return f"({', '.join(axes)})"


def check_sizes(
    signals: Mapping[str, np.ndarray], axes: Mapping[str, Sequence[str]], rows: int, samples: int
) -> None:
    """Refuse a signal whose shape differs from the record's rows and samples or from another signal's."""
    known = {
        "row": (rows, "step"),
        "sample": (samples, "sample"),
        "bound": (samples + 1, "sample, and one"),
    }
    for name, array in signals.items():
        for axis, size in zip(axes[name], array.shape, strict=True):
            expected, whence = known.setdefault(axis, (size, f"the signal {quoted(name)}"))
            if size != expected:
                raise RecordError(
                    f"{name} has shape {array.shape}: along {axis}, expected {expected} as in {whence},"
                    f" got {size}"
                )


def check_offsets(signals: Mapping[str, np.ndarray], axes: Mapping[str, Sequence[str]]) -> None:
    """Signals by token need one shared ``offsets``: 0 first, never falling, the number of tokens last."""
    token = next((name for name in signals if "token" in axes[name]), None)
    if token is None:
        return
    if OFFSETS not in signals:
        raise RecordError(
            f"{token} has one value a token: add the signal 'offsets' that says where samples begin"
        )
    bounds, count = signals[OFFSETS], signals[token].shape[axes[token].index("token")]
    if bounds[0] != 0 or bounds[-1] != count or (bounds[1:] < bounds[:-1]).any():
        raise RecordError(f"offsets: expected numbers that start at 0, never fall and end at {count} tokens")


def table_of_flags(field: str, flags: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """Check ``member`` or ``calibration``: true or false for every run (and variant) and sample."""
    if flags is None:
        return None
    if flags.dtype != np.bool_:
        raise RecordError(f"{field}: expected true or false values (dtype bool), got {flags.dtype}")
    if flags.shape != shape:
        raise RecordError(
            f"{field} has shape {flags.shape}: expected {shape}, one line for each run in order"
        )
    return flags


def plain_json(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``about`` as what JSON gives back: lists for tuples, text keys, no NaN."""
    try:
        return json.loads(json.dumps(dict(about), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise RecordError(f"about: expected plain JSON values: {error}") from None


def all_finite(values: np.ndarray) -> bool:
    """Whether no value is NaN or infinite, in one pass.

    A sum is NaN or infinite if any term is; one that overflows by itself only costs the slow answer.
    """
    if values.dtype.kind != "f":
        return True
    if values.dtype.itemsize > 2:
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(values.sum()):
                return True
    return bool(np.isfinite(values).all())


def bad_rows(values: np.ndarray) -> Int[np.ndarray, " row"]:
    """Count the NaN or infinite values along the first axis, in bounded memory."""
    if values.dtype.kind != "f":
        return np.zeros(len(values), np.int64)
    return np.array([_bad_in_row(row) for row in values], np.int64)


def _bad_in_row(row: Any) -> int:
    flat = np.asarray(row).reshape(-1)
    blocks = (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))
    return sum(0 if all_finite(block) else int((~np.isfinite(block)).sum()) for block in blocks)

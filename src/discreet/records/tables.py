"""Losses from a long table, CSV or Parquet: one line for each variant, run, step and sample."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from discreet._types import Bool, Int
from discreet.records.laws import RecordError, quoted, row_name
from discreet.records.order import natural_order, sample_ids
from discreet.records.record import Record

__all__ = ["read_table"]

_NEEDED = ("variant", "run", "step", "sample", "loss")
_LABELS = ("variant", "run", "sample")
_INDEX = ("", "__index_level_0__")  # the unnamed index that pandas writes is no data
_TRUE, _FALSE = ("1", "1.0", "true"), ("0", "0.0", "false")


@dataclass(frozen=True)
class _Column:
    """A column of labels: distinct values, and the number of the value in each line."""

    values: list[str]
    codes: Int[np.ndarray, " line"]


def read_table(path: Path) -> Record:
    """Read the columns ``variant, run, step, sample, loss`` and, optionally, ``member``.

    Step is a number; run and sample are labels. Every variant, run and step needs all samples, each
    once; the order of lines does not matter, but that variants keep the order of first appearance.
    Losses become float64.

    Raises:
        RecordError: The message names the file and the line (1 is the first below the header) or the
            variant, run, step and sample that is missing, repeated or contradicts another.
    """
    read = _read_csv if path.suffix.lower() == ".csv" else _read_parquet
    try:
        if path.stat().st_size == 0:
            raise RecordError("the file is empty")
        fields = _fields(read(path))
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error.__cause__
    except OSError as error:
        raise RecordError(f"{path}: cannot read the table: {error.strerror or error}") from error
    return Record(**fields, source=str(path))


def _read_csv(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8 text: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise RecordError(f"the header cannot be read: {error}") from error
    names = _check_names(header)
    try:
        return arrow_csv.read_csv(
            path,
            # One thread: only then do messages carry row numbers.
            read_options=arrow_csv.ReadOptions(
                column_names=names, skip_rows_after_names=1, use_threads=False, block_size=16 << 20
            ),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid as error:
        raise RecordError(f"not a regular table: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    """Show the text of a library's error on one line.

    Example:
        >>> _one_line(ValueError("a\\n  b"))
        'a b'
    """
    return " ".join(str(error).split())[:300]


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        _check_names(parquet.read_schema(path).names)
        return parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowException) as error:
        raise RecordError(f"not a whole Parquet file: {_one_line(error)}") from error


def _check_names(header: list[str]) -> list[str]:
    names = [name.strip() for name in header]
    expected = f"expected the columns {', '.join(_NEEDED)} and, optionally, member"
    missing = [name for name in _NEEDED if name not in names]
    known = {*_NEEDED, "member", *_INDEX}
    unknown = [name for name in names if name not in known]
    if missing or unknown:
        shown = ", ".join(map(quoted, names[:12])) or "none"
        what = f"no column {quoted(missing[0])}" if missing else f"unknown column {quoted(unknown[0])}"
        raise RecordError(f"{what}: {expected}; the file has {shown}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise RecordError(f"two columns are called {quoted(twice)}: {expected}")
    return names


def _fields(table: Any) -> dict[str, Any]:
    if not table.num_rows:
        raise RecordError("no lines below the header")
    variant, run, sample = (_labels(table.column(name), name) for name in _LABELS)
    run = _sorted(run)
    steps = _numbers(table.column("step"), "step")
    odd = np.flatnonzero(~np.isfinite(steps))
    if len(odd):
        raise RecordError(f"line {odd[0] + 1}: step is {steps[odd[0]]:g}: expected a finite number")
    step, step_codes = np.unique(steps, return_inverse=True)
    loss = _numbers(table.column("loss"), "loss")
    names, places = sample_ids(sample.values)
    column = places[sample.codes]
    # One number for each (variant, run, step): sorted, they are the rows in canonical order.
    row_codes = (variant.codes * len(run.values) + run.codes) * step.size + step_codes
    codes, row = np.unique(row_codes, return_inverse=True)
    left, step_of = np.divmod(codes, step.size)
    variant_of, run_of = np.divmod(left, len(run.values))
    keys = [
        (run.values[r], float(step[s]), variant.values[v])
        for v, r, s in zip(variant_of, run_of, step_of, strict=True)
    ]
    _check_cells(row, column, keys, names)
    values = np.empty((len(keys), names.size))
    values[row, column] = loss
    member = None
    if "member" in table.column_names:
        appear = list(dict.fromkeys(run_of.tolist()))  # member has its runs by first appearance
        member = _member(_flags(table.column("member")), run, column, names)[appear]
    return {
        "run": tuple(key[0] for key in keys),
        "step": np.array([key[1] for key in keys]),
        "variant": tuple(key[2] for key in keys),
        "sample": names,
        "signals": {"loss": values},
        "member": member,
    }


def _labels(column: Any, name: str) -> _Column:
    import pyarrow as pa

    if column.null_count:
        _refuse_empty(np.flatnonzero(np.asarray(column.is_null())), name)
    if pa.types.is_floating(column.type):
        whole = np.asarray(column)
        if not ((whole == np.floor(whole)) & (np.abs(whole) < 2**53)).all():
            raise RecordError(f"{name}: expected text or whole numbers, got {column.type}")
        column = column.cast(pa.int64())
    if not (pa.types.is_integer(column.type) or _is_text(column.type)):
        raise RecordError(f"{name}: expected text or whole numbers, got {column.type}")
    encoded = _compute().dictionary_encode(column.cast(pa.string())).unify_dictionaries()
    values = encoded.chunk(0).dictionary.to_pylist()
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in encoded.chunks]).astype(np.int64)
    for number, value in enumerate(values):
        if value == "":
            _refuse_empty(np.flatnonzero(codes == number), name)
        if value.endswith("\0"):
            raise RecordError(f"{name} {quoted(value)} ends in a NUL character")
    return _Column(values, codes)


def _compute() -> Any:
    import pyarrow.compute

    return pyarrow.compute  # its functions are made at import, where no type checker sees them


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(inner) or pa.types.is_large_string(inner)


def _refuse_empty(lines: Int[np.ndarray, " n"], name: str) -> None:
    more = f" ({lines.size} such cells)" if lines.size > 1 else ""
    raise RecordError(f"line {lines[0] + 1}: the cell of {name} is empty{more}")


def _sorted(column: _Column) -> _Column:
    values = natural_order(column.values)
    places = {value: number for number, value in enumerate(values)}
    return _Column(values, np.array([places[value] for value in column.values])[column.codes])


def _numbers(column: Any, name: str) -> np.ndarray:
    import pyarrow as pa

    if column.null_count:
        _refuse_empty(np.flatnonzero(np.asarray(column.is_null())), name)
    if not _is_text(column.type):
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or pa.types.is_decimal(column.type)
        ):
            raise RecordError(f"{name}: expected numbers, got {column.type}")
        return np.asarray(column.cast(pa.float64(), safe=False), np.float64)
    column = _compute().utf8_trim_whitespace(column.cast(pa.string()))
    try:
        return np.asarray(column.cast(pa.float64()), np.float64)
    except pa.ArrowInvalid:
        line = _first_not_number(column)
    text = column[line].as_py()
    if not text:
        _refuse_empty(np.flatnonzero(np.asarray(_compute().equal(column, ""))), name)
    raise RecordError(f"line {line + 1}: {name} is {quoted(text)}: expected a number")


def _first_not_number(column: Any) -> int:
    """Find the first cell that is no number, by halving: one look at each of a million cells is slow."""
    import pyarrow as pa

    low, high = 0, len(column) - 1
    while low < high:
        middle = (low + high) // 2
        try:
            column.slice(low, middle + 1 - low).cast(pa.float64())
        except pa.ArrowInvalid:
            high = middle
        else:
            low = middle + 1
    return low


def _flags(column: Any) -> Bool[np.ndarray, " line"]:
    import pyarrow as pa

    if column.null_count:
        _refuse_empty(np.flatnonzero(np.asarray(column.is_null())), "member")
    if _is_text(column.type):
        text = _compute().utf8_lower(_compute().utf8_trim_whitespace(column.cast(pa.string())))
        true, false = (np.asarray(_compute().is_in(text, pa.array(words))) for words in (_TRUE, _FALSE))
    else:
        numbers = _numbers(column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column, "member")
        true, false = numbers == 1, numbers == 0
    wrong = np.flatnonzero(~true & ~false)
    if not wrong.size:
        return true
    value = column[int(wrong[0])].as_py()
    if value == "":
        _refuse_empty(wrong, "member")
    raise RecordError(f"line {wrong[0] + 1}: member is {quoted(value)}: expected 0 or 1, or true or false")


def _check_cells(
    row: Int[np.ndarray, " line"],
    column: Int[np.ndarray, " line"],
    keys: list[tuple[str, float, str]],
    names: np.ndarray,
) -> None:
    """Refuse a (row, sample) that occurs twice, then one that does not occur."""
    cell = np.sort(row * names.size + column)
    twice = np.flatnonzero(cell[1:] == cell[:-1])
    if twice.size:
        at, sample = divmod(int(cell[twice[0]]), names.size)
        lines = np.flatnonzero((row == at) & (column == sample)) + 1
        raise RecordError(
            f"{row_name(*keys[at])}, sample {quoted(names[sample])} appears {lines.size} times:"
            f" lines {', '.join(map(str, lines[:4]))}"
        )
    counts = np.bincount(row, minlength=len(keys))
    if cell.size == len(keys) * names.size:
        return
    at = int(np.argmax(counts < names.size))
    absent = np.setdiff1d(np.arange(names.size), column[row == at])
    raise RecordError(
        f"{row_name(*keys[at])} has no line for sample {quoted(names[absent[0]])} ({absent.size} of"
        f" {names.size} samples are missing there; every variant, run and step needs the same samples)"
    )


def _member(
    flags: Bool[np.ndarray, " line"], run: _Column, column: Int[np.ndarray, " line"], names: np.ndarray
) -> Bool[np.ndarray, "run sample"]:
    """Gather membership by run and sample; two lines of one run may not contradict each other."""
    member = np.zeros((len(run.values), names.size), bool)
    member[run.codes, column] = flags
    other = flags != member[run.codes, column]
    if other.any():
        line = int(np.argmax(other))
        raise RecordError(
            f"line {line + 1}: member of run {quoted(run.values[run.codes[line]])}, sample"
            f" {quoted(names[column[line]])} is both 0 and 1: all rows of a run share one membership"
        )
    return member

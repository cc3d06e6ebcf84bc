"""Records put together: more runs on the same samples, or more samples of the same runs.

With ``out`` the parts are read one after the other and written where they belong, so that memory holds
the sample ids and a few megabytes, however many parts there are. Without it the same work fills arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from discreet.records.by_run import ByRun
from discreet.records.by_sample import BySample
from discreet.records.files import Placed, canvas, pieces
from discreet.records.laws import RecordError, all_finite, quoted
from discreet.records.record import Record

__all__ = ["join", "merge_runs", "merge_samples"]


def join(parts: Sequence[str | Path], out: str | Path) -> Record:
    """Join the files of a record written in parts, by a streaming copy.

    Args:
        parts: Files of records on the same samples, such as one for each run and step.
        out: The file to write: the same bytes as ``merge_runs(parts).save(out)``, and the same for any
            order of the parts in which the variants first appear in the same order.

    Returns:
        The joined record, memory-mapped.

    Raises:
        RecordError: As :func:`merge_runs`.
    """
    return merge_runs([Path(part) for part in parts], out)


def merge_runs(records: Sequence[Record | str | Path], out: str | Path | None = None) -> Record:
    """Put the rows of several records on the same samples into one.

    Rows come in canonical order: variant by first appearance, run naturally, step ascending. Samples keep
    the order of the first record; a record that has them in another order is put into it, in memory.

    Args:
        records: Records or paths of their files.
        out: Where to stream the result; None for a record in memory.

    Returns:
        The merged record, memory-mapped if ``out`` is given. Values of ``about`` that differ are kept
        as ``{"merged": [...]}``.

    Raises:
        RecordError: Samples, signals, memberships or dtypes differ, or a row occurs twice.
    """
    return _merge(ByRun(), records, out)


def merge_samples(records: Sequence[Record | str | Path], out: str | Path | None = None) -> Record:
    """Put the samples of several records with the same rows into one, in the order given.

    Args:
        records: Records or paths of their files.
        out: Where to stream the result; None for a record in memory.

    Returns:
        The merged record, memory-mapped if ``out`` is given. Values of ``about`` that differ are kept
        as ``{"merged": [...]}``.

    Raises:
        RecordError: Rows, signals or dtypes differ, or a sample occurs twice.
    """
    return _merge(BySample(), records, out)


def _merge(plan: ByRun | BySample, records: Sequence[Record | str | Path], out: str | Path | None) -> Record:
    if not records:
        raise RecordError("nothing to merge: expected at least one record")
    for number, part in enumerate(records):
        record = _opened(part)
        plan.look(record, record.source or f"record {number}")
    outline = plan.outline()
    if out is not None:
        with canvas(Path(out), outline) as painted:
            for number, part in enumerate(records):
                for name, at, block in _checked(plan, number, _opened(part)):
                    painted.place(name, at, block)
        return Record.open(out)
    arrays = {name: np.zeros(shape, dtype) for name, (dtype, shape) in outline.arrays.items()}
    for number, part in enumerate(records):
        for name, at, block in _checked(plan, number, _opened(part)):
            arrays[name][tuple(slice(a, a + size) for a, size in zip(at, block.shape, strict=True))] = block
    signals = {name.removeprefix("signal/"): s for name, s in arrays.items() if name.startswith("signal/")}
    fields = {**outline.fields, "member": arrays.get("member"), "calibration": arrays.get("calibration")}
    return Record(**fields, signals=signals | dict(outline.text))


def _opened(part: Record | str | Path) -> Record:
    """Return the record; a file is mapped anew each time, so that open files do not add up."""
    record = part if isinstance(part, Record) else Record.open(part)
    if record.hidden:
        raise record.error(
            f"blind to run {quoted(record.hidden[0])}: merge records before they are made blind"
        )
    return record


def _checked(plan: ByRun | BySample, number: int, record: Record) -> Iterator[Placed]:
    """Yield small blocks and where they go; a mapped value that is not finite stops the copy."""
    for name, at, values in plan.placed(number, record):
        for inner, block in pieces(values):
            if not all_finite(block):
                record.validate()
            yield Placed(name, tuple(a + b for a, b in zip(at, inner, strict=True)), block)

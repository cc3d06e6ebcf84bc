"""Merging along the rows: more runs, steps or variants on the same samples."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.records.alike import Kind, Witness, aligned, common
from discreet.records.files import Outline, Placed
from discreet.records.laws import RecordError, quoted, row_name
from discreet.records.order import row_order
from discreet.records.record import Record

__all__ = ["ByRun"]


@dataclass
class ByRun:
    """What was learnt from looking at every part once: enough to say where each row goes."""

    names: list[str] = field(default_factory=list)
    rows: list[tuple[str, float, str]] = field(default_factory=list)
    first_row: list[int] = field(default_factory=list)
    about: list[Mapping[str, Any]] = field(default_factory=list)
    where: dict[tuple[str, float, str], str] = field(default_factory=dict)
    witness: Witness = field(default_factory=Witness)

    def look(self, record: Record, name: str) -> None:
        """Take in the rows of the next part, and check that it fits the earlier ones."""
        kind = Kind.of(record, "row")
        if not self.names:
            self.kind, self.sample = kind, np.array(record.sample)
            self.text = {n: np.array(s) for n, s in record.signals.items() if s.dtype.kind == "U"}
            self.shapes = {n: (s.dtype, s.shape) for n, s in record.signals.items() if n not in self.text}
        else:
            self.kind.check(kind, name, self.names[0])
            record = aligned(record, self.sample, name, self.names[0])
        for key, data, what in _shared(record):
            self.witness.hear(key, data, what, name)
        rows = list(zip(record.run, record.step.tolist(), record.variant, strict=True))
        for row in rows:
            if self.where.setdefault(row, name) != name:
                raise RecordError(f"{row_name(*row)} appears twice: in {self.where[row]} and in {name}")
        self.names.append(name)
        self.first_row.append(len(self.rows))
        self.rows += rows
        self.about.append(record.about)

    def outline(self) -> Outline:
        """Decide the order of the rows, and describe the merged record."""
        run, step, variant = zip(*self.rows, strict=True)
        order = row_order(run, np.array(step), variant)
        self.place = np.argsort(order)
        self.runs = tuple(dict.fromkeys(run[i] for i in order))
        self.variants = tuple(dict.fromkeys(variant[i] for i in order))
        shapes: dict[str, Any] = {
            f"signal/{n}": (dtype, (len(order), *shape[1:]) if self.kind.axes[n][0] == "row" else shape)
            for n, (dtype, shape) in self.shapes.items()
        }
        flags = {"member": (len(self.runs),), "calibration": (len(self.runs), len(self.variants))}
        shapes |= {
            n: (np.dtype(bool), (*s, self.sample.size)) for n, s in flags.items() if self.kind.flags[n]
        }
        fields = {
            "run": tuple(run[i] for i in order),
            "step": np.array(step)[order],
            "variant": tuple(variant[i] for i in order),
            "sample": self.sample,
            "axes": self.kind.axes,
            "about": common(self.about),
            "hidden": (),
        }
        return Outline(fields, self.text, shapes)

    def placed(self, number: int, record: Record) -> Iterator[Placed]:
        """Yield the arrays of a part and where they go."""
        record = aligned(record, self.sample, self.names[number], self.names[0])
        for n in self.shapes:
            values = record.signals[n]
            rest = (0,) * (values.ndim - 1)
            if record.axes[n][0] == "row":
                for row, line in enumerate(values):
                    place = int(self.place[self.first_row[number] + row])
                    yield Placed(f"signal/{n}", (place, *rest), line[None])
            elif number == 0:
                yield Placed(f"signal/{n}", (0, *rest), values)
        for run, line in zip(record.runs, record.member if record.member is not None else (), strict=False):
            yield Placed("member", (self.runs.index(run), 0), line[None])
        for run, variant, flags in _calibrations(record):
            yield Placed(
                "calibration", (self.runs.index(run), self.variants.index(variant), 0), flags[None, None]
            )


def _shared(record: Record) -> Iterator[tuple[tuple[str, ...], bytes, str]]:
    """What two parts may both say, and must then say alike: a key, the bytes, and words for a message."""
    for name, values in record.signals.items():
        if record.axes[name][0] != "row":
            text = values.dtype.kind == "U"
            yield ("signal", name), json.dumps(values.tolist()).encode() if text else values.tobytes(), name
    for run, line in zip(record.runs, record.member if record.member is not None else (), strict=False):
        yield ("member", run), line.tobytes(), f"member of run {quoted(run)}"
    for run, variant, flags in _calibrations(record):
        where = f"calibration of variant {quoted(variant)}, run {quoted(run)}"
        yield ("calibration", run, variant), flags.tobytes(), where


def _calibrations(record: Record) -> Iterator[tuple[str, str, np.ndarray]]:
    """The calibration samples of each variant of a run that the record has rows of."""
    if record.calibration is None:
        return
    for run, variant in dict.fromkeys(zip(record.run, record.variant, strict=True)):
        yield run, variant, record.calibration[record.runs.index(run), record.variants.index(variant)]

"""Merging along the samples: the same models measured on more of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from discreet.records.alike import Kind, common
from discreet.records.files import Outline, Placed
from discreet.records.laws import OFFSETS, RecordError, quoted, repeated, row_name
from discreet.records.record import Record

__all__ = ["BySample"]


@dataclass
class BySample:
    """What was learnt from looking at every part once: enough to say where each sample goes."""

    names: list[str] = field(default_factory=list)
    samples: list[np.ndarray] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    about: list[Mapping[str, Any]] = field(default_factory=list)
    text: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def look(self, record: Record, name: str) -> None:
        """Take in the samples of the next part, and check that it fits the earlier ones."""
        kind = Kind.of(record, "sample")
        if not self.names:
            self.kind, self.rows = kind, _rows(record)
            self.shapes = {n: (s.dtype, s.shape) for n, s in record.signals.items() if s.dtype.kind != "U"}
            self.names.append(name)
        else:
            self.kind.check(kind, name, self.names[0])
            self.names.append(name)
            self._aligned(record, len(self.names) - 1)
        self.samples.append(np.array(record.sample))
        self.tokens.append(int(record.signals[OFFSETS][-1]) if OFFSETS in record.signals else 0)
        self.about.append(record.about)
        for n, values in record.signals.items():
            if values.dtype.kind == "U":
                self.text.setdefault(n, []).append(np.array(values))

    def outline(self) -> Outline:
        """Describe the merged record."""
        counts = [ids.size for ids in self.samples]
        self.starts, self.first_token = (
            np.cumsum([0, *counts]).tolist(),
            np.cumsum([0, *self.tokens]).tolist(),
        )
        run, step, variant = zip(*self.rows, strict=True)
        n = self.starts[-1]
        long = {"sample": n, "token": self.first_token[-1], "bound": n + 1}
        shapes: dict[str, Any] = {
            f"signal/{name}": (
                dtype,
                tuple(long.get(a, z) for a, z in zip(self.kind.axes[name], shape, strict=True)),
            )
            for name, (dtype, shape) in self.shapes.items()
        }
        runs, variants = len(dict.fromkeys(run)), len(dict.fromkeys(variant))
        flags = {"member": (runs, n), "calibration": (runs, variants, n)}
        shapes |= {name: (np.dtype(bool), shape) for name, shape in flags.items() if self.kind.flags[name]}
        fields = {
            "run": run,
            "step": np.array(step),
            "variant": variant,
            "sample": self._ids(),
            "axes": self.kind.axes,
            "about": common(self.about),
            "hidden": (),
        }
        return Outline(fields, {name: np.concatenate(parts) for name, parts in self.text.items()}, shapes)

    def placed(self, number: int, record: Record) -> Iterator[Placed]:
        """Yield the arrays of a part and where they go."""
        record = self._aligned(record, number)
        first = {"sample": self.starts[number], "token": self.first_token[number]}
        for name in self.shapes:
            values, axes = record.signals[name], record.axes[name]
            if name == OFFSETS:
                yield Placed(
                    f"signal/{name}", (first["sample"] + 1,), values[1:] + values.dtype.type(first["token"])
                )
            else:
                yield Placed(f"signal/{name}", tuple(first.get(axis, 0) for axis in axes), values)
        if record.member is not None:
            yield Placed("member", (0, first["sample"]), record.member)
        if record.calibration is not None:
            yield Placed("calibration", (0, 0, first["sample"]), record.calibration)

    def _aligned(self, record: Record, number: int) -> Record:
        """Put the rows of a part into the order of the first part's."""
        rows = _rows(record)
        if rows == self.rows:
            return record
        places = {row: i for i, row in enumerate(rows)}
        name, first = self.names[number], self.names[0]
        for mine, theirs, here, there in (
            (self.rows, places, first, name),
            (rows, set(self.rows), name, first),
        ):
            lacking = next((row for row in mine if row not in theirs), None)
            if lacking is not None:
                raise RecordError(f"rows differ: {row_name(*lacking)} is in {here}, but not in {there}")
        return record.take_rows([places[row] for row in self.rows])

    def _ids(self) -> np.ndarray:
        kinds = {ids.dtype.kind for ids in self.samples}
        parts = self.samples if len(kinds) == 1 else [ids.astype(str) for ids in self.samples]
        whole = np.concatenate(parts)
        twice = repeated(whole)
        if twice is None:
            return whole
        places = np.searchsorted(self.starts, np.flatnonzero(whole == twice), "right") - 1
        here, there = (self.names[part] for part in places[:2])
        raise RecordError(f"sample {quoted(twice)} is in {here} and in {there}")


def _rows(record: Record) -> list[tuple[str, float, str]]:
    return list(zip(record.run, record.step.tolist(), record.variant, strict=True))

"""The axis of r: linear up to the resolution, logarithmic above it, so that zero has a place on it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from discreet._words import number
from discreet.audit import Ranked

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["RScale"]

_LINEAR = 0.6


@dataclass(frozen=True)
class RScale:
    """An axis for the r of some variants: from 0 to ``top``, bending at ``bend``."""

    bend: float
    top: float

    @classmethod
    def of(cls, rows: Iterable[Ranked]) -> RScale:
        """Fit the axis to ranked variants; intervals that reach a hundred times beyond every r run off it."""
        rows = list(rows)
        values = [row.r for row in rows if row.r is not None]
        bend = max((row.resolution or 0 for row in rows), default=0) or max(values, default=0) / 10 or 1.0
        most = max([bend, *values])
        reach = max([most, *(row.high for row in rows if row.high is not None)])
        return cls(bend, 1.08 * min(reach, 100 * most))

    def apply(self, axes: Axes) -> None:
        """Set the horizontal axis."""
        axes.set_xscale("symlog", linthresh=self.bend, linscale=_LINEAR)
        axes.set_xlim(0, self.top)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Zero and at most ``most`` round numbers, 1-2-5, 1-3 or whole decades."""
        return [(mark, number(mark, 1)) for mark in self._marks(most)]

    def _marks(self, most: int) -> list[float]:
        powers = range(math.floor(math.log10(self.bend)) - 1, math.floor(math.log10(self.top)) + 1)
        apart = self._along(self.top) / (most + 2)
        kept: list[float] = []
        for steps in ((1, 2, 5), (1, 3), (1,)):
            marks = [step * 10.0**power for power in powers for step in steps]
            marks = [mark for mark in marks if mark <= self.top and self._along(mark) >= apart]
            kept = marks[:: math.ceil(len(marks) / most)] if marks else []
            if len(marks) <= most and all(
                self._along(b) - self._along(a) >= apart for a, b in pairwise(marks)
            ):
                break
        return [0.0, *kept]

    def _along(self, value: int | float) -> float:
        """Where a value lies, in decades; the linear part is as long as ``_LINEAR`` of one."""
        linear = _LINEAR / 0.9  # Matplotlib's rule for base 10
        return value / self.bend * linear if value <= self.bend else linear + math.log10(value / self.bend)

    def place(self, value: int | float | None, missing: int | float) -> float:
        """Keep an end of an interval on the axis."""
        return float(min(missing if value is None else max(value, 0.0), self.top))

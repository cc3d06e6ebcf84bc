"""How r with more candidates agrees with the MIS, as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from discreet._types import Float
from discreet.report.drawing import Figure, blank
from discreet.report.palette import LIGHT
from discreet.studies.panels import name_axes

__all__ = ["figures"]


def figures(
    sources: Sequence[str],
    agreement: Float[np.ndarray, "set source"],
    means: Sequence[tuple[float, float, float]],
) -> Iterator[Figure]:
    """``agreement``: one column a source of candidates, one dot a data set, and their mean.

    Args:
        sources: Names.
        agreement: Spearman correlation of r with the MIS.
        means: Of each source over data sets, with the ends of its interval; none for one data set.
    """

    def canvas(width: int) -> Any:
        board = blank(width, 320)
        axes = board.add_subplot(1, 1, 1)
        axes.tick_params(labelsize=9, colors=LIGHT["muted"])
        places = np.arange(len(sources))
        for row in agreement:
            axes.plot(places, row, "-", color=LIGHT["rule"], linewidth=0.8)
            axes.plot(places, row, "o", color=LIGHT["edge"], markersize=3.5)
        for at, (value, low, high) in enumerate(means):
            axes.plot([at + 0.08] * 2, [max(-1, low), min(1, high)], color=LIGHT["accent"], linewidth=1.2)
            axes.plot([at + 0.08], [value], "D", color=LIGHT["accent"], markersize=6)
        axes.axhline(0, color=LIGHT["edge"], linewidth=0.8, linestyle=":")
        axes.set_xticks(places, sources)
        axes.set(ylim=(-1.05, 1.05), xlim=(-0.4, len(sources) - 0.6))
        name_axes(axes, "candidates for r", "Spearman of r with the MIS")
        board.subplots_adjust(left=0.09, right=0.98, top=0.97, bottom=0.15)
        return board

    yield Figure(
        "agreement",
        "More candidates for r",
        "Spearman correlation of r with the MIS, one line of dots a data set; diamonds: mean over data sets with its"
        " 95 % t interval.",
        canvas,
    )

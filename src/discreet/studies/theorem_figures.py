"""The theorem's rate against r, by the number of training samples, as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from discreet.report.drawing import Figure, blank
from discreet.report.palette import LIGHT
from discreet.studies.panels import logarithmic, name_axes

if TYPE_CHECKING:
    from discreet.studies.theorem import Exact

__all__ = ["figures"]


def figures(rows: Sequence[Exact]) -> Iterator[Figure]:
    """``rates``: one line a class."""

    def canvas(width: int) -> Any:
        board = blank(width, 380)
        axes = board.add_subplot(1, 1, 1)
        axes.tick_params(labelsize=9, colors=LIGHT["muted"])
        for at, name in enumerate(dict.fromkeys(row.name for row in rows)):
            here = [row for row in rows if row.name == name]
            axes.plot(
                [row.n for row in here],
                [row.rate / row.r for row in here],
                "oDs^v"[at % 5] + "-",
                color=LIGHT[("warm", "accent", "edge")[at % 3]],
                markersize=4,
                linewidth=1.2,
                label=name,
            )
        axes.axhline(1, color=LIGHT["ink"], linewidth=0.8, linestyle=":")
        logarithmic(axes, "x")
        logarithmic(axes, "y")
        axes.set_yticks([1, 2, 5, 10, 20, 50])
        axes.legend(fontsize=8, frameon=False)
        name_axes(axes, "training samples n", "−log(1 − MIS)/n, in units of r")
        board.subplots_adjust(left=0.09, right=0.98, top=0.97, bottom=0.13)
        return board

    yield Figure(
        "rates",
        "The theorem's rate against r",
        "−log(1 − MIS)/n over r by the number of training samples, one line a class. The theorem says that it"
        " comes to be at least 1 (dotted) where the gap shrinks as its assumption asks.",
        canvas,
    )

"""The bias of each estimator of r, case by case, as a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from discreet.report.drawing import Figure, blank
from discreet.report.palette import LIGHT
from discreet.studies.panels import name_axes

if TYPE_CHECKING:
    from discreet.studies.bias import Judged

__all__ = ["figures"]

_LOOKS = (("o", "ink"), ("s", "edge"), ("^", "warm"), ("v", "warm"), ("D", "accent"))


def figures(rows: Sequence[Judged]) -> Iterator[Figure]:
    """``bias``: one line a case, one mark an estimator."""
    cases = list(dict.fromkeys(row.case for row in rows))
    estimators = list(dict.fromkeys(row.how for row in rows))

    def canvas(width: int) -> Any:
        board = blank(width, 70 + 34 * len(cases))
        axes = board.add_subplot(1, 1, 1)
        axes.tick_params(labelsize=8, colors=LIGHT["muted"])
        for at, how in enumerate(estimators):
            mark, colour = _LOOKS[at % len(_LOOKS)]
            here = [row for row in rows if row.how == how]
            places = [cases.index(row.case) + 0.11 * (at - 2) for row in here]
            for place, row in zip(places, here, strict=True):
                ends = [row.bias - 2 * row.bias_error, row.bias + 2 * row.bias_error]
                axes.plot(ends, [place] * 2, color=LIGHT[colour], linewidth=0.9)
            axes.plot([row.bias for row in here], places, mark, color=LIGHT[colour], markersize=4, label=how)
        axes.axvline(0, color=LIGHT["ink"], linewidth=0.8, linestyle=":")
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xticks([-30, -10, -3, -1, 0, 1, 3, 10])
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0")
        axes.set_yticks(range(len(cases)), cases)
        axes.invert_yaxis()
        axes.legend(fontsize=8, frameon=False, loc="lower left")
        name_axes(axes, "bias, units of 1/(2n); linear within ±1", "")
        board.subplots_adjust(
            left=0.34 if width > 500 else 0.5, right=0.98, top=0.98, bottom=44 / (70 + 34 * len(cases))
        )
        return board

    yield Figure(
        "bias",
        "The bias of r and of its corrections",
        "Mean of estimate less true r, with two standard errors over repetitions on each side, for every case and"
        " estimator, in units of 1/(2n).",
        canvas,
    )

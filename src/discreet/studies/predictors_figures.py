"""How well each predictor ranks quantizers as the strongest attack does, by cost, as a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from discreet.report.drawing import Figure, blank
from discreet.report.palette import LIGHT
from discreet.studies.panels import logarithmic, name_axes

__all__ = ["figures"]

_LOOKS = (("o", "accent"), ("D", "accent"), ("s", "warm"), ("^", "warm"), ("v", "edge"))


def figures(
    agreement: Mapping[str, Mapping[int, Sequence[float]]],
    mean: Callable[[Sequence[float]], tuple[float, float, float]],
) -> Iterator[Figure]:
    """``agreement``: one line a predictor.

    Args:
        agreement: By predictor and cost in trajectories: Spearman correlations, one a data set.
        mean: Gives their mean and its interval.
    """

    def canvas(width: int) -> Any:
        board = blank(width, 380)
        axes = board.add_subplot(1, 1, 1)
        axes.tick_params(labelsize=9, colors=LIGHT["muted"])
        for at, (name, by_cost) in enumerate(agreement.items()):
            mark, colour = _LOOKS[at % len(_LOOKS)]
            costs = np.array(list(by_cost), np.float64) * 1.04 ** (at - 2)  # side by side
            found = np.array([mean(values) for values in by_cost.values()])
            low, high = np.clip(found[:, 1:], -1, 1).T
            for cost, bottom, top in zip(costs, low, high, strict=True):
                axes.plot([cost] * 2, [bottom, top], color=LIGHT[colour], linewidth=0.8, alpha=0.6)
            axes.plot(
                costs, found[:, 0], mark + "-", color=LIGHT[colour], markersize=4, linewidth=1, label=name
            )
        axes.axhline(0, color=LIGHT["edge"], linewidth=0.8, linestyle=":")
        logarithmic(axes, "x")
        axes.set_xticks(list(next(iter(agreement.values()))))
        axes.set_ylim(-1.05, 1.05)
        axes.legend(fontsize=8, frameon=False, loc="lower left")
        name_axes(
            axes,
            "cost, in trajectories that are measured for r",
            "Spearman with the strongest attack's ranking",
        )
        board.subplots_adjust(left=0.09, right=0.98, top=0.97, bottom=0.13)
        return board

    yield Figure(
        "agreement",
        "What predicts the strongest attack's ranking",
        "Mean over data sets of each predictor's Spearman correlation with the ranking by the strongest attack, with"
        " a 95 % t interval over data sets, by cost.",
        canvas,
    )

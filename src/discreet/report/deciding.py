"""Lambda_kk by loss rank (Figure 13 of the indicator's paper): which checkpoints decide r."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet._words import number, superscript, whole
from discreet.audit import Lambda
from discreet.report.drawing import NARROW, Figure, Ticks
from discreet.report.markup import Markup, join
from discreet.report.palette import LIGHT
from discreet.report.panels import MOST_PANELS, panels
from discreet.report.table import figure_block, table
from discreet.report.view import Section, View, gaps, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["deciding"]


def deciding(view: View) -> Section | None:
    """The section that answers: which checkpoints decide r?"""
    found = {
        row.variant: row for row in view.analysis.lambda_ if any(v is not None and v > 0 for v in row.median)
    }
    shown = [found[name] for name in view.in_order(found)]
    if not shown:
        return None
    figure = Figure(
        "lambda", "Λ by loss rank", _description(view, shown), lambda w: _draw(shown[:MOST_PANELS], w)
    )
    block = figure_block(view, figure, _caption(shown), _table(view, shown[:MOST_PANELS]))
    return Section("lambda", "Which checkpoints decide", block, (figure,))


def _description(view: View, shown: Sequence[Lambda]) -> str:
    listed = "; ".join(f"{view.names[row.variant]}: loss rank {_most_deciding(row)}" for row in shown[:20])
    return f"Median over runs of Λ by loss rank k, one panel per variant. Deciding in most runs: {listed}."


def _most_deciding(row: Lambda) -> int:
    return row.rank[max(range(len(row.rank)), key=lambda i: row.deciding[i])]


def _caption(shown: Sequence[Lambda]) -> Markup:
    gone = sum(value is not None and value <= 0 for row in shown for value in row.median)
    return join(
        "Checkpoints of a run are sorted by their mean loss, lowest first; Λ is (δ₂/δₖ)² σₖ² in nats², the largest "
        "decides r. The line is its median over runs; a ring's area counts the runs in which that rank decides. "
        "If far ranks decide, the trajectory does not explore the neighbourhood of the optimum well. ",
        f"{gone} zeros have no place on a logarithmic axis; the table has them. " if gone else "",
        f"The first {MOST_PANELS} of {len(shown)} variants are drawn. " if len(shown) > MOST_PANELS else "",
    )


def _kept(row: Lambda) -> list[int]:
    """Low ranks all, later ones thinned, and every rank that decides."""
    decide = [i for i, runs in enumerate(row.deciding) if runs]
    return sorted({*range(min(20, len(row.rank))), *thin(len(row.rank), 100), *decide})


def _table(view: View, shown: Sequence[Lambda]) -> Markup:
    ranks = sorted({row.rank[i] for row in shown for i in _kept(row)})
    places = [{rank: i for i, rank in enumerate(row.rank)} for row in shown]
    rows = [
        (str(rank), *(_cell(row, at.get(rank)) for row, at in zip(shown, places, strict=True)))
        for rank in ranks
    ]
    head = ("Loss rank", *(view.names[row.variant] for row in shown))
    return table(f"Median Λ by loss rank, runs decided in brackets, {view.analysis.name}", head, rows)


def _cell(row: Lambda, i: int | None) -> str:
    return "–" if i is None else f"{number(row.median[i])} ({whole(row.deciding[i])})"


# ---- the figure -----------------------------------------------------------------------------------------


def _draw(shown: Sequence[Lambda], width: int):
    by_name = {row.variant: row for row in shown}
    values = [v for row in shown for v in row.median if v is not None and v > 0]
    low, high = min(values) / 1.6, max(values) * 2.5
    first, last = min(min(row.rank) for row in shown), max(max(row.rank) for row in shown)
    runs = max((sum(row.deciding) for row in shown), default=1) or 1

    def panel(axes: Axes, name: str) -> tuple[Ticks, Ticks]:
        row = by_name[name]
        kept = [i for i in _kept(row) if row.median[i]]
        heights = gaps(row.median)
        axes.plot(
            [row.rank[i] for i in kept], [heights[i] for i in kept], color=LIGHT["accent"], linewidth=1.6
        )
        area = 260 if width != NARROW else 160
        decide = [i for i in kept if row.deciding[i]]
        sizes = [area * row.deciding[i] / runs for i in decide]
        ring = {"facecolors": "none", "edgecolors": LIGHT["warm"], "linewidths": 1.6, "clip_on": False}
        axes.scatter([row.rank[i] for i in decide], [heights[i] for i in decide], s=sizes, zorder=3, **ring)
        return _limits(axes, (first, last), (low, high), 3 if width == NARROW else 5)

    return panels(width, [row.variant for row in shown], panel, "loss rank k")


def _power(p: int) -> str:
    """A power of ten, short enough to stand beside a small panel."""
    return number(10.0**p, 1) if -3 <= p <= 3 else f"10{superscript(p)}"


def _limits(axes: Axes, x: tuple[int, int], y: tuple[float, float], most: int) -> tuple[Ticks, Ticks]:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(max(x[0], 0.5) / 1.15, max(x[1], x[0] + 1) * 1.15)
    axes.set_ylim(*y)
    marks = [
        tick for tick in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if x[0] <= tick <= x[1]
    ]
    marks = marks if len(marks) <= most + 2 else marks[:: math.ceil(len(marks) / most)]
    powers = [
        p
        for p in range(math.floor(math.log10(y[0])), math.ceil(math.log10(y[1])) + 1)
        if y[0] <= 10.0**p <= y[1]
    ]
    powers = powers[:: math.ceil(len(powers) / 4)] if powers else []
    return [(mark, str(mark)) for mark in marks], [(10.0**p, _power(p)) for p in powers]

"""Every attack against r: one panel per attack (after Figure 3 of the indicator's paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet._words import heading, interval, label, number
from discreet.audit import Attack
from discreet.report.drawing import NARROW, Figure, Ticks
from discreet.report.markup import Markup, join
from discreet.report.palette import LIGHT
from discreet.report.panels import MOST_PANELS, panels
from discreet.report.scale import RScale
from discreet.report.scatter import Point, marker_of, set_heights
from discreet.report.table import code, figure_block, table
from discreet.report.view import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["against"]


def against(view: View, metric: str) -> tuple[Markup, Figure | None]:
    """A panel for each attack with a metric over r, and the data as a table."""
    rows = [row for row in view.analysis.attacks if row.metric == metric]
    attacks = list(dict.fromkeys(row.attack for row in rows))[:MOST_PANELS]
    by_name = {(row.attack, row.variant): row for row in rows}
    ranked = view.in_order(row.variant for row in rows if view.rows[row.variant].rank is not None)
    shown = {a: [by_name[a, v] for v in ranked if (a, v) in by_name] for a in attacks}
    data = _table(view, metric, attacks, by_name)
    if max(map(len, shown.values()), default=0) < 2:
        return data, None
    spearman = {row.with_: row for row in view.analysis.agreement}
    listed = "; ".join(
        f"{label(a, 30)}: {', '.join(f'{view.names[row.variant]} {number(row.value)}' for row in found[:12])}"
        for a, found in list(shown.items())[:12]
    )
    figure = Figure(
        "against",
        f"{heading(metric)} of every attack against r",
        f"{heading(metric)} over the indicator r, one panel per attack and one point per variant. {listed}.",
        lambda width: _draw(view, shown, width),
    )
    found = [
        spearman[name].spearman for a in attacks if (name := f"{a} attack {heading(metric)}") in spearman
    ]
    known = sorted(value for value in found if value is not None)
    caption = join(
        f"{heading(metric)} with its interval; the dashed line is full precision. Where r and an attack agree, "
        "points fall from the upper left to the lower right. Hollow points lie below the resolution of r, a cross "
        "marks an r that says little. Each panel has its own vertical axis. ",
        f"Spearman's correlation with r lies between {number(known[0], 2)} and {number(known[-1], 2)}; the table "
        "below has the intervals."
        if known
        else "",
    )
    return figure_block(view, figure, caption, data), figure


def _table(view: View, metric: str, attacks: Sequence[str], by_name: dict[tuple[str, str], Attack]) -> Markup:
    head = ("Variant", "r", *(f"{label(a, 30)}" for a in attacks))
    cells = []
    for name in view.in_order(variant for _, variant in by_name):
        line = [code(view.names[name]), number(view.rows[name].r)]
        for attack in attacks:
            row = by_name.get((attack, name))
            line.append("–" if row is None else f"{number(row.value)} ({interval(row.low, row.high)})")
        cells.append(line)
    return table(f"{heading(metric)} by attack, {view.analysis.name}", head, cells)


def _draw(view: View, shown: dict[str, list[Attack]], width: int):
    scale = RScale.of([view.rows[row.variant] for found in shown.values() for row in found])
    bend = max(
        (view.rows[row.variant].resolution or 0 for found in shown.values() for row in found), default=0
    )

    def panel(axes: Axes, attack: str) -> tuple[Ticks, Ticks]:
        scale.apply(axes)
        points = [Point(row.variant, row.value, row.low, row.high) for row in shown[attack]]
        heights = [(tick, f"{tick:.4g}") for tick in set_heights(axes, points, 3)]
        if bend:
            axes.axvspan(0, bend, color=LIGHT["warm-soft"], linewidth=0, zorder=0)
        for point in points:
            _mark(axes, view, scale, point)
        return scale.ticks(3 if width == NARROW else 4), heights

    return panels(width, list(shown), panel, "indicator r", own=True)


def _mark(axes: Axes, view: View, scale: RScale, point: Point) -> None:
    row = view.rows[point.variant]
    marker = {**marker_of(view, row), "markersize": 6, "markeredgewidth": 1.6}
    if row.is_reference:
        axes.axhline(point.y, color=LIGHT["edge"], linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    x = scale.place(row.r, 0)
    if point.low is not None and point.high is not None:
        thin = {"color": marker["markeredgecolor"], "linewidth": 1.1, "alpha": 0.6, "zorder": 2}
        axes.plot([x, x], [point.low, point.high], **thin)
    axes.plot(x, point.y, zorder=3, clip_on=False, **marker)

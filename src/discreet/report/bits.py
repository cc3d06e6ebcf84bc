"""How much a variant gives away at a low false positive rate, against what it takes on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet._words import interval, label, number, percent
from discreet._words import rate as rate_of
from discreet.audit import Attack
from discreet.report.drawing import NARROW, Figure, axes_at, blank, frame
from discreet.report.markup import Markup
from discreet.report.palette import LIGHT
from discreet.report.scatter import Point, marker_of, place_names, set_heights
from discreet.report.table import code, figure_block, table
from discreet.report.view import View, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bits"]

_RATES = ("tpr@0.01", "tpr@0.001")


def bits(view: View) -> tuple[Markup, Figure] | None:
    """TPR of the strongest attack over bits per weight, with intervals and the data as a table."""
    size = {row.variant: row.bits_per_weight for row in view.analysis.storage if row.bits_per_weight > 0}
    if not view.analysis.roc:
        return None
    attack = view.analysis.roc[0].attack
    by_rate = {rate: _rows(view, attack, rate, size) for rate in _RATES}
    by_rate = {rate: rows for rate, rows in by_rate.items() if len(rows) > 1}
    if not by_rate:
        return None
    words = [rate_of(float(rate.partition("@")[2])) for rate in by_rate]
    listed = "; ".join(
        f"{view.names[row.variant]}: {number(size[row.variant])} bits, {percent(row.value, 2)}"
        for row in next(iter(by_rate.values()))[:20]
    )
    figure = Figure(
        "bits",
        "TPR against bits per weight",
        f"TPR of the {label(attack, 40)} attack over bits per weight, one point per variant. {listed}.",
        lambda width: _draw(view, by_rate, size, width),
    )
    caption = (
        f"Share of the members that the {label(attack, 40)} attack, the strongest, finds at a false positive rate of "
        f"{' and '.join(words)}, with {view.level} intervals; the dotted line is guessing. Lower leaks less. "
        "A diamond is full precision, a cross an r that says little; numbers are ranks by r: "
        f"{_ranks(view, by_rate)}."
    )
    return figure_block(view, figure, caption, _table(view, by_rate, size)), figure


def _rows(view: View, attack: str, rate: str, size: dict[str, float]) -> list[Attack]:
    """The figures at one rate, if every one of them can be resolved."""
    found = {row.variant: row for row in view.analysis.attacks if (row.attack, row.metric) == (attack, rate)}
    if not all(row.more.get("resolvable", True) for row in found.values()):
        return []
    return [found[name] for name in view.in_order(found) if name in size]


def _ranks(view: View, by_rate: dict[str, list[Attack]]) -> str:
    rows = next(iter(by_rate.values()))
    return ", ".join(f"{view.rank(row.variant)} {view.names[row.variant]}" for row in rows)


def _table(view: View, by_rate: dict[str, list[Attack]], size: dict[str, float]) -> Markup:
    names = view.in_order(row.variant for rows in by_rate.values() for row in rows)
    found = {(rate, row.variant): row for rate, rows in by_rate.items() for row in rows}
    head = ["Variant", "Rank by r", "Bits per weight"]
    for rate in by_rate:
        head += [f"TPR at {rate_of(float(rate.partition('@')[2]))} FPR", f"{view.level} interval"]
    cells = []
    for name in names:
        line = [code(view.names[name]), view.rank(name), number(size[name])]
        for rate in by_rate:
            row = found.get((rate, name))
            line += ["–", "–"] if row is None else [percent(row.value, 2), interval(row.low, row.high, _two)]
        cells.append(line)
    return table(f"TPR and bits per weight, {view.analysis.name}", head, cells)


def _two(value: int | float | None) -> str:
    return percent(value, 2)


# ---- the figure -----------------------------------------------------------------------------------------


def _draw(view: View, by_rate: dict[str, list[Attack]], size: dict[str, float], width: int):
    narrow = width == NARROW
    left, right, high, gap = (50, 12, 190, 74) if narrow else (58, 16, 290, 66)
    count = len(by_rate)
    across = 1 if narrow else count
    wide = (width - left * across - right * across) / across
    canvas = blank(width, 28 + (high + gap) * (count if narrow else 1))
    for i, (rate, rows) in enumerate(by_rate.items()):
        at = (left, 28 + i * (high + gap)) if narrow else (left + i * (wide + left + right), 28)
        axes = axes_at(canvas, *at, wide, high)
        _panel(axes, view, float(rate.partition("@")[2]), rows, size, narrow, narrow or count > 1)
    return canvas


def _panel(
    axes: Axes,
    view: View,
    rate: float,
    rows: Sequence[Attack],
    size: dict[str, float],
    narrow: bool,
    short: bool,
) -> None:
    xs = [size[row.variant] for row in rows]
    axes.set_xscale("log", base=2)
    axes.set_xlim(min(xs) / 1.35, max(xs) * 1.35)
    points = [Point(row.variant, row.value, row.low, row.high) for row in rows]
    heights = [(tick, rate_of(tick)) for tick in set_heights(axes, points, 4 if narrow else 6) if tick > 0]
    heights = [(0.0, "0"), *heights]
    axes.set_ylim(min(0.0, axes.get_ylim()[0] / 4), None)
    ticks = [(float(2**p), str(2**p)) for p in range(6) if axes.get_xlim()[0] <= 2**p <= axes.get_xlim()[1]]
    frame(
        axes,
        ticks,
        heights,
        title=f"TPR at {rate_of(rate)} FPR",
        x_title="bits per weight",
        strong=True,
    )
    axes.axhline(rate, color=LIGHT["edge"], linewidth=1.2, linestyle=(0, (1, 2.5)), zorder=1)
    lines = []
    for point in points:
        marker = marker_of(view, view.rows[point.variant])
        x = size[point.variant]
        if point.low is not None and point.high is not None:
            ends = {"color": marker["markeredgecolor"], "linewidth": 1.2, "alpha": 0.6, "zorder": 2}
            axes.plot([x, x], [point.low, point.high], **ends)
            lines.append(((x, point.low), (x, point.high)))
        axes.plot(x, point.y, zorder=3, clip_on=False, **marker)
    names = short_names([point.variant for point in points], 24)
    words = [view.rank(point.variant) if short else names[point.variant] for point in points]
    place_names(axes, [(size[p.variant], p.y) for p in points], words, lines)

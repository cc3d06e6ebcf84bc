"""The figure of a ranking: r with its interval, bars over what is not told apart, and ranks with theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet._words import among
from discreet.audit import Ranked
from discreet.report.drawing import NARROW, axes_at, blank, frame
from discreet.report.palette import LIGHT
from discreet.report.scale import RScale
from discreet.report.scatter import marker_of
from discreet.report.view import View, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["MOST_ROWS", "forest", "groups"]

MOST_ROWS = 60


def forest(view: View, width: int) -> Canvas:
    """Draw the ranking: a row for each ranked variant."""
    rows = view.analysis.ranking.ranked[:MOST_ROWS]
    narrow = width == NARROW
    step, top = (44, 14) if narrow else (32, 26)
    height = step * len(rows)
    canvas = blank(width, top + height + 52)
    left, panel = (4, width - 34) if narrow else (226, 372)
    main = axes_at(canvas, left, top, panel, height)
    _r_panel(main, view, rows, narrow)
    bars = axes_at(canvas, left + panel + (6 if narrow else 16), top, 22 if narrow else 46, height)
    _bars(bars, view, len(rows))
    if not narrow:
        ranks = axes_at(canvas, 660, top, width - 660 - 10, height)
        _rank_panel(ranks, view, rows)
    return canvas


def _r_panel(axes: Axes, view: View, rows: tuple[Ranked, ...], narrow: bool) -> None:
    scale = RScale.of(rows)
    scale.apply(axes)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    words = (
        "r, larger is harder to attack"
        if narrow
        else "r (shaded: below the resolution, cannot be told from 0)"
    )
    frame(axes, scale.ticks(4 if narrow else 6), title="" if narrow else "indicator r", x_title=words)
    names = short_names([row.variant for row in rows], 26)
    for y, row in enumerate(rows):
        base = y + 0.18 if narrow else y
        if row.resolution:
            axes.fill_between(
                [0, min(row.resolution, scale.top)], y - 0.5, y + 0.5, color=LIGHT["warm-soft"], lw=0
            )
        _interval(axes, view, scale, row, base)
        words = f"{row.rank}  {names[row.variant]}"
        if narrow:
            axes.text(0, y - 0.28, words, va="center", transform=axes.get_yaxis_transform())
            ranks = f"ranks {among(row.rank_low, row.rank_high)}"
            axes.text(
                1,
                y - 0.28,
                ranks,
                va="center",
                ha="right",
                color=LIGHT["muted"],
                transform=axes.get_yaxis_transform(),
            )
        else:
            axes.text(-0.03, y, words, va="center", ha="right", transform=axes.get_yaxis_transform())


def _interval(axes: Axes, view: View, scale: RScale, row: Ranked, y: int | float) -> None:
    marker = marker_of(view, row)
    colour = marker["markeredgecolor"]
    low, high = scale.place(row.low, 0), scale.place(row.high, scale.top)
    axes.plot([low, high], [y, y], color=colour, linewidth=2, solid_capstyle="butt")
    if row.high is None or row.high > scale.top:
        axes.plot(scale.top, y, marker=">", color=colour, markersize=7, clip_on=False)
    axes.plot(scale.place(row.r, 0), y, clip_on=False, zorder=3, **marker)


def _bars(axes: Axes, view: View, count: int) -> None:
    """A bar for each group, in as few lanes as keep them apart."""
    axes.set_ylim(count - 0.5, -0.5)
    lanes: list[int] = []
    placed = []
    for first, last in groups(view):
        if first >= count:
            break
        last = min(last, count - 1)
        lane = next((i for i, end in enumerate(lanes) if end < first), len(lanes))
        lanes[lane : lane + 1] = [last]
        placed.append((lane, first, last))
    axes.set_xlim(-0.5, max(5.5, len(lanes) - 0.5))
    for lane, first, last in placed:
        axes.plot(
            [lane, lane],
            [first - 0.25, last + 0.25],
            color=LIGHT["edge"],
            linewidth=3,
            solid_capstyle="round",
        )


def _rank_panel(axes: Axes, view: View, rows: tuple[Ranked, ...]) -> None:
    count = len(rows)
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_xlim(0.5, count + 0.5)
    ranks = range(1, count + 1, max(1, -(-count // 9)))
    frame(axes, [(rank, str(rank)) for rank in ranks], title="rank", x_title="rank, with interval")
    for y, row in enumerate(rows):
        colour = marker_of(view, row)["markeredgecolor"]
        if row.rank_low is not None and row.rank_high is not None:
            axes.plot(
                [row.rank_low, row.rank_high],
                [y, y],
                color=LIGHT["accent-soft"],
                linewidth=8,
                solid_capstyle="round",
            )
        axes.plot(row.rank or y + 1, y, marker="o", markersize=6, color=colour)


def groups(view: View) -> list[tuple[int, int]]:
    """Neighbours in the ranking of which no two are told apart: first and last position of each group."""
    names = [row.variant for row in view.analysis.ranking.ranked]
    apart = view.analysis.ranking.told_apart
    found: list[tuple[int, int]] = []
    start = 0
    for end in range(len(names)):
        while any(apart(names[i], names[end]) for i in range(start, end)):
            start += 1
        if found and found[-1][0] == start:
            found[-1] = (start, end)
        else:
            found.append((start, end))
    widest = [g for g in found if not any(o != g and o[0] <= g[0] and g[1] <= o[1] for o in found)]
    return [(first, last) for first, last in widest if last > first]

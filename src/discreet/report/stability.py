"""How many runs the ranking needs: the paper's curve (Figure 2) and the stricter one between disjoint halves."""

from __future__ import annotations

from collections.abc import Sequence

from discreet._words import interval, number, whole
from discreet.audit import StabilityPoint
from discreet.report.drawing import NARROW, Figure, axes_at, blank, frame
from discreet.report.markup import Markup, join
from discreet.report.palette import LIGHT
from discreet.report.table import figure_block, note, table
from discreet.report.view import Section, View

__all__ = ["stability"]


def stability(view: View) -> Section | None:
    """The section that answers: would other runs give the same order?"""
    found = view.analysis.stability
    drawn = any(point.spearman is not None for point in (*found.subset_vs_all, *found.disjoint_halves))
    if not drawn and not found.runs_needed:
        return None
    needed = _needed(view)
    if not drawn:
        return Section("stability", "Stability over runs", join(needed))
    figure = Figure(
        "stability", "Agreement of rankings by number of runs", _description(view), lambda w: _draw(view, w)
    )
    block = figure_block(view, figure, _caption(), _table(view))
    return Section("stability", "Stability over runs", join(block, needed), (figure,))


def _caption() -> str:
    return (
        "Spearman correlation between rankings. The solid line compares two disjoint halves of the runs, and "
        "this is the one to judge by. The dashed line compares a subset with all runs, as in the paper; it reaches 1 "
        "by construction, since the subset is part of the whole."
    )


def _description(view: View) -> str:
    parts = []
    for name, points in (
        ("disjoint halves", view.analysis.stability.disjoint_halves),
        ("subset against all", view.analysis.stability.subset_vs_all),
    ):
        listed = "; ".join(f"{point.runs} runs: {number(point.spearman, 2)}" for point in points[:20])
        parts.append(f"{name}: {listed or 'none'}")
    return "Spearman correlation by number of runs. " + ". ".join(parts) + "."


def _needed(view: View) -> Markup | None:
    needed = view.analysis.stability.runs_needed
    if not needed:
        return None
    words = [
        f"{level}: {'more than this record can tell' if runs is None else f'about {whole(runs)} runs'}"
        for level, runs in needed.items()
    ]
    return note("Runs for two disjoint halves to agree at a Spearman correlation of ", "; ".join(words), ".")


def _table(view: View) -> Markup:
    found = view.analysis.stability
    rows = [
        (name, whole(point.runs), number(point.spearman), interval(point.low, point.high))
        for name, points in (
            ("disjoint halves", found.disjoint_halves),
            ("subset against all", found.subset_vs_all),
        )
        for point in points
    ]
    return table(
        f"Agreement by number of runs, {view.analysis.name}",
        ("Compared", "Runs", "Spearman", "Interval"),
        rows,
    )


def _draw(view: View, width: int):
    narrow = width == NARROW
    canvas = blank(width, 260 if narrow else 320)
    left = 42 if narrow else 54
    axes = axes_at(canvas, left, 26, width - left - (14 if narrow else 170), (260 if narrow else 320) - 80)
    found = view.analysis.stability
    lines = (
        (found.subset_vs_all, LIGHT["edge"], (0, (4, 3)), "subset against all"),
        (found.disjoint_halves, LIGHT["accent"], "solid", "disjoint halves"),
    )
    ends = [0.0]
    for points, colour, dash, name in lines:
        ends += _line(axes, points, colour, dash, None if narrow else name)
    axes.axhline(0.9, color=LIGHT["warm"], linewidth=1)
    axes.set_ylim(min(-0.05, *ends), 1.05)
    ticks = [tick for tick in (-1, -0.5, 0, 0.5, 0.9, 1) if tick >= axes.get_ylim()[0]]
    runs = sorted({point.runs for points, *_ in lines for point in points})
    most = 6 if narrow else 10
    shown = [run for i, run in enumerate(runs) if i % -(-len(runs) // most) == 0]
    axes.set_xlim(runs[0] - 0.5, runs[-1] + 0.5)
    heights = [(tick, number(tick, 1)) for tick in ticks]
    frame(
        axes,
        [(run, str(run)) for run in shown],
        heights,
        title="Spearman correlation",
        x_title="runs in each ranking",
    )
    return canvas


def _line(axes, points: Sequence[StabilityPoint], colour: str, dash, name: str | None) -> list[float]:
    known = [point for point in points if point.spearman is not None]
    if not known:
        return []
    banded = [point for point in known if point.low is not None and point.high is not None]
    if banded and dash == "solid":
        axes.fill_between(
            [point.runs for point in banded],
            [point.low for point in banded],
            [point.high for point in banded],
            color=LIGHT["accent-soft"],
            linewidth=0,
        )
    axes.plot(
        [p.runs for p in known], [p.spearman for p in known], color=colour, linestyle=dash, linewidth=1.8
    )
    axes.plot(
        [p.runs for p in known],
        [p.spearman for p in known],
        color=colour,
        marker="o",
        markersize=4,
        linestyle="none",
    )
    if name:
        last = known[-1]
        axes.annotate(
            name, (last.runs, last.spearman), (10, 0), textcoords="offset pixels", va="center", color=colour
        )
    return [end for point in known for end in (point.low, point.spearman) if end is not None]

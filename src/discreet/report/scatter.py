"""A scatter of variants against r, each point with its intervals and its name beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet._words import label
from discreet.audit import Ranked
from discreet.report.drawing import NARROW, axes_at, blank, frame
from discreet.report.palette import LIGHT
from discreet.report.scale import RScale
from discreet.report.view import View, short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Point", "key_of_ranks", "marker_of", "place_names", "scatter", "set_heights"]

MOST_NAMES = 24
_LETTER = 6.9  # mean width of a letter at 12 px, in pixels: wide enough for any system font


@dataclass(frozen=True)
class Point:
    """A ranked variant and its height in the plot, with an interval where there is one."""

    variant: str
    y: float
    low: float | None
    high: float | None


def scatter(
    view: View, points: Sequence[Point], width: int, y_label: str, write_y, front: Sequence[str] = ()
):
    """Draw points over r; names beside them, or on a phone their ranks.

    Args:
        view: the analysis.
        points: ranked variants only.
        width: of the canvas in pixels.
        y_label: what the height is.
        write_y: turns a height into a tick label.
        front: variants to join by a line, in order of r.
    """
    narrow = width == NARROW
    canvas = blank(width, 300 if narrow else 400)
    left, right = (46, 12) if narrow else (66, 24)
    height = 300 - 74 if narrow else 400 - 84
    axes = axes_at(canvas, left, 26, width - left - right, height)
    rows = view.rows
    scale = RScale.of([rows[point.variant] for point in points])
    scale.apply(axes)
    heights = [(tick, write_y(tick)) for tick in set_heights(axes, points, 4 if narrow else 6)]
    x_title = (
        "r, larger is harder to attack"
        if narrow
        else "indicator r (linear up to the resolution, then logarithmic)"
    )
    frame(
        axes,
        scale.ticks(4 if narrow else 7),
        heights,
        title=label(y_label, 40 if narrow else 90),
        x_title=x_title,
    )
    bend = max((rows[point.variant].resolution or 0 for point in points), default=0)
    if bend:
        axes.axvspan(0, bend, color=LIGHT["warm-soft"], linewidth=0, zorder=0)
    _join_front(axes, view, points, front)
    for point in points:
        _mark(axes, view, scale, point)
    named = points if len(points) <= MOST_NAMES else [point for point in points if point.variant in front]
    names = short_names([point.variant for point in named], 24)
    words = [view.rank(point.variant) if narrow else names[point.variant] for point in named]
    places = [(scale.place(rows[point.variant].r, 0), point.y) for point in named]
    place_names(axes, places, words, _lines(view, scale, named))
    return canvas


def key_of_ranks(view: View, points: Sequence[Point]) -> str:
    """The names behind the numbers of the phone's version."""
    return "Ranks: " + ", ".join(f"{view.rank(p.variant)} {view.names[p.variant]}" for p in points) + "."


def set_heights(axes: Axes, points: Sequence[Point], most: int) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    ends = [end for point in points for end in (point.y, point.low, point.high) if end is not None]
    low, high = min(ends), max(ends)
    margin = 0.1 * (high - low) or 0.05 * abs(high) or 0.5
    low, high = low - margin, high + margin
    axes.set_ylim(low, high)
    return [
        tick for tick in MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high
    ]


def _join_front(axes: Axes, view: View, points: Sequence[Point], front: Sequence[str]) -> None:
    """Steps from corner to corner: nothing measured lies above and to the right of them."""
    at = {point.variant: (view.rows[point.variant].r or 0.0, point.y) for point in points}
    corners = sorted(at[name] for name in front)
    if len(corners) > 1:
        xs, ys = zip(*corners, strict=True)
        axes.step(xs, ys, where="pre", color=LIGHT["warm"], linewidth=1.5, linestyle=(0, (4, 3)), zorder=1.5)


def marker_of(view: View, row: Ranked) -> dict[str, Any]:
    """A disc, hollow below the resolution; a diamond for the reference; a cross where r says little."""
    if view.doubt(row.variant):
        shape, colour, size = "x", LIGHT["warm"], 8
    elif row.is_reference:
        shape, colour, size = "D", LIGHT["edge"], 7
    else:
        shape, colour, size = "o", LIGHT["accent"], 8
    face = LIGHT["paper"] if row.is_below_resolution else colour
    edge = {"markeredgecolor": colour, "markeredgewidth": 2}
    return {"marker": shape, "markersize": size, "markerfacecolor": face, **edge}


def _mark(axes: Axes, view: View, scale: RScale, point: Point) -> None:
    row = view.rows[point.variant]
    marker = marker_of(view, row)
    x = scale.place(row.r, 0)
    thin = {"color": marker["markeredgecolor"], "linewidth": 1.2, "alpha": 0.55, "zorder": 2}
    axes.plot([scale.place(row.low, 0), scale.place(row.high, scale.top)], [point.y, point.y], **thin)
    if point.low is not None and point.high is not None:
        axes.plot([x, x], [point.low, point.high], **thin)
    axes.plot(x, point.y, zorder=3, clip_on=False, **marker)


def _lines(
    view: View, scale: RScale, points: Sequence[Point]
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """The intervals, as lines that a name should not lie on."""
    found = []
    for point in points:
        row = view.rows[point.variant]
        x = scale.place(row.r, 0)
        found.append(((scale.place(row.low, 0), point.y), (scale.place(row.high, scale.top), point.y)))
        if point.low is not None and point.high is not None:
            found.append(((x, point.low), (x, point.high)))
    return found


def place_names(
    axes: Axes, places: Sequence[tuple[float, float]], words: Sequence[str], lines: Sequence
) -> None:
    """Put each name where it covers least of the points, lines and names, near its point if it can."""
    to_pixel = axes.transData.transform
    points = [tuple(to_pixel(place)) for place in places]
    box = axes.bbox
    taken = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    for ends in lines:
        (x0, y0), (x1, y1) = to_pixel(ends[0]), to_pixel(ends[1])
        taken.append((x0 - 1, y0 - 1, x1 + 1, y1 + 1))
    for (x, y), word in zip(points, words, strict=True):
        spots = _spots(x, y, _LETTER * len(word))
        inside = [
            s for s in spots if s[0] >= box.x0 and s[2] <= box.x1 + 20 and s[1] >= box.y0 and s[3] <= box.y1
        ]
        spot = min(inside or spots, key=lambda s: sum(_overlap(s, other) for other in taken))
        taken.append(spot)
        near = min(max(x, spot[0]), spot[2]), min(max(y, spot[1]), spot[3])
        back = axes.transData.inverted().transform
        if math.dist(near, (x, y)) > 12:
            leader = back([(x, y), near])
            axes.plot(leader[:, 0], leader[:, 1], color=LIGHT["edge"], linewidth=0.8, zorder=1.8)
        at = back((spot[0], spot[1] + 2))
        axes.text(at[0], at[1], word, va="baseline", ha="left", zorder=4)


def _spots(x: int | float, y: int | float, wide: float) -> list[tuple[float, float, float, float]]:
    """Boxes for a name around a point: to its upper right first, then round it, then further out."""
    found = []
    for reach in (9, 18, 30, 44):
        for dx, dy in ((1, 1), (-1, 1), (1, -1), (-1, -1), (1.3, 0), (-1.3, 0), (0, 1.2), (0, -1.2)):
            left = x - wide / 2 if dx == 0 else x + dx * reach * 0.8 - (wide if dx < 0 else 0)
            low = y + dy * reach - (0 if dy > 0 else 13 if dy < 0 else 6.5)
            found.append((left, low, left + wide, low + 13))
    return found


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0

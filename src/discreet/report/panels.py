"""Small multiples: one panel per variant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from discreet.report.drawing import NARROW, Ticks, axes_at, blank, frame
from discreet.report.view import short_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MOST_PANELS", "panels"]

MOST_PANELS = 24


def panels(
    width: int,
    names: Sequence[str],
    draw: Callable[[Axes, str], tuple[Ticks, Ticks]],
    x_title: str,
    own: bool = False,
):
    """Draw a panel for each variant.

    Args:
        width: of the canvas in pixels.
        names: variants, in the order to show them.
        draw: draws one into its axes, sets its limits, and returns the ticks.
        x_title: under the lowest panels.
        own: whether each panel has a vertical axis of its own, and words beside it.
    """
    narrow = width == NARROW
    columns = min(len(names), 2 if narrow else 3)
    rows = -(-len(names) // columns)
    left, gap, high, below = (44, 16, 92, 44) if narrow else (54, 24, 124, 50)
    gap = left if own else gap
    wide = (width - left - 14 - gap * ((2 if narrow else 3) - 1)) / (2 if narrow else 3)
    if len(names) == 1:
        wide = min(width - left - 14, 420)
    canvas = blank(width, 22 + rows * (high + below) + 4)
    shown = short_names(names, 19 if narrow else 30)
    for i, name in enumerate(names):
        row, column = divmod(i, columns)
        axes = axes_at(canvas, left + column * (wide + gap), 22 + row * (high + below), wide, high)
        x, y = draw(axes, name)
        lowest = i + columns >= len(names)
        frame(
            axes,
            x,
            y,
            title=shown[name],
            x_title=x_title if lowest else "",
            y_words=own or column == 0,
            strong=True,
        )
    return canvas

"""What figures of studies have in common: small panels side by side, plain axes, and their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet._json import save
from discreet.report.drawing import Figure, blank, picture
from discreet.report.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["logarithmic", "name_axes", "panels", "write"]


def panels(
    name: str,
    title: str,
    description: str,
    items: Sequence[Any],
    draw: Callable[[Axes, Any], None],
    *,
    heading: Callable[[Any], str],
    columns: int = 3,
    height: int = 230,
) -> Figure:
    """A figure with one panel an item.

    Args:
        name: Of its file.
        title: What it is.
        description: What it shows, in words.
        items: What the panels show.
        draw: Draws one.
        heading: Over a panel.
        columns: Panels side by side, at most.
        height: Of a panel, in pixels.
    """

    def canvas(width: int) -> Any:
        across = min(columns, len(items))
        down = -(-len(items) // across)
        total = 70 + height * down
        board = blank(width, total)
        for at, item in enumerate(items):
            axes = board.add_subplot(down, across, at + 1)
            axes.tick_params(labelsize=8, colors=LIGHT["muted"])
            axes.set_title(heading(item), fontsize=10, loc="left", color=LIGHT["ink"])
            draw(axes, item)
        board.subplots_adjust(
            left=0.08, right=0.95, top=1 - 24 / total, bottom=46 / total, wspace=0.38, hspace=0.42
        )
        return board

    return Figure(name, title, description, canvas)


def logarithmic(axes: Axes, along: str) -> None:
    """Make an axis, ``"x"`` or ``"y"``, logarithmic, with plain numbers."""
    axes.set(**{f"{along}scale": "log"})
    axes.minorticks_off()
    getattr(axes, f"{along}axis").set_major_formatter(lambda value, _: f"{value:g}")


def name_axes(axes: Axes, x: str, y: str) -> None:
    """Say what the axes are."""
    axes.set_xlabel(x, fontsize=8, color=LIGHT["muted"])
    axes.set_ylabel(y, fontsize=8, color=LIGHT["muted"])


def write(folder: Path, figures: Iterable[Figure]) -> None:
    """Write every figure as SVG and as PNG into the folder."""
    for figure in figures:
        for kind in ("svg", "png"):
            save(folder / f"{figure.name}.{kind}", picture(figure, kind))

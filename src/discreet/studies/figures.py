"""Figures of studies: a grid of small boxes, and the same SVG bytes for the same figure."""

from __future__ import annotations

import io
from typing import Any

__all__ = ["board", "svg"]


def board(rows: int, columns: int, width: float = 2.6, height: float = 2.3) -> tuple[Any, Any]:
    """A figure and its boxes [row, column], each of a width and height in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.flat:
        ax.tick_params(labelsize=6)
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def svg(figure: Any) -> bytes:
    """The figure as it is written: no date, no creator, the same ids."""
    import matplotlib

    out = io.BytesIO()
    with matplotlib.rc_context(
        {"svg.hashsalt": "discreet", "svg.fonttype": "none", "font.family": "sans-serif"}
    ):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()

"""Training curves with the quantized metrics: where each variant's optimum lies in the trajectory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet._words import heading, interval, label, number
from discreet.audit import Curve
from discreet.report.drawing import NARROW, Figure, Ticks
from discreet.report.markup import Markup, join
from discreet.report.palette import LIGHT
from discreet.report.panels import MOST_PANELS, panels
from discreet.report.table import figure_block, table
from discreet.report.view import Section, View, gaps, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curves"]


def curves(view: View) -> Section | None:
    """The section that answers: was the model trained past its optimum, and what does quantization do to it?"""
    signals = list(dict.fromkeys(curve.signal for curve in view.analysis.curves))
    parts, figures = [], []
    for i, signal in enumerate(signals):
        found = {curve.variant: curve for curve in view.analysis.curves if curve.signal == signal}
        shown = [found[name] for name in view.in_order(found) if _has_numbers(found[name])]
        if not shown:
            continue
        figure = _figure(view, signal, shown[:MOST_PANELS], i)
        figures.append(figure)
        parts.append(
            figure_block(
                view, figure, _caption(view, signal, shown), _table(view, signal, shown[:MOST_PANELS])
            )
        )
    return Section("curves", "Training curves", join(*parts), tuple(figures)) if parts else None


def _has_numbers(curve: Curve) -> bool:
    return any(value is not None for value in curve.mean)


def _is_loss(signal: str) -> bool:
    return "loss" in signal.lower()


def _best(curve: Curve) -> int:
    """The place of the best mean: the lowest loss, the highest of anything else; the first on ties."""
    sign = 1 if _is_loss(curve.signal) else -1
    return min((sign * mean, i) for i, mean in enumerate(curve.mean) if mean is not None)[1]


def _figure(view: View, signal: str, shown: Sequence[Curve], i: int) -> Figure:
    what = "lowest" if _is_loss(signal) else "highest"
    listed = "; ".join(
        f"{view.names[c.variant]}: {what} {number(c.mean[_best(c)])} at step {c.steps[_best(c)]:g}"
        for c in shown[:20]
    )
    return Figure(
        f"curves-{i + 1}",
        f"{heading(signal)} over training",
        f"Mean {label(signal, 24)} over runs by training step, one panel per variant. {listed}.",
        lambda width: _draw(view, shown, width),
    )


def _caption(view: View, signal: str, shown: Sequence[Curve]) -> Markup:
    own = _apart(shown[:MOST_PANELS])
    reference = any(view.rows[curve.variant].is_reference for curve in shown) and not own
    return join(
        f"The mean over runs with its band; the dot marks the {'lowest' if _is_loss(signal) else 'highest'} mean. ",
        "The grey line is the full-precision reference. " if reference else "",
        "Each panel has its own vertical axis, since the losses lie far apart. " if own else "",
        "r compares the optimum with the checkpoints around it, so it should lie well inside the trajectory. "
        if _is_loss(signal)
        else "",
        f"The first {MOST_PANELS} of {len(shown)} variants are drawn. " if len(shown) > MOST_PANELS else "",
    )


def _table(view: View, signal: str, shown: Sequence[Curve]) -> Markup:
    """One row per step, one column per variant; long trajectories thinned as they are drawn."""
    steps = sorted({curve.steps[i] for curve in shown for i in _kept(curve)})
    steps = [steps[i] for i in thin(len(steps), 240)]
    places = [{step: i for i, step in enumerate(curve.steps)} for curve in shown]
    rows = [
        (f"{step:g}", *(_cell(curve, at.get(step)) for curve, at in zip(shown, places, strict=True)))
        for step in steps
    ]
    head = ("Step", *(view.names[curve.variant] for curve in shown))
    return table(f"{label(signal, 24)} by step with band, {view.analysis.name}", head, rows)


def _kept(curve: Curve) -> list[int]:
    return sorted({*thin(len(curve.steps)), _best(curve)})


def _cell(curve: Curve, i: int | None) -> str:
    if i is None:
        return "–"
    band = f" ({interval(curve.low[i], curve.high[i])})" if curve.low and curve.high else ""
    return number(curve.mean[i]) + band


# ---- the figure -----------------------------------------------------------------------------------------


def _draw(view: View, shown: Sequence[Curve], width: int):
    by_name = {curve.variant: curve for curve in shown}
    own = _apart(shown)
    steps = [step for curve in shown for step in curve.steps]
    grey = next((curve for curve in shown if view.rows[curve.variant].is_reference and not own), None)

    def panel(axes: Axes, name: str) -> tuple[Ticks, Ticks]:
        curve = by_name[name]
        if grey is not None and grey.variant != name:
            _line(axes, grey, LIGHT["edge"], 1.2)
        _line(axes, curve, LIGHT["accent"], 1.8, band=True)
        best = _best(curve)
        dot = {"marker": "o", "markersize": 6, "color": LIGHT["warm"], "clip_on": False}
        axes.plot(curve.steps[best], gaps(curve.mean)[best], **dot)
        return _limits(axes, (min(steps), max(steps)), _reach([curve] if own else shown), width == NARROW)

    return panels(width, [curve.variant for curve in shown], panel, "training step", own)


def _reach(shown: Sequence[Curve]) -> tuple[float, float]:
    ends = [v for c in shown for column in (c.mean, c.low, c.high) for v in column if v is not None]
    return min(ends), max(ends)


def _apart(shown: Sequence[Curve]) -> bool:
    """Whether losses lie so far apart that one axis would flatten most of them."""
    if not _is_loss(shown[0].signal):
        return False
    low, high = _reach(shown)
    each = sorted(b - a for a, b in (_reach([curve]) for curve in shown))
    return high - low > 5 * each[len(each) // 2]


def _line(axes: Axes, curve: Curve, colour: str, weight: float, band: bool = False) -> None:
    kept = [i for i in _kept(curve) if curve.mean[i] is not None]
    if band and curve.low and curve.high:
        inside = [i for i in kept if curve.low[i] is not None and curve.high[i] is not None]
        axes.fill_between(
            [curve.steps[i] for i in inside],
            gaps(curve.low[i] for i in inside),
            gaps(curve.high[i] for i in inside),
            color=LIGHT["accent-soft"],
            linewidth=0,
        )
    axes.plot(
        [curve.steps[i] for i in kept], gaps(curve.mean[i] for i in kept), color=colour, linewidth=weight
    )


def _limits(axes: Axes, x: tuple[float, float], y: tuple[float, float], narrow: bool) -> tuple[Ticks, Ticks]:
    from matplotlib.ticker import MaxNLocator

    most = 3 if narrow else 4
    axes.set_xlim(x[0], x[1] if x[1] > x[0] else x[0] + 1)
    across = MaxNLocator(most, integer=True, steps=[1, 2, 5, 10]).tick_values(*axes.get_xlim())
    log = y[0] > 0 and y[1] > 20 * y[0]
    if log:
        low, high = y[0] / 1.2, y[1] * 1.2
        axes.set_yscale("log")
        ticks = [10.0**p for p in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    else:
        margin = 0.06 * (y[1] - y[0]) or 0.05 * abs(y[0]) or 0.05
        low, high = y[0] - margin, y[1] + margin
        ticks = list(MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*y))
    axes.set_ylim(low, high)
    return (
        [(tick, f"{tick:g}") for tick in across if x[0] <= tick <= x[1]],
        [(tick, f"{tick:.4g}") for tick in ticks if low <= tick <= high],
    )

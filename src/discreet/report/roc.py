"""Log-log ROC curves, one panel per variant (after Figure 4 of the indicator's paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from discreet._words import label, percent, superscript
from discreet.audit import RocCurve
from discreet.report.drawing import NARROW, Figure, Ticks
from discreet.report.markup import Markup, join
from discreet.report.palette import LIGHT
from discreet.report.panels import MOST_PANELS, panels
from discreet.report.table import code, figure_block, table
from discreet.report.view import View, thin

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["roc"]

MOST_RATES = 16


def roc(view: View) -> tuple[Markup, Figure] | None:
    """The curves of the strongest attack and of the loss attack, with their data as a table."""
    rows = view.analysis.roc
    if not rows:
        return None
    attacks = list(dict.fromkeys(row.attack for row in rows))
    by_name = {(row.variant, row.attack): row for row in rows}
    names = view.in_order(row.variant for row in rows)
    drawn = names[:MOST_PANELS]
    shown = {name: [by_name[name, a] for a in attacks if (name, a) in by_name] for name in drawn}
    figure = Figure(
        "roc",
        "ROC curves",
        _description(view, shown),
        lambda width: _draw(shown, width),
    )
    tables = [
        _table(view, attack, [by_name[n, attack] for n in names if (n, attack) in by_name])
        for attack in attacks
    ]
    return figure_block(view, figure, _caption(view, attacks, len(names)), join(*tables)), figure


def _description(view: View, shown: dict[str, list[RocCurve]]) -> str:
    listed = "; ".join(
        f"{view.names[name]}: {percent(_at(curves[0], 0.01))} at 1 %, {percent(_at(curves[0], 0.1))} at 10 %"
        for name, curves in list(shown.items())[:20]
    )
    return (
        "TPR over FPR, both on logarithmic axes, one panel per variant. "
        f"{label(next(iter(shown.values()))[0].attack, 60)}: {listed}."
    )


def _at(curve: RocCurve, fpr: float) -> float:
    return max((t for f, t in zip(curve.fpr, curve.tpr, strict=True) if f <= fpr), default=0.0)


def _caption(view: View, attacks: Sequence[str], count: int) -> Markup:
    second = f"; the thin orange line is the {label(attacks[1], 40)} attack" if len(attacks) > 1 else ""
    named = "the strongest attack" if len(attacks) > 1 else "the strongest attack, that on the loss"
    first = f"The thick blue line is {named}" + (f", {label(attacks[0], 60)}" if len(attacks) > 1 else "")
    rest = f"The first {MOST_PANELS} of {count} variants are drawn. " if count > MOST_PANELS else ""
    return join(
        f"Upwards, the share of the members found; across, the share of non-members wrongly accused: the mean "
        f"over runs. {first}{second}; the dotted line is guessing. On the left are attackers who may hardly accuse "
        "anybody wrongly. "
        "In the shaded range there are too few non-members to tell; a curve that leaves through the bottom finds "
        f"nobody at that rate. {rest}"
    )


def _table(view: View, attack: str, rows: Sequence[RocCurve]) -> Markup:
    rates = sorted({rate for row in rows for rate in row.fpr})
    rates = [rates[i] for i in thin(len(rates), MOST_RATES)]
    cells = [(percent(rate, 3), *(percent(_at(row, rate), 2) for row in rows)) for rate in rates]
    head = ("FPR", *(code(view.names[row.variant]) for row in rows))
    return table(f"TPR by FPR of the {label(attack, 40)} attack, {view.analysis.name}", head, cells)


# ---- the figure -----------------------------------------------------------------------------------------


def _draw(shown: dict[str, list[RocCurve]], width: int):
    curves = [curve for found in shown.values() for curve in found]
    bottom = math.floor(math.log10(min(curve.resolvable for curve in curves)) - 1e-9)
    floor = 10.0 ** min(bottom, -1)

    def panel(axes: Axes, name: str) -> tuple[Ticks, Ticks]:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(floor, 1)
        axes.set_ylim(floor, 1)
        axes.axvspan(floor, shown[name][0].resolvable, color=LIGHT["warm-soft"], linewidth=0, zorder=0)
        axes.plot([floor, 1], [floor, 1], color=LIGHT["edge"], linewidth=1.2, linestyle=(0, (1, 2.5)))
        for i, curve in enumerate(shown[name][:2]):
            x, y = _steps(curve, floor)
            colour, weight = (LIGHT["warm"], 1.3) if i else (LIGHT["accent"], 2.2)
            axes.plot(x, y, color=colour, linewidth=weight, zorder=2.5 - i / 2)
        first = round(math.log10(floor))
        up = [(10.0**p, _word(p)) for p in range(first, 1)]
        # The corner has one word, and on a phone every other one has room.
        every = 2 if width == NARROW and len(up) > 3 else 1
        across = [(10.0**p, "" if p == first or p % every else _word(p)) for p in range(first, 1)]
        return across, up

    return panels(width, list(shown), panel, "false positive rate")


def _word(power: int) -> str:
    return "1" if power == 0 else f"10{superscript(power)}"


def _steps(curve: RocCurve, floor: float) -> tuple[list[float], list[float]]:
    """Corners of the step line: between two rates the smaller one's rule is the best there is."""
    x, y = [], []
    for i, (fpr, tpr) in enumerate(zip(curve.fpr, curve.tpr, strict=True)):
        if tpr < floor:
            continue
        if i and y:
            x.append(fpr)
            y.append(y[-1])
        x.append(fpr)
        y.append(tpr)
    return x, y

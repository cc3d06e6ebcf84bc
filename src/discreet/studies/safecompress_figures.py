"""The compression study's figures: accuracy against leak, and how both change with density."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from discreet.report.drawing import Figure
from discreet.report.palette import LIGHT
from discreet.studies.compression_tasks import TASKS
from discreet.studies.panels import name_axes, panels
from discreet.studies.safecompress_plan import SIX

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from discreet.studies.safecompress import Cell, SafeStudy

__all__ = ["figures"]

_KINDS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "big network": ("*", "ink", ("dense",)),
    "few bits": ("x", "edge", ("2 bits", "1 bit")),
    "the paper's baselines": ("s", "edge", ("Pr", "KD", "MIA-Pr")),
    "sparse from the start": ("o", "accent", ("static", "SET", "RigL")),
    "SafeCompress and other picks": ("D", "warm", ("SafeCompress", "pick", "long", "growth", "white-box")),
}
"""Mark, colour and how the names of the rows begin."""
_NAMED = ("dense", "dense, stopped early", "Pr", "KD-DMP", "SET", "SafeCompress", "static mask, DP-SGD")


def figures(study: SafeStudy) -> Iterator[Figure]:
    """``methods``: every method, one panel a task. ``ladder``: leak by density."""
    own = {
        task: [
            cell
            for cell in study.cells
            if (cell.row.task, cell.row.runs) == (task, runs) and not cell.row.large
        ]
        for task, runs in study.scale.tasks.items()
    }
    first = [
        here
        for task, cells in own.items()
        if (here := [cell for cell in cells if cell.row.density == TASKS[task].densities[0]])
    ]
    if first:
        yield panels(
            "methods",
            "Accuracy against leak",
            "One mark a method at the task's first density, with 95 % intervals over runs: task accuracy upwards,"
            " accuracy of the strongest attack to the right (1/2: no leak). Better is up and left.",
            first,
            _methods,
            heading=lambda cells: f"{TASKS[cells[0].row.task].title}, density {cells[0].row.density:g}",
            columns=2,
            height=330,
        )
    ladders = [cells for cells in own.values() if len({cell.row.density for cell in cells}) > 1]
    if ladders:
        yield panels(
            "ladder",
            "Leak by density",
            "Accuracy of the strongest attack by the share of weights kept, with 95 % intervals over runs.",
            ladders,
            _ladder,
            heading=lambda cells: TASKS[cells[0].row.task].title,
            columns=2,
            height=260,
        )


def _methods(axes: Axes, cells: Sequence[Cell]) -> None:
    for kind, (mark, colour, beginnings) in _KINDS.items():
        style: dict[str, Any] = {"color": LIGHT[colour]}
        here = [cell for cell in cells if cell.row.name.startswith(beginnings)]
        for cell in here:
            task, mia = cell.found["task"], cell.found["mia"]
            axes.plot([mia["low"], mia["high"]], [task["value"]] * 2, linewidth=0.6, alpha=0.35, **style)
            axes.plot([mia["value"]] * 2, [task["low"], task["high"]], linewidth=0.6, alpha=0.35, **style)
            if cell.row.name in _NAMED:
                place = (mia["value"], task["value"])
                axes.annotate(cell.row.name, place, (4, 3), textcoords="offset points", fontsize=7)
        axes.plot(
            [cell.found["mia"]["value"] for cell in here],
            [cell.found["task"]["value"] for cell in here],
            mark,
            markersize=4,
            label=kind,
            **style,
        )
    axes.axvline(0.5, color=LIGHT["ink"], linewidth=0.8, linestyle=":")
    found = [cell.found for cell in cells]
    wide = [
        max(0.4, min(f["mia"]["value"] for f in found) - 0.03),
        max(f["mia"]["value"] for f in found) + 0.06,
    ]
    high = [min(f["task"]["value"] for f in found) - 0.05, max(f["task"]["value"] for f in found) + 0.05]
    axes.set(xlim=wide, ylim=high)
    axes.legend(fontsize=6.5, frameon=False, loc="lower right")
    name_axes(axes, "MIA Acc of the strongest attack", "Task Acc")


def _ladder(axes: Axes, cells: Sequence[Cell]) -> None:
    densities = sorted({cell.row.density for cell in cells})
    for at, name in enumerate(SIX):
        here = sorted((cell for cell in cells if cell.row.name == name), key=lambda cell: cell.row.density)
        places = [densities.index(cell.row.density) + 0.06 * (at - 2.5) for cell in here]
        colour = LIGHT["warm" if name.startswith("Safe") else "accent" if name == "SET" else "edge"]
        for place, cell in zip(places, here, strict=True):
            mia = cell.found["mia"]
            axes.plot([place] * 2, [mia["low"], mia["high"]], color=colour, linewidth=0.7, alpha=0.5)
        values = [cell.found["mia"]["value"] for cell in here]
        axes.plot(places, values, "os^vDP"[at] + "-", color=colour, markersize=3.5, linewidth=0.9, label=name)
    axes.axhline(0.5, color=LIGHT["ink"], linewidth=0.8, linestyle=":")
    axes.set_xticks(range(len(densities)), [f"{each:g}" for each in densities])
    axes.legend(fontsize=6.5, frameon=False)
    name_axes(axes, "density", "MIA Acc of the strongest attack")

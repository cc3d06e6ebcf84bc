"""Figures of a compression: its course, what it is worth beside its controls, and how density changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._words import number
from discreet.report.drawing import NARROW, Figure, Ticks, axes_at, blank, frame
from discreet.report.palette import LIGHT
from discreet.report.panels import panels
from discreet.report.scatter import place_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Mark", "Track", "course", "ladder", "worth"]

MEASURES = ("loss on members", "task performance", "attack accuracy")


@dataclass(frozen=True)
class Track:
    """What was measured of the models that went on, epoch by epoch, in all runs.

    Attributes:
        epochs: When; masks changed just after all but the last.
        values: For each measure its mean over runs.
        low, high: The least and the greatest of the runs.
    """

    epochs: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]
    low: Mapping[str, tuple[float, ...]]
    high: Mapping[str, tuple[float, ...]]

    @classmethod
    def of(cls, points: Sequence[Mapping[str, Any]]) -> Track | None:
        """Read what SafeCompress notes; None where there is nothing, or where the test is no accuracy."""
        if not points or any(point["metric"] != "accuracy" for point in points):
            return None
        found: dict[int, list[tuple[float, float, float]]] = {}
        for point in points:
            three = (point["loss"], point["task"]["value"], point["leak"]["value"])
            found.setdefault(point["epoch"], []).append(three)
        epochs = tuple(sorted(found))
        columns: dict[str, list[tuple[float, ...]]] = {
            name: [tuple(each[at] for each in found[epoch]) for epoch in epochs]
            for at, name in enumerate(MEASURES)
        }
        return cls(
            epochs,
            {name: tuple(float(np.mean(each)) for each in column) for name, column in columns.items()},
            {name: tuple(min(each) for each in column) for name, column in columns.items()},
            {name: tuple(max(each) for each in column) for name, column in columns.items()},
        )


@dataclass(frozen=True)
class Mark:
    """A point of a figure, with its intervals.

    Attributes:
        name: Beside it.
        part: Of ``Job``: gives its shape.
        density: Share of the weights kept.
        mia, task: Attack accuracy and task performance, as estimates in plain data.
    """

    name: str
    part: str
    density: float
    mia: Mapping[str, Any]
    task: Mapping[str, Any]


def course(own: Track, random: Track | None) -> Figure:
    """Three panels over epochs (after Figure 3 of Zhu et al., "Safety and Performance, Why not Both?")."""
    last = "; ".join(
        f"{name} from {number(own.values[name][0])} to {number(own.values[name][-1])}" for name in MEASURES
    )
    return Figure(
        "course",
        "The course of the training",
        f"Loss, task performance and attack accuracy over epochs, with a mark at each update of the masks. {last}.",
        lambda width: _course(own, random, width),
    )


def worth(marks: Sequence[Mark]) -> Figure:
    """Task performance against attack accuracy; up and to the left is better."""
    listed = "; ".join(
        f"{mark.name}: task {number(mark.task['value'])}, attack {number(mark.mia['value'])}"
        for mark in marks
    )
    return Figure(
        "worth",
        "Task performance against what an attack gets",
        f"One point per method, task performance over attack accuracy, with intervals. {listed}.",
        lambda width: _worth(marks, width),
    )


def ladder(marks: Sequence[Mark]) -> Figure:
    """Attack accuracy and task performance over density."""
    listed = "; ".join(
        f"density {mark.density:g}: task {number(mark.task['value'])}, attack {number(mark.mia['value'])}"
        for mark in marks
    )
    return Figure(
        "ladder",
        "The density ladder",
        f"Task performance and attack accuracy over the share of weights kept. {listed}.",
        lambda width: _ladder(marks, width),
    )


def _course(own: Track, random: Track | None, width: int):
    def panel(axes: Axes, name: str) -> tuple[Ticks, Ticks]:
        if random is not None:
            axes.plot(random.epochs, random.values[name], color=LIGHT["edge"], linewidth=1.2)
        axes.fill_between(own.epochs, own.low[name], own.high[name], color=LIGHT["accent-soft"], linewidth=0)
        axes.plot(own.epochs, own.values[name], color=LIGHT["accent"], linewidth=1.8)
        shown = [own, *([random] if random is not None else [])]
        ends = [end for each in shown for end in (*each.low[name], *each.high[name])]
        x, y = _limits(axes, (0.0, float(own.epochs[-1])), (min(ends), max(ends)), width == NARROW)
        marks = {"color": LIGHT["warm"], "linewidth": 1, "clip_on": False}
        axes.vlines(own.epochs[:-1], 0, 0.05, transform=axes.get_xaxis_transform(), **marks)
        return x, y

    return panels(width, MEASURES, panel, "epoch", own=True)


def _worth(marks: Sequence[Mark], width: int):
    narrow = width == NARROW
    canvas = blank(width, 300 if narrow else 400)
    left, right = (46, 12) if narrow else (66, 24)
    axes = axes_at(canvas, left, 26, width - left - right, 300 - 74 if narrow else 400 - 84)
    x = (min(0.5, *(m.mia["low"] for m in marks)), max(m.mia["high"] for m in marks))
    y = (min(m.task["low"] for m in marks), max(m.task["high"] for m in marks))
    ticks = _limits(axes, x, y, narrow, margin=True)
    title = "task performance, higher is better"
    words = "attack accuracy, lower is better; 0.5 is a coin"
    frame(axes, *ticks, title=title, x_title="attack accuracy" if narrow else words)
    lines = []
    for mark in marks:
        colour, shape, face = _look(mark)
        at, up = mark.mia["value"], mark.task["value"]
        thin = {"color": colour, "linewidth": 1.2, "alpha": 0.55, "zorder": 2}
        lines += [
            ((mark.mia["low"], up), (mark.mia["high"], up)),
            ((at, mark.task["low"]), (at, mark.task["high"])),
        ]
        for (x0, y0), (x1, y1) in lines[-2:]:
            axes.plot([x0, x1], [y0, y1], **thin)
        axes.plot(
            at, up, shape, markersize=8, color=colour, markerfacecolor=face, markeredgewidth=2, zorder=3
        )
    names = [str(number) for number in range(1, len(marks) + 1)] if narrow else [mark.name for mark in marks]
    place_names(axes, [(mark.mia["value"], mark.task["value"]) for mark in marks], names, lines)
    return canvas


def _ladder(marks: Sequence[Mark], width: int):
    ordered = sorted(marks, key=lambda mark: mark.density)
    densities = [mark.density for mark in ordered]

    def panel(axes: Axes, name: str) -> tuple[Ticks, Ticks]:
        told = [mark.mia if name == "attack accuracy" else mark.task for mark in ordered]
        ends = [end for each in told for end in (each["low"], each["high"])]
        axes.set_xscale("log")
        _, y = _limits(
            axes, (densities[0] / 1.15, densities[-1] * 1.15), (min(ends), max(ends)), width == NARROW
        )
        for density, each in zip(densities, told, strict=True):
            thin = {"color": LIGHT["accent"], "linewidth": 1.2, "alpha": 0.55}
            axes.plot([density, density], [each["low"], each["high"]], **thin)
        values = [each["value"] for each in told]
        axes.plot(densities, values, "o-", color=LIGHT["accent"], linewidth=1.5, markersize=6, clip_on=False)
        return [(density, f"{density:g}") for density in densities], y

    return panels(width, ("task performance", "attack accuracy"), panel, "share of weights kept", own=True)


def _look(mark: Mark) -> tuple[str, str, str]:
    """Colour, shape and filling: the method is a disc, its random control a hollow one, controls are diamonds."""
    if mark.part == "method":
        return LIGHT["accent"], "o", LIGHT["accent"]
    if mark.part == "random":
        return LIGHT["accent"], "o", LIGHT["paper"]
    return LIGHT["edge"], "D", LIGHT["edge"]


def _limits(
    axes: Axes, x: tuple[float, float], y: tuple[float, float], narrow: bool, margin: bool = False
) -> tuple[Ticks, Ticks]:
    from matplotlib.ticker import MaxNLocator

    most = 3 if narrow else 5
    wide = 0.06 * (x[1] - x[0]) or 0.05 if margin else 0.0
    high = 0.08 * (y[1] - y[0]) or 0.05 * abs(y[0]) or 0.05
    axes.set_xlim(x[0] - wide, x[1] + wide)
    axes.set_ylim(y[0] - high, y[1] + high)
    across = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*x)
    along = MaxNLocator(most, steps=[1, 2, 5, 10]).tick_values(*y)
    (left, right), (low, top) = axes.get_xlim(), axes.get_ylim()
    return (
        [(tick, f"{tick:.4g}") for tick in across if left <= tick <= right],
        [(tick, f"{tick:.4g}") for tick in along if low <= tick <= top],
    )

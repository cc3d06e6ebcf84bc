"""The paper's figures 1, 2, 7, 8 and 13 from our own runs, and the map of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from discreet.baseline import BEST
from discreet.report.drawing import Figure, blank
from discreet.report.palette import LIGHT
from discreet.studies.panels import logarithmic, name_axes, panels
from discreet.studies.synthetic_found import SetFound, Synthetic
from discreet.studies.synthetic_setting import FULL, NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["figures"]


def figures(found: Synthetic) -> Iterator[Figure]:
    """All figures, to be drawn by ``report.drawing.picture``."""
    sets = found.sets
    if sets:
        yield _grid(
            "figure-1",
            "r against the MIS",
            "One panel a data set, one point a quantizer, with intervals of both (one of r that reaches 0 is drawn to"
            " a thirtieth of r); Spearman's with its interval.",
            sets,
            _scatter,
        )
        yield _grid(
            "figure-2",
            "Runs that a ranking needs",
            "Spearman correlation of the quantizers' ranking by a subset of runs with that by all: r, and the MIS.",
            sets,
            _stability,
        )
        yield _grid(
            "figure-7",
            "Loss by epoch",
            "Evaluation loss of every variant, and the training loss of full precision (dashed).",
            sets,
            _curves,
        )
        yield _grid(
            "figure-8", "The data sets", "Samples in the plane of two principal components.", sets, _points
        )
        yield _grid(
            "figure-13",
            "Which checkpoints decide",
            "Runs decided by the candidate of each rank of loss, all quantizers together (bars), and the median over"
            " runs of each quantizer's Lambda_kk (lines).",
            sets,
            _deciders,
        )
    if found.rows:
        yield Figure(
            "map",
            "Where r may be trusted",
            "Spearman correlation of r with the MIS against where the lowest loss falls.",
            lambda width: _map(found, width),
        )


def _grid(
    name: str, title: str, description: str, sets: Sequence[SetFound], draw: Callable[[Axes, SetFound], None]
) -> Figure:
    return panels(name, title, description, sets, draw, heading=lambda found: found.setting.name)


def _scatter(axes: Axes, found: SetFound) -> None:
    for name in NAMES:
        r, mis = found.ranking[name], found.security[BEST, name].mis
        if r.r is None or name == FULL:
            continue
        low, high = max(r.low or 0.0, r.r / 30), r.high or r.r
        for x, y in (([low, high], [mis.value] * 2), ([r.r] * 2, [mis.low, mis.high])):
            axes.plot(x, y, color=LIGHT["accent"], linewidth=0.8, alpha=0.45)
        axes.plot([r.r], [mis.value], "o", color=LIGHT["accent"], markersize=4)
        axes.annotate(name, (r.r, mis.value), (3, 3), textcoords="offset points", fontsize=7)
    logarithmic(axes, "x")
    axes.axvline(found.ranking.indicators[0].resolution, color=LIGHT["warm"], linewidth=0.8, linestyle=":")
    agreement = found.agreement["mean", BEST]
    told = "not defined"
    if agreement is not None:
        told = f"{agreement.value:.2f} ({agreement.low:.2f} to {agreement.high:.2f})".replace(
            "-", "\N{MINUS SIGN}"
        )
    name_axes(axes, f"r (dotted: resolution); Spearman {told}", "MIS")


def _stability(axes: Axes, found: SetFound) -> None:
    for curve, colour, name in (
        (found.stability, LIGHT["accent"], "r"),
        (found.attack_stability, LIGHT["warm"], "full discriminator"),
        (found.threshold_stability, LIGHT["edge"], "threshold"),
    ):
        if len(curve.runs) > 1:
            axes.plot(curve.runs, curve.spearman, "-o", color=colour, markersize=2.5, linewidth=1, label=name)
    axes.axhline(0.9, color=LIGHT["edge"], linewidth=0.8, linestyle=":")
    logarithmic(axes, "x")
    axes.set_xticks([2**power for power in range(2, 9) if 2**power <= axes.get_xlim()[1]])
    axes.legend(fontsize=7, frameon=False, loc="lower right")
    name_axes(axes, "runs", "Spearman with all")


def _curves(axes: Axes, found: SetFound) -> None:
    ends = []
    for name, (training, seen) in found.curves.items():
        epochs = np.arange(1, len(seen) + 1)
        full = name == FULL
        axes.plot(epochs, seen, color=LIGHT["ink" if full else "accent"], linewidth=1.4 if full else 0.8)
        ends.append((seen[-1], name))
        if full:
            axes.plot(epochs, training, "--", color=LIGHT["ink"], linewidth=1)
    logarithmic(axes, "y")
    for height, name in (min(ends), max(ends)):
        axes.annotate(
            name, (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7
        )
    axes.axhline(np.log(2), color=LIGHT["warm"], linewidth=0.8, linestyle=":")
    name_axes(axes, "epoch (dotted: a constant guess)", "loss, nats")


def _points(axes: Axes, found: SetFound) -> None:
    for label, colour in ((0, LIGHT["accent"]), (1, LIGHT["warm"])):
        here = found.points[found.labels == label]
        axes.plot(here[:, 0], here[:, 1], ".", color=colour, markersize=2)
    name_axes(axes, "first component", "second")


def _deciders(axes: Axes, found: SetFound) -> None:
    each = [found.ranking.lambda_by_rank(name) for name in NAMES if name != FULL]
    width = max(len(one.rank) for one in each)
    total = np.sum([np.pad(one.deciding, (0, width - len(one.rank))) for one in each], axis=0)
    axes.bar(np.arange(2, width + 2), total, color=LIGHT["accent-soft"], width=0.8)
    name_axes(axes, "rank of the loss; lines: Lambda_kk, right", "runs decided (bars)")
    beside = axes.twinx()
    beside.tick_params(labelsize=7, colors=LIGHT["warm"])
    for one in each:
        beside.plot(one.rank, one.median, color=LIGHT["warm"], linewidth=0.7)
    beside.set(yscale="log")
    beside.minorticks_off()
    low, high = np.log10(beside.get_ylim())
    beside.set_yticks(10.0 ** np.arange(np.ceil(low), high, max(1, (high - low) // 3)))
    beside.yaxis.set_major_formatter(lambda value, _: f"{value:.0e}")


def _map(found: Synthetic, width: int):
    board = blank(width, 420)
    axes = board.add_subplot(1, 1, 1)
    axes.tick_params(labelsize=9, colors=LIGHT["muted"])
    points = [(each.optimum, "D", each.agreement["mean", "loss threshold"]) for each in found.sets]
    for row in found.rows:
        marker = "s" if not row.setting.depth else "o" if row.setting.width < 512 else "^"
        points.append((row.optimum[0], marker, row.agreement["mean"]))
    for at, marker, each in points:
        if each is not None:
            colour = LIGHT["warm" if marker == "D" else "accent"]
            axes.plot([at] * 2, [each.low, each.high], color=colour, linewidth=0.6, alpha=0.5)
            axes.plot([at], [each.value], marker, color=colour, markersize=5)
    axes.plot([], [], "D", color=LIGHT["warm"], label="the nine data sets")
    for marker, name in (("s", "other settings: no hidden layer"), ("o", "128 units"), ("^", "512 units")):
        axes.plot([], [], marker, color=LIGHT["accent"], label=name)
    axes.axhline(0, color=LIGHT["edge"], linewidth=0.8)
    axes.set_ylim(-1.05, 1.05)
    axes.legend(fontsize=8, frameon=False, loc="lower left")
    name_axes(
        axes,
        "where the quantizers' lowest loss falls (0: first checkpoint, 1: last)",
        "Spearman of r and MIS",
    )
    board.subplots_adjust(left=0.09, right=0.98, top=0.97, bottom=0.12)
    return board

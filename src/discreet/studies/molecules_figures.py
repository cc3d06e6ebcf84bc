"""Performance against r (Figures 5 and 12) and which checkpoints decide r (Figure 13), as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from discreet._json import save
from discreet.studies.figures import board, svg
from discreet.studies.molecules import Molecules
from discreet.studies.molecules_page import SHORT
from discreet.studies.molecules_tables import metrics_of, tables
from discreet.studies.molecules_unit import FULL, VARIANTS

__all__ = ["draw"]

_NAMES = {"auroc": "AUROC", "r2": "R2", "spearman": "Spearman"}
_BITS = {"sign": 0, "ternary": 1, "uniform": 2, "full": 3}
_COLOURS = ("#a2470a", "#c98a2b", "#0b5d8c", "#566069")
_MARKS = dict(zip(VARIANTS, "*osD^v<>P", strict=True))


def draw(found: Molecules, folder: str | Path) -> tuple[Path, ...]:
    """Draw all figures that the tasks allow.

    Args:
        found: What was measured.
        folder: Where ``classification.svg``, ``regression.svg`` and ``deciding.svg`` go; it exists.

    Returns:
        The files written.
    """
    folder, written = Path(folder), []
    for kind in ("classification", "regression"):
        names = [
            n
            for n, t in found.tasks.items()
            if t.data.task == kind and any(r.task == n for r in found.measured)
        ]
        if names:
            written.append(save(folder / f"{kind}.svg", _tradeoff(found, names)))
    written.append(save(folder / "deciding.svg", _deciding(found)))
    return tuple(written)


def _colour(variant: str) -> str:
    return _COLOURS[_BITS[variant.partition("(")[0]]]


def _tradeoff(found: Molecules, names: Sequence[str]) -> bytes:
    """One column a task, one row a figure: share of the original against the mean of r over embedders."""
    cells = tables(found)
    metrics = metrics_of(found.tasks[names[0]])
    figure, axes = board(len(metrics), len(names), 3.2, 2.8)
    for row, metric in enumerate(metrics):
        for column, name in enumerate(names):
            ax = axes[row][column]
            rankings = [each.ranking for each in found.measured if each.task == name]
            floor = rankings[0].indicators[0].resolution
            for variant in VARIANTS:
                r = [one.r for ranking in rankings if (one := ranking[variant]).r]
                cell = cells[metric, name, variant]
                if not r or np.isnan(cell.share):
                    continue
                share = max(cell.share, -1.0) if metric == "r2" else cell.share
                half = [[min(share - cell.share_low, 2)], [min(cell.share_high - share, 2)]]
                ax.errorbar(
                    float(np.mean(r)),
                    share,
                    yerr=None if share == -1 else np.maximum(half, 0),
                    marker=_MARKS[variant],
                    color=_colour(variant),
                    linestyle="none",
                    elinewidth=0.8,
                    label=SHORT[variant],
                )
            ax.axvline(floor, color="#8a949e", linewidth=0.8, linestyle=":")
            ax.set_xscale("log")
            ax.set_title(name if row == 0 else "", fontsize=8)
            if np.isnan(cells[metric, name, FULL].share):
                ax.text(
                    0.5, 0.5, "the original is not above 0", transform=ax.transAxes, ha="center", fontsize=6
                )
            if column == 0:
                ax.set_ylabel(f"{_NAMES[metric]}, share of the original", fontsize=7)
            if row == len(metrics) - 1:
                ax.set_xlabel("r, mean over runs and embedders (right: safer)", fontsize=7)
    drawn = [ax for ax in (axes[0][-1], *axes.flat) if ax.get_legend_handles_labels()[1]]
    for ax in drawn[:1]:
        ax.legend(fontsize=6, loc="best", frameon=False)
    return svg(figure)


def _deciding(found: Molecules) -> bytes:
    """Lambda_kk by loss rank above, how often each tenth of the ranks decides below; up to four tasks."""
    rows = list({row.task: row for row in found.measured}.values())[:4]
    figure, axes = board(2, len(rows), 3.0, 2.3)
    for column, row in enumerate(rows):
        above, below = axes[0][column], axes[1][column]
        for at, variant in enumerate(v for v in VARIANTS if v != FULL):
            if row.ranking[variant].status != "ok":
                continue
            told = row.ranking.lambda_by_rank(variant)
            if not len(told.rank):
                continue
            above.plot(
                told.rank,
                told.median,
                color=_colour(variant),
                linewidth=0.9,
                marker=_MARKS[variant],
                markevery=max(1, len(told.rank) // 6),
                markersize=3,
                label=SHORT[variant],
            )
            tenth = np.minimum(10 * np.arange(len(told.rank)) // len(told.rank), 9)
            share = np.bincount(tenth, weights=told.deciding, minlength=10) / max(told.runs, 1)
            below.bar(np.arange(10) + (at - 3.5) * 0.1, share, width=0.1, color=_colour(variant))
        above.set_yscale("log")
        above.set_title(f"{row.task}\n{row.embedder}", fontsize=8)
        below.set_xticks([0, 9], ["lowest tenth", "highest"], fontsize=6)
        if column == 0:
            above.set_ylabel("Λ of the candidate, median over runs", fontsize=7)
            below.set_ylabel("share of runs it decides", fontsize=7)
        above.set_xlabel("rank of its loss", fontsize=7)
        below.set_xlabel("rank of the deciding candidate", fontsize=7)
    axes[1][0].legend(*axes[0][0].get_legend_handles_labels(), fontsize=6, loc="upper right", frameon=False)
    return svg(figure)

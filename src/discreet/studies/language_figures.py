"""Figures 3, 4, 9, 10 and 11 of the study of language models, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discreet._json import save
from discreet._types import Float
from discreet.studies.averaged import mean_interval
from discreet.studies.figures import board, svg
from discreet.studies.language_claims import cleaned
from discreet.studies.language_found import ATTACKS, FIGURE_11, FULL, METRICS, REFERENCES, Found
from discreet.studies.language_page import training_curve

__all__ = ["draw"]

_COLOURS = {"bnb": "#566069", "gptq": "#0b5d8c", "hqq": "#a2470a", "full": "#111111"}
_MARKS = {"1": "*", "2": "o", "3": "s", "4": "D", "8": "^"}
_MORE_MARKS = "vPXphd<>"
_WORDS = {"auc": "AUC", "average precision": "average precision"}


def draw(found: Found, folder: str | Path) -> tuple[Path, ...]:
    """Draw ``best.svg`` (Figures 3 and 10), ``lira.svg`` (4), ``training.svg`` (9) and ``correlations.svg`` (11).

    Args:
        found: What was found.
        folder: Where they go; it exists.

    Returns:
        The files written.
    """
    drawn = {"best": _best, "lira": _lira, "training": _training, "correlations": _correlations}
    return tuple(save(Path(folder) / f"{name}.svg", svg(of(found))) for name, of in drawn.items())


def _looks(variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour and mark of each variant, no two alike: by library and bits; empty marks for adapters on top."""
    looks: dict[str, dict[str, Any]] = {}
    taken: set[tuple[str, ...]] = set()
    for variant in variants:
        name, _, rest = variant.removeprefix("adapter over ").partition("(")
        bits = rest.partition("bits=")[2][:1] or name[-1]
        colour = next((c for key, c in _COLOURS.items() if name.startswith(key)), "#7a5195")
        fill = "none" if variant.startswith("adapter over ") else colour
        marks = [_MARKS.get(bits, _MORE_MARKS[0]), *_MORE_MARKS]
        mark = next((each for each in marks if (colour, fill, each) not in taken), marks[0])
        taken.add((colour, fill, mark))
        looks[variant] = {"color": colour, "marker": mark, "markerfacecolor": fill}
    return looks


def _best(found: Found) -> Any:
    """What the best attack finds against r, one box a metric; full precision is a line."""
    (figure, axes), looks = board(2, 4), _looks(found.compressed)
    for ax, metric in zip(axes.flat, METRICS, strict=True):
        for variant in found.compressed:
            row = found.ranking[variant]
            value = found.figures[found.best(variant, metric), variant, metric]
            if row.r:
                low = max(row.low or 0.0, row.r / 10)  # an interval that reaches 0 has no end on this axis
                ax.errorbar(
                    row.r,
                    value.value,
                    xerr=[[row.r - low], [(row.high or row.r) - row.r]],
                    yerr=[[value.value - value.low], [value.high - value.value]],
                    ls="none",
                    elinewidth=0.7,
                    label=cleaned(variant),
                    **looks[variant],
                )
        full = found.figures[found.best(FULL, metric), FULL, metric]
        ax.axhspan(full.low, full.high, color=_COLOURS["full"], alpha=0.08, linewidth=0)
        ax.axhline(full.value, color=_COLOURS["full"], linewidth=0.8, linestyle="--", label="full precision")
        ax.axvline(found.ranking.indicators[0].resolution, color="#8a949e", linewidth=0.8, linestyle=":")
        ax.set_xscale("log")
        ax.set_title(_WORDS.get(metric, metric.replace("tpr@", "TPR at FPR ")), fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("r (right: safer; dotted: resolution)", fontsize=7)
    axes[0][-1].legend(fontsize=5, loc="center left", bbox_to_anchor=(1.0, 0.0), frameon=False)
    if left := [cleaned(variant) for variant in found.compressed if not found.ranking[variant].r]:
        figure.suptitle(f"not drawn, r is 0 or none: {', '.join(left)}", fontsize=7)
    return figure


def _lira(found: Found) -> Any:
    """TPR against FPR of offline LiRA, one line a variant: the mean over runs, with its 95 % t interval."""
    attack = next(a for a in REFERENCES if a.startswith("lira"))
    figure, axes = board(1, 1, 4.6, 3.6)
    ax, grid, looks = axes[0][0], np.geomspace(1e-3, 1, 200), _looks(found.variants)
    for place, variant in enumerate(found.variants):
        e = found.exposures[attack, variant]
        curves = [
            _curve(score[keep & member], score[keep & ~member], grid)
            for score, member, keep in zip(e.scores, e.member, e.keep, strict=True)
        ]
        style = {**looks[variant], "linestyle": "--" if variant == FULL else "-", "markersize": 3}
        style["markevery"] = (2 * place, 25)
        mean, low, high = np.array([mean_interval(each) for each in np.array(curves).T]).T
        ax.plot(grid, mean, linewidth=1.0, label=cleaned(variant), **style)
        ax.fill_between(
            grid, np.maximum(low, 0), np.minimum(high, 1), color=style["color"], alpha=0.08, linewidth=0
        )
    ax.plot(grid, grid, color="#8a949e", linewidth=0.8, linestyle=":")
    ax.set(
        xscale="log", yscale="log", ylim=(1e-3, 1), xlabel="false positive rate", ylabel="true positive rate"
    )
    ax.legend(fontsize=5, frameon=False)
    return figure


def _curve(
    members: Float[np.ndarray, " member"],
    others: Float[np.ndarray, " other"],
    fprs: Float[np.ndarray, " fpr"],
) -> Float[np.ndarray, " fpr"]:
    """TPR of the lowest threshold that at most so large a share of the others lies above; ties lie on it."""
    allowed = np.floor(fprs * len(others)).astype(int)
    bound = np.append(np.sort(others)[::-1], -np.inf)[allowed]
    return 1 - np.searchsorted(np.sort(members), bound, "right") / len(members)


def _training(found: Found) -> Any:
    """Mean loss along fine-tuning, in full precision, with 95 % t intervals over models."""
    figure, axes = board(1, 1, 4.6, 3.0)
    ax, curve = axes[0][0], training_curve(found)
    steps, told = [step for step, _ in curve], np.array([each for _, each in curve])
    names = ("texts it was fine-tuned on", "other texts of the pool", "evaluation texts")
    for column, name in enumerate(names):
        mean, low, high = told[:, column].T
        (line,) = ax.plot(steps, mean, linewidth=1.2, marker="o", markersize=3, label=name)
        ax.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set(xlabel="step", ylabel="loss, nats a token")
    ax.legend(fontsize=7, frameon=False)
    return figure


def _correlations(found: Found) -> Any:
    """Spearman correlation of r with each attack, with its interval, one box a metric."""
    figure, axes = board(1, len(FIGURE_11), 2.6, 3.0)
    attacks = ("best", *found.attacks)
    for ax, metric in zip(axes[0], FIGURE_11, strict=True):
        for place, attack in enumerate(attacks):
            told = found.agreements[attack, metric]
            if told is not None:
                error = [[told.value - told.low], [told.high - told.value]]
                colour = _COLOURS["hqq"] if attack in REFERENCES else _COLOURS["gptq"]
                ax.errorbar(
                    told.value, place, xerr=error, marker="o", markersize=4, color=colour, elinewidth=0.8
                )
        ax.axvline(0, color="#8a949e", linewidth=0.8, linestyle=":")
        ax.set(xlim=(-1.05, 1.05), ylim=(len(attacks) - 0.5, -0.5))
        ax.set_yticks(
            range(len(attacks)), [ATTACKS.get(a, "best attack") for a in attacks] if ax is axes[0][0] else []
        )
        ax.set_title(_WORDS.get(metric, metric.replace("tpr@", "TPR at FPR ")), fontsize=8)
    return figure

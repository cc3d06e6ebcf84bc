"""Performance against privacy with the Pareto front (after Figure 5 of the indicator's paper)."""

from __future__ import annotations

from collections.abc import Sequence

from discreet._words import heading, interval, listing, number, percent, whole
from discreet.audit import Performance
from discreet.report.drawing import Figure
from discreet.report.markup import Markup, join
from discreet.report.scatter import Point, key_of_ranks, scatter
from discreet.report.table import code, figure_block, table
from discreet.report.view import Section, View

__all__ = ["pareto", "performance"]

MOST_METRICS = 3
_SMALL_IS_GOOD = ("loss", "mse", "rmse", "mae", "error", "brier", "perplexity", "nll", "logloss")


def performance(view: View) -> Section | None:
    """The section that answers: what does privacy cost?"""
    metrics = list(dict.fromkeys(row.metric for row in view.analysis.performance))
    if not metrics:
        return None
    parts, figures = [], []
    for i, metric in enumerate(metrics):
        rows = [row for row in view.analysis.performance if row.metric == metric]
        rows.sort(key=lambda row: list(view.rows).index(row.variant))
        data = _table(view, metric, rows)
        points = _points(view, rows)
        if i < MOST_METRICS and len(points) > 1:
            figure = _figure(view, metric, rows, points, i)
            figures.append(figure)
            parts.append(
                figure_block(view, figure, _caption(view, metric, rows), data, key_of_ranks(view, points))
            )
        else:
            parts.append(data)
    return Section("performance", "Performance against privacy", join(*parts), tuple(figures))


def pareto(view: View, rows: Sequence[Performance]) -> list[str]:
    """The variants on the front: no other one has both a larger r and a better performance (by estimates).

    Ties count as better only where the other figure is better. Variants whose r says little are not on it.
    """
    at = {row.variant: (view.rows[row.variant].r, _good(row)) for row in rows}
    ranked = {name: (r, good) for name, (r, good) in at.items() if r is not None and not view.doubt(name)}
    return [
        name
        for name, (r, good) in ranked.items()
        if not any(o[0] >= r and o[1] >= good and o != (r, good) for o in ranked.values())
    ]


def _good(row: Performance) -> float:
    """Performance so that more is better."""
    return -row.value if _small_is_good(row.metric) else row.value


def _small_is_good(metric: str) -> bool:
    return any(word in metric.lower() for word in _SMALL_IS_GOOD)


def _shares(rows: Sequence[Performance]) -> bool:
    return all(row.share_of_full is not None for row in rows)


def _points(view: View, rows: Sequence[Performance]) -> list[Point]:
    share = _shares(rows)
    return [
        Point(row.variant, row.share_of_full, row.share_low, row.share_high)
        if share and row.share_of_full is not None
        else Point(row.variant, row.value, row.low, row.high)
        for row in rows
        if view.rows[row.variant].rank is not None
    ]


def _figure(view: View, metric: str, rows: Sequence[Performance], points: list[Point], i: int) -> Figure:
    name = heading(metric)
    front = pareto(view, rows)
    y_label = f"{name}, share of the uncompressed model's" if _shares(rows) else name
    write = percent if _shares(rows) else number
    listed = "; ".join(
        f"{view.names[p.variant]}: r {number(view.rows[p.variant].r)}, {write(p.y)}" for p in points[:20]
    )
    return Figure(
        "performance" if i == 0 else f"performance-{i + 1}",
        f"{name} against r",
        f"{y_label} over the indicator r, one point per variant. {listed}.",
        lambda width: scatter(view, points, width, y_label, _tick(rows), front),
    )


def _tick(rows: Sequence[Performance]):
    return (lambda value: f"{100 * value:.4g}\u00a0%") if _shares(rows) else number


def _caption(view: View, metric: str, rows: Sequence[Performance]) -> Markup:
    front = [view.names[name] for name in pareto(view, rows)]
    good = "down" if _small_is_good(metric) and not _shares(rows) else "up"
    doubted = any(view.doubt(row.variant) for row in rows)
    hollow = any(view.rows[row.variant].is_below_resolution for row in rows)
    return join(
        f"To the right is harder to attack by the indicator, {good} is more accurate. ",
        f"The dashed front joins the estimates that no other beats in both: {listing(front, 6)}. "
        if front
        else "",
        "Hollow points lie below the resolution: their r cannot be told from 0. " if hollow else "",
        "A cross marks an r that says little; it is left off the front. " if doubted else "",
        "The front is drawn through estimates: where two variants are not told apart, it does not choose."
        if front
        else "No front is drawn.",
    )


def _table(view: View, metric: str, rows: Sequence[Performance]) -> Markup:
    front = set(pareto(view, rows))
    name = heading(metric)
    head = (
        "Variant",
        name,
        f"{view.level} interval",
        "Share of full",
        "Interval of share",
        "n",
        "r",
        "On the front",
    )
    cells = [
        (
            code(view.names[row.variant]),
            number(row.value),
            interval(row.low, row.high),
            percent(row.share_of_full),
            interval(row.share_low, row.share_high, percent),
            whole(row.n),
            number(view.rows[row.variant].r),
            "yes" if row.variant in front else "no",
        )
        for row in rows
    ]
    return table(f"{name} and r, {view.analysis.name}", head, cells, text=(0, 7))

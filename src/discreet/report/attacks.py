"""The cross-check: what real attacks achieve on each variant, beside r."""

from __future__ import annotations

from collections.abc import Sequence

from discreet._words import heading, interval, label, number, whole
from discreet.audit import Attack
from discreet.report.against import against
from discreet.report.drawing import Figure
from discreet.report.markup import Markup, join
from discreet.report.scatter import Point, key_of_ranks, scatter
from discreet.report.table import code, figure_block, table
from discreet.report.view import Section, View

__all__ = ["attacks"]

MOST_FIGURES = 4


def attacks(view: View) -> Section | None:
    """The section that answers: do attacks agree with r?"""
    rows = view.analysis.attacks
    if not rows and not view.analysis.agreement:
        return None
    kinds = list(dict.fromkeys((row.attack, row.metric) for row in rows))
    if len(kinds) > MOST_FIGURES:
        return _many(view)
    parts: list[Markup] = []
    figures: list[Figure] = []
    for i, kind in enumerate(kinds):
        found = {row.variant: row for row in rows if (row.attack, row.metric) == kind}
        shown = [found[name] for name in view.in_order(found)]
        points = [
            Point(r.variant, r.value, r.low, r.high) for r in shown if view.rows[r.variant].rank is not None
        ]
        data = _table(view, shown)
        if i < MOST_FIGURES and len(points) > 1:
            figure = _figure(view, shown[0], points, i)
            figures.append(figure)
            parts.append(figure_block(view, figure, _caption(shown[0]), data, key_of_ranks(view, points)))
        else:
            parts.append(data)
    return Section("attacks", "Cross-check by attack", join(*parts, _agreement(view)), tuple(figures))


def _many(view: View) -> Section:
    """With many figures: a panel for each attack; every other figure is in the table of what attacks find."""
    kinds = dict.fromkeys(row.metric for row in view.analysis.attacks)
    metric = "auc" if "auc" in kinds else next(iter(kinds))
    block, figure = against(view, metric)
    return Section(
        "attacks",
        "Cross-check by attack",
        join(block, _agreement(view)),
        () if figure is None else (figure,),
    )


def _name(row: Attack) -> str:
    return f"{heading(row.metric)} of the {label(row.attack, 24)} attack"


def _figure(view: View, row: Attack, points: Sequence[Point], i: int) -> Figure:
    listed = "; ".join(
        f"{view.names[p.variant]}: r {number(view.rows[p.variant].r)}, {number(p.y)} ({interval(p.low, p.high)})"
        for p in points[:20]
    )
    return Figure(
        "attack" if i == 0 else f"attack-{i + 1}",
        f"{_name(row)} against r",
        f"{_name(row)} over the indicator r, one point per variant. {listed}.",
        lambda width: scatter(view, points, width, _name(row), lambda value: f"{value:.4g}"),
    )


def _caption(row: Attack) -> str:
    guess = "0.5 is guessing. " if row.metric == "auc" else ""
    return (
        f"Higher means that the attack finds more of the members. {guess}If r and the attack agree, points fall from "
        "the upper left to the lower right. An attack that fails proves nothing: a stronger one may succeed."
    )


def _table(view: View, shown: Sequence[Attack]) -> Markup:
    head = (
        "Variant",
        _name(shown[0]),
        f"{view.level} interval",
        "Members",
        "Non-members",
        "Runs",
        "r",
        "Rule",
    )
    rows = [
        (
            code(view.names[row.variant]),
            number(row.value),
            interval(row.low, row.high),
            whole(row.members),
            whole(row.nonmembers),
            whole(row.runs),
            number(view.rows[row.variant].r),
            label(row.rule or "–", 60),
        )
        for row in shown
    ]
    return table(f"{_name(shown[0])}, {view.analysis.name}", head, rows, text=(0, 7))


def _agreement(view: View) -> Markup | None:
    rows = [
        (
            label(row.with_),
            number(row.spearman, 2),
            interval(row.low, row.high),
            whole(row.n),
            number(row.full_agreement, 1),
        )
        for row in view.analysis.agreement
    ]
    if not rows:
        return None
    head = ("Compared with r", "Spearman", f"{view.level} interval", "Variants", "Full agreement would be")
    return table(f"Agreement with r, {view.analysis.name}", head, rows)

"""The ranking: r with its interval, the interval of the rank, and which variants are not told apart."""

from __future__ import annotations

from collections.abc import Iterator

from discreet._words import among, interval, number, whole
from discreet.audit import Ranked
from discreet.report.drawing import Figure
from discreet.report.forest import MOST_ROWS, forest, groups
from discreet.report.markup import Markup, join, node
from discreet.report.table import code, figure_block, more, note, table
from discreet.report.view import Section, View

__all__ = ["ranking"]


def ranking(view: View) -> Section:
    """The section that answers: which variant is harder to attack, by this indicator?"""
    rows = view.analysis.ranking.ranked
    if not rows:
        body = note("No variant could be ranked; the table says why.")
        return Section("ranking", "Ranking", join(body, _main_table(view), _all_numbers(view)))
    figure = Figure(
        "ranking", "Indicator r by rank", _description(view, rows), lambda width: forest(view, width)
    )
    block = figure_block(view, figure, _caption(view, rows), _interval_table(view))
    return Section("ranking", "Ranking", join(block, _main_table(view), _all_numbers(view)), (figure,))


def _description(view: View, rows: tuple[Ranked, ...]) -> str:
    listed = "; ".join(
        f"{row.rank}: {view.names[row.variant]}, r {number(row.r)}, {interval(row.low, row.high)}"
        for row in rows[:20]
    )
    return f"Variants by rank with r and its {view.level} interval. {listed}."


def _caption(view: View, rows: tuple[Ranked, ...]) -> Markup:
    words = [
        f"Points are r, lines its {view.level} interval; a larger r means harder to attack, by this indicator. ",
        "Inside the shaded band r cannot be told from 0. ",
    ]
    if groups(view):
        words.append("A bar on the right joins neighbours of which no two are told apart. ")
    if any(row.is_reference and not view.doubt(row.variant) for row in rows):
        words.append("The diamond is the full-precision reference. ")
    if any(view.doubt(row.variant) for row in rows):
        words.append("A cross marks an r that says little; the diagnostics say why. ")
    if len(rows) > MOST_ROWS:
        words.append(f"The first {MOST_ROWS} of {len(rows)} variants are drawn. ")
    words.append("The axis is linear up to the resolution and logarithmic above it.")
    return join(*words)


def _not_apart(view: View, row: Ranked) -> str:
    """The ranks from which a variant is not told apart, as ranges."""
    if row.rank is None:
        return "–"
    table_ = view.analysis.ranking
    if len(table_.ranked) == 1:
        return "–"
    others = [o.rank for o in table_.ranked if o is not row and not table_.told_apart(row.variant, o.variant)]
    return ", ".join(_ranges([rank for rank in others if rank is not None])) or "none"


def _ranges(numbers: list[int]) -> Iterator[str]:
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            first, last = numbers[start], numbers[i - 1]
            yield (
                str(first) if first == last else f"{first}–{last}" if last > first + 1 else f"{first}, {last}"
            )
            start = i


def _main_table(view: View) -> Markup:
    head = (
        "Variant",
        "Rank",
        "r",
        f"{view.level} interval",
        "Rank interval",
        "Not told apart from",
        "n_train·r",
    )
    rows = [
        (
            join(code(view.names[row.variant]), _tag(view, row)),
            view.rank(row.variant),
            number(row.r),
            interval(row.low, row.high),
            among(row.rank_low, row.rank_high),
            _not_apart(view, row),
            number(row.n_train_r),
        )
        for row in view.rows.values()
    ]
    return table(f"Ranking of {view.analysis.name}", head, rows, text=(0, 5), show_caption=False)


def _tag(view: View, row: Ranked) -> Markup | None:
    """What keeps a variant's place from meaning much, beside its name."""
    doubt = view.doubt(row.variant)
    why = "no r" if row.checkpoints <= 1 else f"unranked: r {row.status}"
    words = why if row.rank is None else doubt
    return None if words is None else join(" ", node("span", words, class_="tag"))


def _interval_table(view: View) -> Markup:
    head = ("Variant", "r", "Low", "High", "Resolution", "Rank", "Rank low", "Rank high")
    rows = [
        (
            code(view.names[row.variant]),
            *map(number, (row.r, row.low, row.high, row.resolution)),
            *map(whole, (row.rank, row.rank_low, row.rank_high)),
        )
        for row in view.rows.values()
    ]
    return table(f"r and rank with {view.level} intervals, {view.analysis.name}", head, rows)


def _all_numbers(view: View) -> Markup:
    head = (
        "Variant", "Status", "Mean r", "Median r", "Runs", "Runs undefined", "Runs infinite",
        "Checkpoints", "Distinct candidates", "Evaluation samples", "Resolution",
    )  # fmt: skip
    rows = [
        (
            code(view.names[row.variant]),
            row.status,
            number(row.r),
            number(row.r_median),
            whole(row.runs),
            whole(row.runs_undefined),
            whole(row.runs_infinite),
            whole(row.checkpoints),
            whole(row.candidates),
            whole(row.samples),
            number(row.resolution),
        )
        for row in view.rows.values()
    ]
    return more(
        "Runs, checkpoints and samples behind each r",
        table(f"Basis of r, {view.analysis.name}", head, rows, text=(0, 1)),
    )

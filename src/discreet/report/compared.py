"""Does a variant leak less than the original? The same attack on the same rows, with an answer in words."""

from __future__ import annotations

from collections.abc import Sequence

from discreet._words import figure, interval, label, number
from discreet.audit import Paired
from discreet.report.markup import Markup, join, node
from discreet.report.table import code, note, table
from discreet.report.view import Section, View

__all__ = ["compared"]

_ANSWERS = {"less": "leaks less", "more": "leaks more", "not told apart": "not told apart"}


def compared(view: View) -> Section | None:
    """The section that answers: does compression make the model leak less?"""
    rows = view.analysis.paired
    if not rows:
        return None
    against = rows[0].against
    parts = []
    for attack in dict.fromkeys(row.attack for row in rows):
        parts.append(_table(view, attack, [row for row in rows if row.attack == attack]))
    words = note(
        "The difference is the variant's figure less that of ",
        code(view.names[against]),
        f", on the same records of the same runs, with its {view.level} interval; below 0 the variant leaks less. "
        "Not told apart does not mean equal.",
    )
    return Section("compared", "Less than the original?", join(words, *parts))


def _table(view: View, attack: str, rows: Sequence[Paired]) -> Markup:
    metrics = list(dict.fromkeys(row.metric for row in rows))
    found = {(row.variant, row.metric): row for row in rows}
    head = ["Variant"]
    for metric in metrics:
        head += [f"By {figure(metric)}", f"Difference, {view.level} interval"]
    cells = []
    for name in view.in_order(row.variant for row in rows):
        line: list[str] = [code(view.names[name])]
        for metric in metrics:
            row = found.get((name, metric))
            line += ["–", "–"] if row is None else [_answer(row), _size(row)]
        cells.append(line)
    against = view.names[rows[0].against]
    caption = f"Compared with {against}, {label(attack, 40)} attack, {view.analysis.name}"
    return table(caption, head, cells, text=(0, *range(1, len(head), 2)))


def _answer(row: Paired) -> str:
    words = _ANSWERS[row.answer]
    return words if row.answer == "not told apart" else node("strong", words, class_="apart")


def _size(row: Paired) -> str:
    return f"{_three(row.value)} ({interval(row.low, row.high, _three)})"


def _three(value: int | float | None) -> str:
    """Three decimals, as differences of shares need; two digits of what they would hide."""
    shown = number(value) if value is None else f"{value:.3f}".replace("-", "−")
    return number(value, 2) if value and not shown.strip("−0.") else shown

"""What attacks find: curves, rates against size, and every figure as a table."""

from __future__ import annotations

from collections.abc import Iterator

from discreet._words import figure, interval, label, number, whole
from discreet.audit import Attack
from discreet.report.bits import bits
from discreet.report.drawing import Figure
from discreet.report.markup import Markup, join
from discreet.report.roc import roc
from discreet.report.table import code, more, note, table
from discreet.report.view import Section, View

__all__ = ["leaks"]


def leaks(view: View) -> Section | None:
    """The section that answers: how many members does an attacker find who must hardly ever be wrong?"""
    shown = [found for part in (roc, bits) if (found := part(view)) is not None]
    if not shown:
        return None
    figures: list[Figure] = [figure for _, figure in shown]
    parts: list[Markup] = [block for block, _ in shown]
    alone = all(row.runs == 1 for row in view.analysis.attacks)
    how = (
        "the one run blind, and had no other"
        if alone
        else "each run blind, with the other runs as its own models"
    )
    words = note(
        f"Every attack judged {how}. The strongest attack here is a floor, not a ceiling: one that is stronger still "
        "may exist."
    )
    return Section("leaks", "What attacks find", join(*parts, words, _all(view)), tuple(figures))


def _all(view: View) -> Markup:
    """Every figure of every attack: a row for each variant and attack."""
    by_name: dict[tuple[str, str], dict[str, Attack]] = {}
    for row in view.analysis.attacks:
        by_name.setdefault((row.variant, row.attack), {})[row.metric] = row
    metrics = list(dict.fromkeys(row.metric for row in view.analysis.attacks))
    order = view.in_order(variant for variant, _ in by_name)
    names = sorted(by_name, key=lambda name: order.index(name[0]))
    head = ("Variant", "Attack", *map(figure, metrics), "Members", "Non-members", "Runs")
    rows = [
        (
            code(view.names[variant]),
            label(attack, 40),
            *(_cell(by_name[variant, attack].get(metric)) for metric in metrics),
            *_counts(by_name[variant, attack]),
        )
        for variant, attack in names
    ]
    words = note(
        f"With {view.level} intervals. Balanced accuracy and advantage are of a threshold learnt on other rows. "
        "Epsilon is the least that the success of the attack proves, if every record was in or out of each run by a "
        "fair coin of its own."
    )
    shown = table(f"Figures of every attack, {view.analysis.name}", head, rows, text=(0, 1))
    return more("Every figure of every attack", shown, words, on_paper=False)


def _cell(row: Attack | None) -> str:
    if row is None:
        return "–"
    if row.more.get("resolvable") is False:
        return f"not resolvable: needs {whole(row.more.get('needs'))} non-members"
    return number(row.value) if row.high is None else f"{number(row.value)} ({interval(row.low, row.high)})"


def _counts(found: dict[str, Attack]) -> Iterator[str]:
    row = next(iter(found.values()))
    yield from (whole(row.members), whole(row.nonmembers), whole(row.runs))

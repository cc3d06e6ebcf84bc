"""The records that an attack finds most often, variant by variant."""

from __future__ import annotations

from collections.abc import Sequence

from discreet._words import label, percent, whole
from discreet._words import rate as rate_of
from discreet.audit import Exposed
from discreet.report.markup import Markup, join, node
from discreet.report.table import code, note, table
from discreet.report.view import Section, View

__all__ = ["exposed"]


def exposed(view: View) -> Section | None:
    """The section that answers: who would be found out?"""
    rows = view.analysis.exposed
    if not rows:
        return None
    rate = rate_of(rows[0].fpr)
    words = note(
        f"In how many of the runs that trained on a record the {label(rows[0].attack, 40)} attack accuses it, at a "
        f"false positive rate of {rate}; beside it, in how many of the other runs it is accused falsely. The rank is "
        "the share of a run's non-members that it outscores, the mean over the runs that trained on it. They are "
        "shown because they came out on top, which takes some luck; the file exposed.csv beside this page has every "
        "record."
    )
    parts = []
    for i, name in enumerate(view.in_order(row.variant for row in rows)):
        found = [row for row in rows if row.variant == name]
        title = node("summary", "Most exposed in ", code(view.names[name]), f", {_sum(found)}")
        parts.append(
            node("details", title, _table(view, name, found), open=i == 0, class_="screen" if i else None)
        )
    return Section("exposed", "Most exposed records", join(words, *parts))


def _sum(rows: Sequence[Exposed]) -> str:
    always = sum(row.caught == row.runs for row in rows)
    which = f"the first {len(rows)}" if always == len(rows) else f"{always} of the first {len(rows)}"
    return f"{which} found in every run that trained on them"


def _table(view: View, variant: str, rows: Sequence[Exposed]) -> Markup:
    classed = any(row.label is not None for row in rows)
    head = ["Record", *(["Class"] if classed else []), "Found in", "Accused falsely in", "Rank"]
    cells = [
        [
            label(row.sample, 40),
            *([label(row.label or "–", 20)] if classed else []),
            f"{whole(row.caught)} of {whole(row.runs)} runs",
            f"{whole(row.accused)} of {whole(row.others)}",
            percent(row.mean_rank, 2),
        ]
        for row in rows
    ]
    caption = f"Most exposed records of {view.names[variant]}, {view.analysis.name}"
    return table(caption, head, cells, text=(0, 1) if classed else (0,), show_caption=False)

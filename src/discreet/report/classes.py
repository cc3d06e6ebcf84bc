"""What an attack finds among the records of each class."""

from __future__ import annotations

from discreet._words import figure, interval, label, number, whole
from discreet.report.markup import join
from discreet.report.table import code, note, table
from discreet.report.view import Section, View

__all__ = ["classes"]


def classes(view: View) -> Section | None:
    """The section that answers: does the model give away more about some classes than about others?"""
    rows = view.analysis.classes
    if not rows:
        return None
    metrics = list(dict.fromkeys(row.metric for row in rows))
    found = {(row.variant, row.label, row.metric): row for row in rows}
    head = ["Variant", "Class"]
    for metric in metrics:
        head += [figure(metric), f"{view.level} interval"]
    cells = []
    order = view.in_order(row.variant for row in rows)
    keys = dict.fromkeys((row.variant, row.label) for row in rows)
    for variant, name in sorted(keys, key=lambda key: order.index(key[0])):
        line = [code(view.names[variant]), label(name, 24)]
        for metric in metrics:
            row = found.get((variant, name, metric))
            line += ["–", "–"] if row is None else [number(row.value), interval(row.low, row.high)]
        some = next(row for row in rows if (row.variant, row.label) == (variant, name))
        cells.append([*line, whole(some.members), whole(some.nonmembers)])
    words = note(
        f"The {label(rows[0].attack, 40)} attack, judged among the records of one class at a time, with a threshold "
        "of the class's own. Classes whose intervals lie apart are not exposed alike."
    )
    shown = table(f"By class, {view.analysis.name}", [*head, "Members", "Non-members"], cells, text=(0, 1))
    return Section("classes", "Class by class", join(words, shown))

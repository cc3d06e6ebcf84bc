"""What is doubtful about these numbers, and what to do about it."""

from __future__ import annotations

from discreet._words import label
from discreet.report.advice import advice_for
from discreet.report.markup import join, node
from discreet.report.table import code, note
from discreet.report.view import Section, View

__all__ = ["diagnostics"]

_WEIGHTS = {3: "voids", 2: "weakens", 1: "worth"}


def diagnostics(view: View) -> Section:
    """The section that answers: which numbers should not be relied on, and how can that be mended?"""
    found: dict[str, list[str]] = {}
    for row in view.rows.values():
        for name in row.diagnostics:
            found.setdefault(name, []).append(row.variant)
    if not found:
        return Section("diagnostics", "Diagnostics", note("No diagnostic was raised."))
    cards = []
    for name, variants in sorted(found.items(), key=lambda item: (-advice_for(item[0]).weight, item[0])):
        advice = advice_for(name)
        all_of_them = len(variants) == len(view.rows) > 1
        whose = "All variants" if all_of_them else join(*_between([code(view.names[v]) for v in variants]))
        cards.append(
            node(
                "li",
                node("p", node("strong", label(name, 60)), node("span", _words(advice.weight), class_="tag")),
                node("p", whose, class_="whose"),
                node("p", advice.meaning),
                node("p", node("b", "What to do: "), advice.remedy),
                class_=_WEIGHTS[advice.weight],
            )
        )
    return Section("diagnostics", "Diagnostics", node("ul", *cards, class_="cards"))


def _words(weight: int) -> str:
    return {3: "says little", 2: "read with care", 1: "good to know"}[weight]


def _between(items: list) -> list:
    return [part for item in items for part in (item, ", ")][:-1]

"""A split that can be told without a model: a banner on top, and a mark on every figure of an attack."""

from __future__ import annotations

from dataclasses import replace

from discreet.report.markup import Markup, join, node
from discreet.report.view import Section, View
from discreet.summary import confounding

__all__ = ["confounded", "marked"]

_OF_ATTACKS = ("leaks", "compared", "attacks", "exposed", "classes")


def confounded(view: View, said: str) -> Markup | None:
    """The banner; None where the split is not known to be confounded, or the page's first sentence says it."""
    if view.blind is None or not view.confounded or said == confounding(view.blind):
        return None
    return node("p", node("strong", confounding(view.blind)), class_="voided", role="note")


def marked(view: View, section: Section) -> Section:
    """The section, marked if it shows what attacks found on a confounded split."""
    if not view.confounded or section.name not in _OF_ATTACKS:
        return section
    why = "Members and non-members can be told apart without any model, and so these figures can be had without one."
    words = node("p", node("strong", "Not evidence of a leak. "), why, class_="voided", role="note")
    title = f"{section.title} (not evidence of a leak)"
    return replace(section, title=title, body=join(words, section.body))

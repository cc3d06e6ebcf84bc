"""A split that can be told without a model: a banner on top, and a mark on every figure of an attack."""

from __future__ import annotations

from dataclasses import replace

from discreet.report.markup import Markup, join, node
from discreet.report.view import Section, View
from discreet.summary import confounding

__all__ = ["confounded", "marked"]

_OF_ATTACKS = ("leaks", "compared", "attacks", "exposed", "classes")


def confounded(view: View) -> Markup | None:
    """The banner; None where the split is not known to be confounded."""
    if not view.confounded:
        return None
    return node("p", node("strong", "Confounded split: no leak claim."), class_="voided", role="note")


def marked(view: View, section: Section) -> Section:
    """The section, marked if it shows what attacks found on a confounded split."""
    if view.blind is None or not view.confounded or section.name not in _OF_ATTACKS:
        return section
    words = node(
        "p", node("strong", "Not evidence of a leak. "), confounding(view.blind), class_="voided", role="note"
    )
    title = f"{section.title} (not evidence of a leak)"
    return replace(section, title=title, body=join(words, section.body))

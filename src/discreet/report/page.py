"""The whole page: one file, no script, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from discreet._words import label, number, whole
from discreet.audit import Analysis, Audit
from discreet.report.attacks import attacks
from discreet.report.classes import classes
from discreet.report.compared import compared
from discreet.report.confounded import confounded, marked
from discreet.report.curves import curves
from discreet.report.deciding import deciding
from discreet.report.diagnostics import diagnostics
from discreet.report.document import document
from discreet.report.exposed import exposed
from discreet.report.leaks import leaks
from discreet.report.markup import Markup, join, node, prose
from discreet.report.pairs import pairs
from discreet.report.performance import performance
from discreet.report.provenance import provenance
from discreet.report.ranking import ranking
from discreet.report.reading import reading
from discreet.report.stability import stability
from discreet.report.storage import storage
from discreet.report.table import long_text
from discreet.report.view import Section, View
from discreet.summary import pairs_told_apart, summarize

__all__ = ["page", "sections", "views"]

_PARTS = (
    ranking,
    performance,
    leaks,
    compared,
    attacks,
    exposed,
    classes,
    curves,
    deciding,
    stability,
    pairs,
    storage,
    diagnostics,
)


def page(audit: Audit, built: Sequence[tuple[View, Sequence[Section]]]) -> str:
    """Put the sections of every analysis on one page.

    Args:
        audit: what is reported.
        built: the audit's :func:`views`, each with its :func:`sections`.
    """
    (view, first), *others = built
    words = _in_words(_said(audit, view)[1:], (view.analysis.note, *audit.notes))
    first = [replace(first[0], body=join(first[0].body, node("h3", "In plain words"), words)), *first[1:]]
    shown = [_section(section, section.name) for section in first]
    later = [_analysis(other, parts) for other, parts in others]
    if later:
        intro = node(
            "p", "The same measurements under other settings. Their order need not agree with the one above."
        )
        paper = node(
            "p", "On paper only their rankings are shown; the page has the rest.", class_="paper note"
        )
        shown.append(_section(Section("analyses", "Other analyses", join(intro, paper, *later)), "analyses"))
    shown += [_section(section, section.name) for section in (provenance(audit), reading())]
    names = [(s.name, s.title) for s in first] + [("analyses", "Other analyses")] * bool(later)
    names += [("provenance", "Provenance"), ("reading", "How to read this")]
    body = node("body", _head(audit, view), _contents(names), node("main", *shown), _foot(audit))
    return document(label(audit.title, 100), body)


def views(audit: Audit) -> list[View]:
    """The analyses as the page shows them, each with its own prefix for ids."""
    return [View(analysis, f"a{i}", audit.blind) for i, analysis in enumerate(audit.analyses, 1)]


def sections(view: View) -> list[Section]:
    """The parts of one analysis that have something to show, in the page's order."""
    return [marked(view, section) for part in _PARTS if (section := part(view)) is not None]


def _head(audit: Audit, view: View) -> Markup:
    return node(
        "header",
        node(
            "div",
            node("h1", label(audit.title, 160)),
            node("p", "Privacy audit of compressed models"),
            class_="title",
        ),
        confounded(view, _said(audit, view)[0]),
        node("p", prose(_said(audit, view)[0]), class_="lead"),
        _facts(view.analysis),
    )


def _said(audit: Audit, view: View) -> tuple[str, ...]:
    return audit.summary or summarize(view.analysis, audit.blind)


def _in_words(said: Sequence[str], notes: Sequence[str]) -> Markup:
    """The summary after its first sentence, and the notes."""
    items = [node("li", prose(sentence)) for sentence in said]
    shown = [long_text(text) for text in notes if text]
    return join(node("ul", *items, class_="summary") if items else None, *shown)


def _facts(analysis: Analysis) -> Markup:
    rows = analysis.ranking.variants
    apart, all_pairs = pairs_told_apart(analysis)
    ranked = len(analysis.ranking.ranked)
    resolutions = [row.resolution for row in rows if row.resolution is not None]
    facts = (
        ("Variants ranked", whole(ranked) if ranked == len(rows) else f"{ranked} of {len(rows)}"),
        ("Pairs told apart", f"{whole(apart)} of {whole(all_pairs)}" if all_pairs else "–"),
        ("Training runs", whole(max(row.runs for row in rows))),
        ("Evaluation samples", whole(max(row.samples for row in rows))),
        ("Resolution of r", number(max(resolutions, default=None))),
    )
    return node(
        "dl", *(node("div", node("dt", name), node("dd", value)) for name, value in facts), class_="facts"
    )


def _contents(names: Sequence[tuple[str, str]]) -> Markup:
    items = [node("li", node("a", title, href=f"#{name}")) for name, title in names]
    return node("nav", node("ul", *items), aria_label="Contents")


def _section(section: Section, ident: str) -> Markup:
    return node("section", node("h2", section.title, id=f"{ident}-heading"), section.body, id=ident,
                aria_labelledby=f"{ident}-heading")  # fmt: skip


def _analysis(view: View, parts: Sequence[Section]) -> Markup:
    """Another analysis, folded; its parts one heading lower."""
    analysis = view.analysis
    inner = [node("section", node("h4", part.title), part.body) for part in parts]
    title = node("summary", node("h3", label(analysis.name, 80)))
    words = _in_words(summarize(analysis, view.blind), (analysis.note,))
    return node("details", title, words, *inner, class_="analysis")


def _foot(audit: Audit) -> Markup:
    version = audit.provenance.versions.get("discreet")
    made = f"Made by discreet {label(version, 30)}" if version else "Made by discreet"
    return node(
        "footer", node("p", f"{made}. The JSON file that belongs to this page holds every number in full.")
    )

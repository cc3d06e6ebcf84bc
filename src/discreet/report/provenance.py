"""Where the numbers come from: data, versions, seeds, settings, and every shortened name in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from discreet._words import label, whole
from discreet.audit import Audit
from discreet.report.markup import Markup, join, node
from discreet.report.table import MOST_TEXT, long_text, more, table
from discreet.report.view import WIDTH, Section

__all__ = ["provenance"]


def provenance(audit: Audit) -> Section:
    """The section that answers: how do I get these numbers again?"""
    origin = audit.provenance
    parts = [
        node("p", f"Seed {origin.seed}.") if origin.seed is not None else None,
        _data(audit),
        _counts(audit),
    ]
    parts.append(_facts("Versions", origin.versions))
    parts.append(_facts("Further provenance", origin.more))
    settings = _facts("Settings", audit.settings)
    parts.append(None if settings is None else more("Settings", settings))
    parts.append(_full_names(audit))
    return Section("provenance", "Provenance", join(*parts) or node("p", "Nothing was recorded."))


def _data(audit: Audit) -> Markup | None:
    rows = [
        (label(d.name), node("span", label(d.sha256, 80), class_="hash"), _value(d.licence), _value(d.source))
        for d in audit.provenance.data
    ]
    return table("Data", ("Name", "SHA-256", "Licence", "Source"), rows, text=(0, 1, 2, 3)) if rows else None


def _counts(audit: Audit) -> Markup | None:
    rows = [(label(name, 60), whole(count)) for name, count in audit.data.counts.items()]
    return table("Records", ("What", "Count"), rows) if rows else None


def _facts(caption: str, facts: Mapping[str, Any]) -> Markup | None:
    rows = [(label(key, 60), _value(value)) for key, value in _flat(facts, "")]
    return table(caption, ("Name", "Value"), rows, text=(0, 1)) if rows else None


def _value(value: str) -> Markup:
    return node("span", value, class_="prose") if len(value) <= MOST_TEXT else long_text(value)


def _flat(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names; a list of plain values is one value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{path}.{key}" if path else key)
    elif isinstance(value, (list, tuple)) and any(isinstance(item, (Mapping, list, tuple)) for item in value):
        for i, item in enumerate(value):
            yield from _flat(item, f"{path}[{i}]")
    elif isinstance(value, (list, tuple)):
        yield path, ", ".join(_scalar(item) for item in value)
    else:
        yield path, _scalar(value)


def _scalar(value: Any) -> str:
    return (
        {True: "yes", False: "no", None: "none"}[value]
        if value is None or isinstance(value, bool)
        else str(value)
    )


def _full_names(audit: Audit) -> Markup | None:
    names = dict.fromkeys(row.variant for analysis in audit.analyses for row in analysis.ranking.variants)
    long = [name for name in names if label(name, WIDTH) != name]
    if not long:
        return None
    rows = [(label(name, WIDTH), node("span", name, class_="prose")) for name in long]
    return more(
        "Names that were shortened, in full", table("Names in full", ("Shown", "In full"), rows, text=(0, 1))
    )

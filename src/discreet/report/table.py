"""Tables that scroll inside their own region, and figures with their data as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from discreet._words import label
from discreet.report.drawing import Figure, inline
from discreet.report.markup import Markup, join, node, prose
from discreet.report.view import View

__all__ = ["code", "figure_block", "long_text", "more", "note", "table"]

MOST_TEXT = 600


def table(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    text: Sequence[int] = (0,),
    show_caption: bool = True,
) -> Markup:
    """Build a table whose first column heads its rows.

    Args:
        caption: what it holds; also the name of its scrolling region.
        head: the column heads.
        rows: cells, text or markup.
        text: columns that hold words; the others hold numbers, and are aligned as such.
        show_caption: False keeps the caption for screen readers only.
    """
    sides = [None if i in text else "number" for i in range(len(head))]
    header = node(
        "tr", *(node("th", name, scope="col", class_=side) for name, side in zip(head, sides, strict=True))
    )
    body = []
    for row in rows:
        first, *rest = zip(row, sides, strict=True)
        cells = [node("td", cell, class_=side) for cell, side in rest]
        body.append(node("tr", node("th", first[0], scope="row", class_=first[1]), *cells))
    inside = node(
        "table",
        node("caption", node("span", caption), class_=None if show_caption else "unseen"),
        node("thead", header),
        node("tbody", *body),
    )
    return node(
        "div",
        inside,
        class_="scroll" if len(head) > 3 else "scroll compact",
        role="region",
        tabindex=0,
        aria_label=f"Table: {caption}",
    )


def code(name: str) -> Markup:
    """A variant's name."""
    return node("code", name)


def note(*text: str) -> Markup:
    """A paragraph of explanation."""
    return node("p", *text, class_="note")


def long_text(text: str) -> Markup:
    """Text from a user's file: as it is, or folded if it would push everything else away."""
    if len(text) <= MOST_TEXT:
        return node("p", prose(text), class_="note")
    return node("details", node("summary", label(text, 120)), node("p", text, class_="note"), class_="long")


def more(summary: str, *body: str, on_paper: bool = True) -> Markup:
    """Something to open; on paper it is open, or left out."""
    return node("details", node("summary", summary), *body, class_=None if on_paper else "screen")


def figure_block(
    view: View, figure: Figure, caption: str | Markup, data: Markup, key: str | None = None
) -> Markup:
    """A figure, what to see in it, and its data as a table.

    Args:
        view: the analysis it belongs to.
        figure: what to draw.
        caption: one or two sentences.
        data: the table.
        key: what the phone's version needs beside it, such as the names behind its numbers.
    """
    shown = node(
        "figure",
        inline(figure, f"{view.ident}-{figure.name}"),
        None if key is None else node("p", key, class_="key"),
        node("figcaption", node("strong", figure.title + ". "), caption),
    )
    return join(shown, node("details", node("summary", "Data of this figure"), data, class_="screen"))

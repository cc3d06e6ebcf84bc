"""HTML as a tree that escapes: text is text, and only what this module built is markup."""

from __future__ import annotations

import html
import re

from discreet._words import visible

__all__ = ["Markup", "join", "node", "prose"]

_VOID = {"meta", "br", "col"}


class Markup(str):
    """Text that is HTML already. Only :func:`node`, :func:`join` and the figures make it."""

    __slots__ = ()


def node(tag: str, *children: str | None, **attributes: str | int | bool | None) -> Markup:
    """Build one element; children that are not :class:`Markup` are escaped.

    Args:
        tag: the element's name.
        children: text or markup; None is left out.
        attributes: ``class_`` for ``class``, ``aria_label`` for ``aria-label``; True writes the bare name,
            False and None leave it out.

    Example:
        >>> node("td", "<script>", class_="name")
        '<td class="name">&lt;script&gt;</td>'
    """
    written = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in _VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: str | None) -> Markup:
    """Put children side by side, each escaped unless it is markup."""
    return Markup(
        "".join(child if isinstance(child, Markup) else _escape(child) for child in children if child)
    )


def prose(text: str) -> Markup:
    """Escape a sentence and set what stands between backticks as code.

    Example:
        >>> prose("`sign` < `full`")
        '<code>sign</code> &lt; <code>full</code>'
    """
    parts = re.split(r"`([^`]*)`", text)
    return join(*(node("code", part) if i % 2 else part for i, part in enumerate(parts)))


def _attribute(name: str, value: str | int | bool | None) -> str:
    key = name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return f" {key}" if value is True else f' {key}="{_escape(str(value))}"'


def _escape(text: str) -> str:
    return html.escape("\n".join(visible(line) for line in text.split("\n")), quote=True)

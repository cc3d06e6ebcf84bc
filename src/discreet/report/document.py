"""What every page has: one file, no script, nothing from elsewhere, light and dark colours."""

from __future__ import annotations

from importlib.resources import files

from discreet.report.markup import Markup, node
from discreet.report.palette import DARK, LIGHT, css_variables

__all__ = ["document"]

# No script, no font, no image, no connection: the browser itself keeps the page to what is in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, body: Markup) -> str:
    """A whole page.

    Args:
        title: Of the browser's window.
        body: The element ``body``.
    """
    screen = f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {css_variables(DARK)} }} }}"
    style = files("discreet.report").joinpath("style.css").read_text("utf-8")
    head = node(
        "head",
        node("meta", charset="utf-8"),
        node("meta", name="viewport", content="width=device-width, initial-scale=1"),
        node("meta", name="color-scheme", content="light dark"),
        node("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        node("title", f"{title} · discreet"),
        node("style", Markup(f":root {{ {css_variables(LIGHT)} }}\n{screen}\n{style}")),
    )
    return f'<!doctype html>\n<html lang="en">\n{head}\n{body}\n</html>\n'

"""The report's colours, light and dark. Figures are drawn in the light ones and repainted by the page's CSS."""

from __future__ import annotations

__all__ = ["DARK", "LIGHT", "css_variables", "variable_of"]

LIGHT = {
    "paper": "#ffffff",
    "wash": "#f5f7f9",
    "rule": "#d7dde3",
    "faint": "#e9edf1",
    "edge": "#8a949e",
    "muted": "#566069",
    "ink": "#171c21",
    "accent": "#0b5d8c",
    "accent-soft": "#cfe2ee",
    "warm": "#a2470a",
    "warm-soft": "#f7e6da",
}
DARK = {
    "paper": "#11161b",
    "wash": "#191f26",
    "rule": "#333d47",
    "faint": "#222a32",
    "edge": "#77838e",
    "muted": "#a5b0ba",
    "ink": "#e8ecf0",
    "accent": "#74bff0",
    "accent-soft": "#1f4259",
    "warm": "#f2a56e",
    "warm-soft": "#2b221a",
}
_NAME_OF = {colour: name for name, colour in LIGHT.items()}


def css_variables(colours: dict[str, str]) -> str:
    """Write a palette as CSS custom properties."""
    return " ".join(f"--{name}: {colour};" for name, colour in colours.items())


def variable_of(colour: str) -> str:
    """Return the CSS variable that stands for a light colour, or the colour itself.

    Example:
        >>> variable_of("#171c21"), variable_of("#123456")
        ('var(--ink)', '#123456')
    """
    name = _NAME_OF.get(colour)
    return colour if name is None else f"var(--{name})"

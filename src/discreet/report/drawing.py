"""Matplotlib as a drawing board for the page: small deterministic SVG that takes its colours from CSS.

Every figure is drawn at two widths, one for phones and one for the rest, so that its letters keep their size.
A unit is one CSS pixel. Letters stay letters: they can be selected, and the page's font is used.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from discreet.report.markup import Markup, node
from discreet.report.palette import LIGHT, variable_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["NARROW", "WIDE", "Figure", "Ticks", "axes_at", "blank", "frame", "inline", "picture"]

WIDE, NARROW = 800, 328
Pixels = int | float
Ticks = Sequence[tuple[int | float, str]]
_NO_DATE = {"Date": None, "Creator": None, "Format": None, "Type": None}
_XLINK = "{http://www.w3.org/1999/xlink}href"


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn at any width.

    ``draw(width)`` returns a Matplotlib figure ``width`` pixels wide; ``description`` says in words what it
    shows, for those who cannot see it.
    """

    name: str
    title: str
    description: str
    draw: Callable[[int], Any]


def blank(width: int, height: int | float) -> Canvas:
    """An empty canvas of so many pixels."""
    from matplotlib.figure import Figure as Canvas

    return Canvas(figsize=(width / 72, height / 72))


def axes_at(canvas: Canvas, left: Pixels, top: Pixels, width: Pixels, height: Pixels) -> Axes:
    """Bare axes at a place counted in pixels from the top left corner; :func:`frame` draws what is around them."""
    full_width, full_height = canvas.get_size_inches() * 72
    box = (left / full_width, 1 - (top + height) / full_height, width / full_width, height / full_height)
    axes = canvas.add_axes(box)
    axes.set_axis_off()
    return axes


def frame(
    axes: Axes,
    x: Ticks = (),
    y: Ticks = (),
    *,
    title: str = "",
    x_title: str = "",
    y_words: bool = True,
    strong: bool = False,
) -> None:
    """Draw faint grid lines and words around axes. (Matplotlib's own ticks take ten times as long.)

    Args:
        axes: with their limits and scales set.
        x: places and words along the bottom.
        y: places and words along the left side.
        title: over the upper left corner.
        x_title: under the words of ``x``.
        y_words: False draws the lines of ``y`` alone.
        strong: whether the title names the panel, and is not just what the height is.
    """
    across, along = axes.get_xaxis_transform(), axes.get_yaxis_transform()
    wide, high = axes.bbox.width, axes.bbox.height
    faint = {"colors": LIGHT["faint"], "linewidth": 1, "zorder": 0.5, "clip_on": False}
    axes.vlines([place for place, _ in x], 0, 1, transform=across, **faint)
    axes.hlines([place for place, _ in y], 0, 1, transform=along, **faint)
    axes.hlines(
        [0], 0, 1, transform=axes.transAxes, color=LIGHT["edge"], linewidth=1, zorder=0.6, clip_on=False
    )
    muted: dict[str, Any] = {"color": LIGHT["muted"]}
    for place, word in x:
        axes.text(place, -8 / high, word, transform=across, ha="center", va="top", **muted)
    for place, word in y if y_words else ():
        axes.text(-8 / wide, place, word, transform=along, ha="right", va="center_baseline", **muted)
    if x_title:
        axes.text(
            0.5, (-29 if x else -8) / high, x_title, transform=axes.transAxes, ha="center", va="top", **muted
        )
    if title:
        colour = LIGHT["ink" if strong else "muted"]
        axes.text(0, 1 + 8 / high, title, transform=axes.transAxes, ha="left", va="baseline", color=colour)


def inline(figure: Figure, ident: str) -> Markup:
    """Draw a figure for the page, at both widths; CSS shows the one that fits.

    Args:
        figure: what to draw.
        ident: prefix of all ids within, unique on the page.
    """
    both = [
        _svg(figure, width, f"{ident}-{kind}", kind) for width, kind in ((WIDE, "wide"), (NARROW, "narrow"))
    ]
    return node("div", *both, class_="drawing")


def picture(figure: Figure, kind: str) -> bytes:
    """Draw a figure for a file, ``"svg"`` or ``"png"`` (twice the pixels), in the light colours.

    Raises:
        ValueError: for another kind.
    """
    if kind == "svg":
        root = _tree(figure, WIDE)
        root.set("xmlns", "http://www.w3.org/2000/svg")
        root.set("font-family", "system-ui, sans-serif")
        root.insert(
            0, ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": LIGHT["paper"]})
        )
        _describe(root, figure, figure.name)
        return ElementTree.tostring(root, encoding="utf-8") + b"\n"
    if kind != "png":
        raise ValueError(f'formats: expected "svg" or "png", got {kind!r}')
    with _board():
        canvas, out = figure.draw(WIDE), io.BytesIO()
        canvas.savefig(out, format="png", dpi=144, facecolor=LIGHT["paper"], metadata={"Software": None})
    return out.getvalue()


def _svg(figure: Figure, width: int, ident: str, kind: str) -> Markup:
    root = _tree(figure, width)
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set("id", f"{ident}-{value}")
            elif key == "href":
                element.set(key, f"#{ident}-{value[1:]}")
            else:
                element.set(key, re.sub(r"url\(#", f"url(#{ident}-", value))
        if "style" in element.attrib:
            element.set(
                "style", re.sub(r"#[0-9a-f]{6}", lambda m: variable_of(m.group()), element.get("style", ""))
            )
    root.set("class", kind)
    _describe(root, figure, ident)
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _describe(root: ElementTree.Element, figure: Figure, ident: str) -> None:
    for i, (tag, text) in enumerate((("title", figure.title), ("desc", figure.description))):
        element = ElementTree.Element(tag, {"id": f"{ident}-{tag}"})
        element.text = text
        root.insert(i, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{ident}-title {ident}-desc")


def _tree(figure: Figure, width: int) -> ElementTree.Element:
    """Draw, and clean what Matplotlib writes: no namespaces, no ids but those in use, two decimals."""
    with _board():
        canvas, out = figure.draw(width), io.StringIO()
        canvas.savefig(out, format="svg", transparent=True, metadata=_NO_DATE)
    root = ElementTree.fromstring(out.getvalue())
    for defs in root.findall("{*}defs"):
        if defs.find("{*}style") is not None:
            root.remove(defs)
    used = set(re.findall(r"""(?:url\(|href=["'])#([\w-]+)""", out.getvalue()))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {"href" if key == _XLINK else key: value for key, value in element.attrib.items()}
        if element.get("id") not in used:
            element.attrib.pop("id", None)
        for key in ("d", "x", "y", "transform"):
            if key in element.attrib:
                element.set(key, _short(element.attrib[key]))
        if element.tag == "text":
            element.set("style", re.sub(r"\s*font-family:[^;]*;?", "", element.get("style", "")))
        element.tail = None
        if element.tag in ("g", "defs", "svg"):
            element.text = None
    height = canvas.get_size_inches()[1] * 72
    root.attrib = {
        "viewBox": f"0 0 {width} {height:g}",
        "width": f"{width}",
        "height": f"{height:g}",
        "stroke-linejoin": "round",
        "stroke-linecap": "butt",
    }
    return root


def _short(numbers: str) -> str:
    rounded = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m.group()):.2f}".rstrip("0").rstrip("."), numbers)
    return " ".join(rounded.split())


@contextmanager
def _board() -> Iterator[None]:
    """Matplotlib's own defaults, whatever the user's settings file says, and names taken as they are."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.size": 12,
                "text.parse_math": False,
                "text.color": LIGHT["ink"],
                "svg.fonttype": "none",
                "svg.hashsalt": "discreet",
            }
        )
        yield

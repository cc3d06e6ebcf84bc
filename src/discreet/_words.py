"""Numbers, lists and names for people: three digits, commas, and names that fit on a line."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

__all__ = [
    "among",
    "figure",
    "heading",
    "interval",
    "label",
    "listing",
    "number",
    "percent",
    "rate",
    "rounded_up",
    "superscript",
    "visible",
    "whole",
]

MISSING = "–"
_ACRONYMS = {"auc", "auprc", "auroc", "f1", "mae", "mse", "nll", "rmse", "tpr", "r2"}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
# Controls, the marks that turn the writing direction round, half surrogate pairs and line separators: a name
# that holds one must not move what stands beside it.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def number(value: int | float | None, digits: int = 3) -> str:
    """Write a number with ``digits`` significant digits.

    Example:
        >>> number(0.0123456), number(1234.5), number(0.0000123), number(None), number(0.0)
        ('0.0123', '1,234', '1.23 × 10⁻⁵', '–', '0')
    """
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    power = int(exponent)
    if not -4 <= power < 7:
        factor = "" if mantissa == "1" else f"{mantissa} × "
        return f"{factor}10{superscript(power)}".replace("-", "−")
    return f"{value:,.{max(0, digits - 1 - power)}f}".replace("-", "−")


def superscript(power: int) -> str:
    """Write an exponent.

    Example:
        >>> superscript(-12)
        '⁻¹²'
    """
    return str(power).translate(_SUPERSCRIPT)


def whole(value: int | float | None) -> str:
    """Write a count with its thousands apart, or a mean count with one decimal.

    Example:
        >>> whole(12345), whole(3.25), whole(None)
        ('12,345', '3.2', '–')
    """
    if value is None:
        return MISSING
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def rounded_up(count: int) -> str:
    """Write a count that is an estimate: two digits, rounded up.

    Example:
        >>> rounded_up(61234), rounded_up(7)
        ('62,000', '7')
    """
    unit = 10 ** max(0, len(str(count)) - 2)
    return whole(math.ceil(count / unit) * unit)


def percent(share: int | float | None, digits: int = 1) -> str:
    """Write a share as a percentage.

    Example:
        >>> percent(0.973) == "97.3\\u00a0%"
        True
    """
    return MISSING if share is None else f"{100 * share:.{digits}f}\u00a0%".replace("-", "−")


def rate(share: int | float) -> str:
    """Write a rate that somebody chose as a percentage, with the digits it has.

    Example:
        >>> rate(0.01) == "1\\u00a0%", rate(0.0001) == "0.01\\u00a0%"
        (True, True)
    """
    return f"{100 * share:.6g}\u00a0%"


def interval(low: int | float | None, high: int | float | None, write=number) -> str:
    """Write an interval; an end that does not exist is a dash.

    Example:
        >>> interval(0.1, 0.25), interval(None, None)
        ('0.100 to 0.250', '–')
    """
    if low is None and high is None:
        return MISSING
    return f"{write(low)} to {write(high)}"


def among(low: int | None, high: int | None) -> str:
    """Write a range of ranks.

    Example:
        >>> among(2, 2), among(1, 4)
        ('2', '1 to 4')
    """
    if low is None or high is None:
        return MISSING
    return str(low) if low == high else f"{low} to {high}"


def visible(text: str) -> str:
    """Show what cannot be seen: line breaks as ``↵``, other controls by their code.

    Example:
        >>> visible("a\\nb\\u202ec")
        'a↵b\\\\u202ec'
    """
    return _UNSEEN.sub(_show, text)


def _show(match: re.Match[str]) -> str:
    code = ord(match.group())
    return {10: "↵", 9: " "}.get(code, f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def label(name: str, width: int = 44) -> str:
    """Shorten a name to ``width`` characters from its middle, on one line.

    Example:
        >>> label("ternary(zeros=0.9)"), label("x" * 50, 9), label("")
        ('ternary(zeros=0.9)', 'xxxxx…xxx', '(no name)')
    """
    seen = (
        visible(name[: width + 1] if len(name) <= width else name[:width] + name[-width:]).strip()
        or "(no name)"
    )
    if len(name) <= width and len(seen) <= width:
        return seen
    head = math.ceil((width - 1) * 0.6)
    return f"{seen[:head]}…{seen[len(seen) - (width - 1 - head) :]}"


def heading(name: str) -> str:
    """Write the name of a metric or signal at the start of a title: acronyms in capitals, short.

    Example:
        >>> heading("auroc"), heading("loss"), heading("tpr@0.01")
        ('AUROC', 'Loss', 'TPR@0.01')
    """
    shown = label(name, 24)
    first = re.match("[a-z0-9]*", shown).group()  # type: ignore[union-attr]
    if first in _ACRONYMS:
        return first.upper() + shown[len(first) :]
    return shown[:1].upper() + shown[1:]


def figure(metric: str) -> str:
    """Write what an attack's figure is: a rate at its false positive rate, or the metric as it is.

    Example:
        >>> figure("tpr@0.001") == "TPR at 0.1\\u00a0% FPR", figure("auc"), figure("balanced_accuracy")
        (True, 'AUC', 'Balanced accuracy')
    """
    name, _, at = metric.partition("@")
    try:
        chosen = float(at) if name == "tpr" else math.nan
    except ValueError:
        chosen = math.nan
    if math.isfinite(chosen):
        return f"TPR at {rate(chosen)} FPR"
    return "Epsilon at least" if metric == "epsilon" else heading(metric.replace("_", " "))


def listing(items: Sequence[str], limit: int = 4) -> str:
    """Write a list in words.

    Example:
        >>> listing(["a"]), listing(["a", "b", "c"]), listing(list("abcdef"), 3)
        ('a', 'a, b and c', 'a, b, c and 3 others')
    """
    if len(items) > limit + 1:
        return f"{', '.join(items[:limit])} and {len(items) - limit} others"
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))

"""How much each diagnostic weighs on the page, beside what it means and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.diagnostics import ADVICE

__all__ = ["Advice", "advice_for"]


@dataclass(frozen=True)
class Advice:
    """A diagnostic in plain words. ``weight`` sorts: 3 voids a number, 2 weakens it, 1 is worth knowing."""

    meaning: str
    remedy: str
    weight: int


_WEIGHTS = {
    "not-converged": 3,
    "worse-than-constant": 3,
    "not-comparable": 3,
    "theorem-silent": 1,
    "full-precision-reference": 1,
}
_UNKNOWN = ("This release of the report has no words for it.", "See the release that wrote the audit.")


def advice_for(diagnostic: str) -> Advice:
    """Return what is known about a diagnostic; an unknown one is shown as it is.

    Example:
        >>> advice_for("few-runs").weight
        2
    """
    words = ADVICE.get(diagnostic) or _UNKNOWN
    return Advice(*words, weight=_WEIGHTS.get(diagnostic, 2))

"""Which weights are taken into use: one rule a file, found by file name."""

from __future__ import annotations

from discreet import _find
from discreet.sparse.grow_rules._protocol import Grow

__all__ = ["Grow", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all rules, found by listing this folder.

    Example:
        >>> names()
        ('gradient', 'least_gradient', 'random')
    """
    return _find.names(__name__)


def parse(spec: str | Grow) -> Grow:
    """The rule that a spec string such as ``"gradient"`` describes.

    Raises:
        SpecError: Unknown name or field, or something else than a grow rule.
    """
    rule = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(rule, Grow):
        raise _find.SpecError(f"{spec!r} is no grow rule: it needs needs_gradient and worth")
    return rule

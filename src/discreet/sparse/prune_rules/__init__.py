"""Which weights are dropped: one rule a file, found by file name."""

from __future__ import annotations

from discreet import _find
from discreet.sparse.prune_rules._protocol import Prune

__all__ = ["Prune", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all rules, found by listing this folder.

    Example:
        >>> names()
        ('magnitude', 'threshold')
    """
    return _find.names(__name__)


def parse(spec: str | Prune) -> Prune:
    """The rule that a spec string such as ``"threshold(below=0.1)"`` describes.

    Raises:
        SpecError: Unknown name or field, or something else than a prune rule.
    """
    rule = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(rule, Prune):
        raise _find.SpecError(f"{spec!r} is no prune rule: it needs worth")
    return rule

"""How the weights that stay are shared out among layers: one rule a file, found by file name."""

from __future__ import annotations

from discreet import _find
from discreet.sparse.allocations._capped import capped
from discreet.sparse.allocations._protocol import Allocation, Shapes

__all__ = ["Allocation", "Shapes", "capped", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all allocations, found by listing this folder.

    Example:
        >>> names()
        ('er', 'erk', 'uniform')
    """
    return _find.names(__name__)


def parse(spec: str | Allocation) -> Allocation:
    """The allocation that a spec string such as ``"erk(power=1.0)"`` describes.

    Raises:
        SpecError: Unknown name or field, or something else than an allocation.
    """
    rule = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(rule, Allocation):
        raise _find.SpecError(f"{spec!r} is no allocation: it needs densities")
    return rule

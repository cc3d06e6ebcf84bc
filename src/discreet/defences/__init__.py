"""Ways to make a training leak less: one frozen dataclass a file, found by file name."""

from __future__ import annotations

from discreet import _find
from discreet.phase import Defence

__all__ = ["Defence", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all defences, found by listing this folder."""
    return _find.names(__name__)


def parse(spec: str | Defence) -> Defence:
    """The defence that a spec string such as ``"re2(beta=0.1)"`` describes.

    Raises:
        SpecError: Unknown name or field, or something else than a defence.
    """
    defence = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(defence, Defence):
        raise _find.SpecError(f"{spec!r} is no defence: it needs needs_teacher and apply")
    return defence

"""Ways to make small models: one frozen dataclass a file, found by file name."""

from __future__ import annotations

from discreet import _find
from discreet.phase import Compressor

__all__ = ["Compressor", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all compressors, found by listing this folder."""
    return _find.names(__name__)


def parse(spec: str | Compressor) -> Compressor:
    """The compressor that a spec string such as ``"prune(epochs=20)"`` describes.

    Raises:
        SpecError: Unknown name or field, or something else than a compressor.
    """
    compressor = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(compressor, Compressor):
        raise _find.SpecError(
            f"{spec!r} is no compressor: it must be called with a setting, defences and progress"
        )
    return compressor

"""Safety tests: attacks that a model is put to while it is made. One frozen dataclass a file, found by file name."""

from __future__ import annotations

from discreet import _find
from discreet.safety._protocol import Answers, Case, Found, Reference, SafetyTest

__all__ = ["Answers", "Case", "Found", "Reference", "SafetyTest", "names", "parse"]


def names() -> tuple[str, ...]:
    """Names of all tests, found by listing this folder.

    Example:
        >>> names()
        ('attack', 'attribute', 'basket', 'blackbox', 'loss', 'modified', 'odds', 'whitebox')
    """
    return _find.names(__name__)


def parse(spec: str | SafetyTest) -> SafetyTest:
    """The test that a spec string such as ``"modified(metric='auc')"`` describes, or a callable of one's own.

    Raises:
        SpecError: Unknown name or field, or something else than a safety test.
    """
    test = _find.parse(spec, __name__) if isinstance(spec, str) else spec
    if not isinstance(test, SafetyTest):
        raise _find.SpecError(f"{spec!r} is no safety test: it needs needs, and is called with cases")
    return test

"""See :mod:`discreet._code`."""

from __future__ import annotations

from discreet._code import code_of

__all__ = ["code_of"]

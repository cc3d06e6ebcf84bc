"""What goes wrong with masks."""

from __future__ import annotations

__all__ = ["SparseError"]


class SparseError(ValueError):
    """A model that cannot be masked as asked, or a rule that broke its promise."""

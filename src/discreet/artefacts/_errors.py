"""What goes wrong with files of models."""

from __future__ import annotations

__all__ = ["ArtefactError"]


class ArtefactError(ValueError):
    """A model that cannot be written as asked, or a file that is not what it should be."""

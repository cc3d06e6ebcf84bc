"""What goes wrong with a spec, and with the code that it names."""

from __future__ import annotations

__all__ = ["CalledError", "SpecFileError"]


class SpecFileError(ValueError):
    """A spec that cannot be read as asked; the message names the file, the line and the key."""


class CalledError(ValueError):
    """Code that a spec names raised, or returned something else than it should.

    Attributes:
        shown: The traceback, from the code that was called on.
    """

    def __init__(self, message: str, shown: str = "") -> None:
        super().__init__(message)
        self.shown = shown

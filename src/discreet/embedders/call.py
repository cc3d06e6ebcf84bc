"""Any function ``SMILES -> vector``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.embedders._protocol import EmbedderError

__all__ = ["Call"]


@dataclass(frozen=True)
class Call:
    """A function that is called with one SMILES at a time.

    Attributes:
        function: The function, or where it is: ``"my_package.mine:function"``. What it returns must depend on its
            argument alone.

    Raises:
        ValueError: Neither a function nor text with a colon.

    Example:
        >>> Call("builtins:len").embed(["CCO", "C"]).tolist()
        [[3.0], [1.0]]
    """

    function: str | Callable[[str], object]

    def __post_init__(self) -> None:
        if not callable(self.function) and ":" not in str(self.function):
            raise ValueError(f"function: expected module:name, got {self.function!r}")

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Call the function for each molecule."""
        function = self._found()
        rows = []
        for text in smiles:
            row = np.asarray(function(text), np.float64).ravel()
            if rows and len(row) != len(rows[0]):
                raise EmbedderError(
                    f"function: expected vectors of one length, {len(rows[0])}, got {len(row)} for {text[:40]!r}"
                )
            rows.append(row)
        return np.array(rows, np.float32)

    def _found(self) -> Callable[[str], object]:
        if callable(self.function):
            return self.function
        module, _, name = self.function.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise EmbedderError(f"function: cannot find {self.function!r} ({error})") from None
        if not callable(found):
            raise EmbedderError(f"function: expected a function, {self.function!r} is {type(found).__name__}")
        return found

"""What quantizers that call a library have in common: which layers, which package, which version."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import torch

from discreet import _find
from discreet._quiet import imported
from discreet.quantizers._fields import PACKAGE, QuantizerError, one_of

__all__ = ["Library", "one_thread"]


@dataclass(frozen=True, kw_only=True)
class Library:
    """Fields of every quantizer that runs a library's own code. The library is loaded at the first use.

    Attributes:
        scope: ``"linear"``: weights of Linear layers (of a bare state dict: tensors of two axes);
            ``"weights"``: convolutions and embeddings too, each output channel as one row.
    """

    scope: str = "linear"

    package: ClassVar[str]
    """Name of the package on the index."""
    extra: ClassVar[str] = "llm"
    """Extra of ``discreet`` that brings it."""
    scopes: ClassVar[tuple[str, ...]] = ("linear", "weights")
    """Choices of ``scope``."""

    def __post_init__(self) -> None:
        one_of("scope", self.scope, self.scopes)

    def __str__(self) -> str:
        return _find.spec(self, PACKAGE)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Folders beside the environment's that the package may be in."""
        return ()

    def why_not(self, shape: tuple[int, ...]) -> str | None:
        """Why the library cannot quantize weights of this shape, and what would fit; None if it can."""
        return None

    @property
    def made_by(self) -> str:
        """Package and version, for the record of what was made.

        Raises:
            QuantizerError: The package is not installed.
        """
        found = importlib.metadata.distributions(name=self.package, path=[*sys.path, *self.elsewhere])
        for each in found:
            return f"{self.package} {each.version}"
        raise QuantizerError(self._missing(self.package))

    def load(self, module: str) -> ModuleType:
        """Import a module of the library, without the notes and warnings that libraries write on import.

        Raises:
            QuantizerError: It is not installed, with what to install.
        """
        try:
            return imported(module)
        except ModuleNotFoundError as error:
            raise QuantizerError(self._missing((error.name or module).partition(".")[0])) from error

    def _missing(self, module: str) -> str:
        return f"{self}: the package {module} is not installed; install it with: {self._how}"

    @property
    def _how(self) -> str:
        return f'pip install "discreet[{self.extra}]"'


@contextmanager
def one_thread() -> Iterator[None]:
    """Sums in one order: results of a library that sums over a whole tensor hang on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

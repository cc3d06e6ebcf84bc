"""What an embedder is: SMILES in, one vector a molecule out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from discreet import _find
from discreet._types import Float
from discreet.data.samples import DataError

__all__ = ["PACKAGE", "Embedder", "EmbedderError", "embed", "parse", "spec"]

PACKAGE = "discreet.embedders"


class EmbedderError(DataError):
    """An embedder cannot be had or cannot embed: a library, weights or a vector is missing."""


@runtime_checkable
class Embedder(Protocol):
    """A frozen dataclass in a file of its name; it fits nothing, so a vector depends on its molecule alone."""

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """One vector a molecule, in float32.

        Args:
            smiles: Canonical SMILES.

        Raises:
            EmbedderError: A library or weights are missing; the message says what to install or to name.
        """
        ...


def parse(embedder: str | Embedder | Callable[[str], object]) -> Embedder:
    """The embedder that a spec string names, or a function ``SMILES -> vector`` as one.

    Raises:
        SpecError: No such embedder or field.

    Example:
        >>> parse("ecfp4(bits=512)").embed(["CCO"]).shape
        (1, 512)
        >>> parse(lambda smiles: [len(smiles), smiles.count("C")]).embed(["CCO", "CC(C)C"]).tolist()
        [[3.0, 2.0], [6.0, 4.0]]
    """
    if isinstance(embedder, str):
        return _find.parse(embedder, PACKAGE)
    if hasattr(embedder, "embed"):
        return embedder  # pyright: ignore[reportReturnType]
    from discreet.embedders.call import Call

    return Call(embedder)  # pyright: ignore[reportArgumentType]


def spec(embedder: Embedder) -> str:
    """The spec string of an embedder."""
    return _find.spec(embedder, PACKAGE)


def embed(
    embedder: str | Embedder | Callable[[str], object], smiles: Sequence[str]
) -> Float[np.ndarray, "molecule feature"]:
    """Embed molecules, and check what comes.

    Args:
        embedder: A spec string, an embedder, or a function ``SMILES -> vector``.
        smiles: Canonical SMILES.

    Raises:
        EmbedderError: It cannot be had, or its vectors are not one finite vector a molecule.
    """
    found = parse(embedder)
    x = np.asarray(found.embed(smiles), np.float32)
    if x.ndim != 2 or len(x) != len(smiles) or not x.shape[1]:
        raise EmbedderError(
            f"{type(found).__name__}: expected one vector for each of {len(smiles)} molecules, got shape "
            f"{list(x.shape)}"
        )
    bad = ~np.isfinite(x).all(axis=1)
    if bad.any():
        first = smiles[int(bad.argmax())]
        raise EmbedderError(
            f"{type(found).__name__}: the vectors of {int(bad.sum())} of {len(x)} molecules are not finite, first "
            f"that of {first}"
        )
    return x

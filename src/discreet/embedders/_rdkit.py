"""Molecules of RDKit from SMILES, with a message when there is none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from discreet.embedders._protocol import EmbedderError

__all__ = ["molecules"]


def molecules(smiles: Sequence[str]) -> Iterator[Any]:
    """Parse SMILES.

    Raises:
        EmbedderError: RDKit is not installed, or a SMILES does not parse.
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise EmbedderError(
            'the package rdkit is not installed; install it with: pip install "discreet[molecules]"'
        ) from None
    for text in smiles:
        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise EmbedderError(f"expected SMILES that RDKit reads, got {text[:60]!r}")
        yield molecule

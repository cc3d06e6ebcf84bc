"""Vectors that another program made: a table of SMILES and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet._types import Float
from discreet.embedders._protocol import EmbedderError

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """Vectors from an ``.npz`` of two arrays: ``smiles`` (text) and ``vector`` [molecule, feature].

    Molecules are looked up by canonical SMILES, whatever their spelling in the table.

    Attributes:
        path: The table.
    """

    path: str

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Look vectors up."""
        return looked_up(self.path, smiles, "table(path='PATH')")


def looked_up(path: str, smiles: Sequence[str], advice: str) -> Float[np.ndarray, "molecule feature"]:
    """Vectors of molecules from a table.

    Args:
        path: The ``.npz``.
        smiles: Canonical SMILES.
        advice: How to make the table.

    Raises:
        EmbedderError: The file cannot be read, has other arrays, or lacks a molecule.
    """
    if not Path(path).is_file():
        raise EmbedderError(f"{path or 'table'}: no such file; {advice}")
    try:
        with np.load(path, allow_pickle=False) as file:
            names, vectors = file["smiles"], file["vector"]
    except (OSError, ValueError, KeyError) as error:
        raise EmbedderError(f"{path}: expected an npz of smiles and vector ({error}); {advice}") from None
    if names.dtype.kind != "U" or vectors.ndim != 2 or len(names) != len(vectors):
        raise EmbedderError(
            f"{path}: expected text smiles [molecule] and vector [molecule, feature], got {names.dtype} "
            f"{list(names.shape)} and {list(vectors.shape)}"
        )
    place = {name: at for at, name in enumerate(names.tolist())}
    if any(name not in place for name in smiles):
        place |= _canonical(names.tolist())
    missing = [name for name in smiles if name not in place]
    if missing:
        raise EmbedderError(
            f"{path}: lacks {len(missing)} of {len(smiles)} molecules, first {missing[0]}; {advice}"
        )
    return vectors[[place[name] for name in smiles]].astype(np.float32)


def _canonical(names: Sequence[str]) -> dict[str, int]:
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        return {}
    with rdBase.BlockLogs():
        parsed = [Chem.MolFromSmiles(name) for name in names]
    return {Chem.MolToSmiles(each): at for at, each in enumerate(parsed) if each is not None}

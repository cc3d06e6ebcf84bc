"""RDKit's two-dimensional descriptors: weights, counts, charges, surface areas, topological indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.embedders._rdkit import molecules

__all__ = ["Descriptors"]


@dataclass(frozen=True)
class Descriptors:
    """All descriptors of RDKit's list (217 in 2026.9), as arsinh: some of them reach 10^20. What is not defined is 0.

    Example:
        >>> x = Descriptors().embed(["CCO", "c1ccccc1"])
        >>> len(x), bool(np.isfinite(x).all())
        (2, True)
    """

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule descriptor"]:
        """Descriptors in RDKit's order."""
        found = list(molecules(smiles))
        from rdkit import rdBase
        from rdkit.Chem import Descriptors as rdkit

        with rdBase.BlockLogs():
            table = [list(rdkit.CalcMolDescriptors(molecule, missingVal=0.0).values()) for molecule in found]
        values = np.array(table, np.float64).reshape(len(found), len(rdkit.descList))
        return np.arcsinh(np.nan_to_num(values, nan=0.0, posinf=0.0, neginf=0.0)).astype(np.float32)

"""ECFP4 bits of RDKit: Rogers and Hahn, "Extended-Connectivity Fingerprints" (2010)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.embedders._rdkit import molecules

__all__ = ["Ecfp4"]


@dataclass(frozen=True)
class Ecfp4:
    """Which circular neighbourhoods a molecule has, folded into bits.

    Attributes:
        bits: Length.
        radius: Radius of the Morgan algorithm; 2 is ECFP4.

    Raises:
        ValueError: ``bits`` below 1 or ``radius`` below 0.

    Example:
        >>> int(Ecfp4().embed(["CCO"]).sum())
        6
    """

    bits: int = 2048
    radius: int = 2

    def __post_init__(self) -> None:
        if self.bits < 1 or self.radius < 0:
            raise ValueError(
                f"bits, radius: expected at least 1 and at least 0, got {self.bits} and {self.radius}"
            )

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule bit"]:
        """Bits as 0 and 1, chirality included."""
        found = list(molecules(smiles))
        from rdkit.Chem import rdFingerprintGenerator

        generator = rdFingerprintGenerator.GetMorganGenerator(
            radius=self.radius, fpSize=self.bits, includeChirality=True
        )
        bits = [generator.GetFingerprintAsNumPy(molecule) for molecule in found]
        return np.array(bits, np.float32).reshape(-1, self.bits)

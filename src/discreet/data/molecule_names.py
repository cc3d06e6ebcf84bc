"""Molecules as SMILES and as IUPAC names, from ``chemicals`` (MIT): from one to tell the other.

Bell et al., "chemicals: Chemical properties component of Chemical Engineering Design Library" (2016 on), whose
identifiers are PubChem's.
"""

from __future__ import annotations

import numpy as np

from discreet.data.chemicals_sets import FILES, IDENTIFIERS, lines
from discreet.data.texts import TextSet

__all__ = ["CAPTION", "GENERATION", "molecule_names"]

CAPTION, GENERATION = "SMILES:\n{}\nName:\n", "Name:\n{}\nSMILES:\n"
"""Prompts of the two tasks; no usual tokenizer joins the line end to what follows it."""


def molecule_names(task: str = "both", *, longest: int = 100) -> TextSet:
    """Pairs of SMILES and IUPAC name, one of each skeleton (the first block of the InChIKey), in PubChem's order.

    Args:
        task: ``"caption"``: from SMILES to name; ``"generation"``: from name to SMILES; ``"both"``: every other
            molecule the one or the other, so that no molecule is in two texts.
        longest: Pairs with more letters in SMILES and name together are left out, and counted.

    Raises:
        ValueError: No such task.
        DataError: ``chemicals`` is not installed, or its tables are others.
    """
    if task not in ("caption", "generation", "both"):
        raise ValueError(f"task: expected caption, generation or both, got {task!r}")
    counts = {"compounds": 0, "without a name": 0, "too long": 0, "of a skeleton that is there already": 0}
    pairs: dict[str, tuple[str, str]] = {}
    for path in IDENTIFIERS:
        for _, _, _, _, smiles, more in lines(path):
            _, key, *names = more.split("\t")
            counts["compounds"] += 1
            if not names or not names[0]:
                counts["without a name"] += 1
            elif len(smiles) + len(names[0]) > longest:
                counts["too long"] += 1
            elif pairs.setdefault(key[:14], (smiles, names[0])) != (smiles, names[0]):
                counts["of a skeleton that is there already"] += 1
    asked = [task if task != "both" else ("caption", "generation")[n % 2] for n in range(len(pairs))]
    whole = [
        (CAPTION.format(smiles), name) if each == "caption" else (GENERATION.format(name), smiles)
        for each, (smiles, name) in zip(asked, pairs.values(), strict=True)
    ]
    return TextSet(
        tuple(prompt for prompt, _ in whole),
        tuple(answer for _, answer in whole),
        np.arange(len(whole)),
        "molecule names",
        {path: FILES[path] for path in IDENTIFIERS},
        "MIT (package); identifiers are PubChem's",
        "Python package chemicals, SMILES and IUPAC names of its identifiers",
        counts,
    )

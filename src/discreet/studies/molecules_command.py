"""The study of molecules from its options to its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from discreet._json import dumps, save
from discreet.backends import Backend
from discreet.data import molecules as sets
from discreet.embedders import parse
from discreet.studies.molecules import molecules, write_smiles
from discreet.studies.molecules_figures import draw
from discreet.studies.molecules_page import to_json, to_markdown
from discreet.studies.molecules_plan import SCALES, MoleculeScale

__all__ = ["run", "scale_of", "tables_of"]


def run(
    folder: Path,
    scale: str,
    *,
    csv: Sequence[str] = (),
    tasks: Sequence[str] = (),
    embedders: Sequence[str] = (),
    smiles: Path | None = None,
    seed: int = 0,
    workers: int | None = None,
    backend: Backend | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> str:
    """Run the study, write study.json, study.md and the figures, and return the page.

    Args:
        folder: The run directory.
        scale: Name of a scale.
        csv: Tables as ``TASK=PATH``.
        tasks: Instead of the scale's.
        embedders: Instead of the scale's.
        smiles: Only write the molecules to this file, for embedders that run elsewhere.
        seed: Of everything.
        workers: Units at a time.
        backend: Where units are made; None: here.
        progress: Told what is being done.

    Raises:
        ValueError: An option that cannot be read.
        DataError: No task or no embedder can be had, or one of ``tasks`` and ``embedders`` cannot.
    """
    tables, chosen = tables_of(csv), scale_of(scale, tasks, embedders)
    named = (*tasks, *embedders)
    if smiles is not None:
        count = write_smiles(smiles, chosen, tables, seed, named)
        return f"{count:,} molecules: {smiles}"
    found = molecules(
        folder,
        scale=chosen,
        csv=tables,
        named=named,
        seed=seed,
        workers=workers,
        backend=backend,
        progress=progress,
    )
    page = to_markdown(found)
    save(folder / "study.json", dumps(to_json(found)))
    save(folder / "study.md", page)
    draw(found, folder)
    return page


def tables_of(csv: Sequence[str]) -> Mapping[str, str]:
    """Read ``TASK=PATH`` options.

    Raises:
        ValueError: One without an equals sign.

    Example:
        >>> tables_of(["AMES=ames.csv"])
        {'AMES': 'ames.csv'}
    """
    found = {}
    for each in csv:
        name, equals, path = each.partition("=")
        if not equals or not path:
            raise ValueError(f"--csv: expected TASK=PATH, got {each!r}")
        found[name] = path
    return found


def scale_of(scale: str, tasks: Sequence[str], embedders: Sequence[str]) -> MoleculeScale:
    """A scale with other tasks or embedders.

    Raises:
        ValueError: No such scale or task.
        SpecError: No such embedder.
    """
    if scale not in SCALES:
        raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
    for name in tasks:
        if not sets.known(name):
            sets.load(name)  # says what there is
    for name in embedders:
        parse(name)
    changed = {}
    if tasks:
        changed["tasks"] = tuple(tasks)
    if embedders:
        changed["embedders"] = tuple(embedders)
    return dataclasses.replace(SCALES[scale], **changed)

"""``discreet study safecompress``: run it, and write its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from discreet._json import dumps, save
from discreet.studies.safecompress import safecompress
from discreet.studies.safecompress_page import to_json, to_markdown
from discreet.studies.safecompress_plan import SCALES

__all__ = ["run"]


def run(
    folder: Path,
    scale: str,
    changed: Sequence[str],
    *,
    seed: int,
    workers: int,
    progress: Callable[[str, float], None],
) -> str:
    """Run a scale, write ``study.json`` and ``study.md``, and return the latter.

    Args:
        folder: The run directory.
        scale: ``quick`` or ``small``.
        changed: Nothing: this study has no settings.
        seed: Of everything.
        workers: Not used: models train on all cores.
        progress: Called with what is being done and the share that is done.

    Raises:
        ValueError: No such scale.
    """
    del changed, workers
    if scale not in SCALES:
        raise ValueError(f"--scale: the study safecompress has {', '.join(SCALES)}, got {scale}")
    found = safecompress(folder, scale=scale, seed=seed, progress=progress)
    page = to_markdown(found)
    save(folder / "study.json", dumps(to_json(found)))
    save(folder / "study.md", page)
    return page

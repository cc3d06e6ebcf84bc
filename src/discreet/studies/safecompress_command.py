"""``discreet study safecompress``: run it, and write its tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from discreet._json import dumps, save
from discreet.studies.panels import write
from discreet.studies.safecompress import safecompress
from discreet.studies.safecompress_figures import figures
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
    """Run a scale, write ``study.json``, ``study.md`` and the figures, and return the page.

    Args:
        folder: The run directory.
        scale: ``quick`` or ``small``.
        changed: Nothing: this study has no settings.
        seed: Of everything.
        workers: Rows at a time, in processes of their own.
        progress: Called with what is being done and the share that is done.

    Raises:
        ValueError: No such scale.
    """
    del changed
    if scale not in SCALES:
        raise ValueError(f"--scale: the study safecompress has {', '.join(SCALES)}, got {scale}")
    found = safecompress(folder, scale=scale, seed=seed, workers=workers, progress=progress)
    page = to_markdown(found)
    save(folder / "study.json", dumps(to_json(found)))
    save(folder / "study.md", page)
    write(folder, figures(found))
    return page

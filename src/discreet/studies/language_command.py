"""The study of language models from its options to its files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from discreet._json import dumps, save
from discreet.studies.changed import read
from discreet.studies.language import language
from discreet.studies.language_figures import draw
from discreet.studies.language_found import find
from discreet.studies.language_page import to_json, to_markdown
from discreet.studies.language_plan import SCALES, LanguageScale

__all__ = ["run", "scale_of"]

_WHOLE = {"int": int, "float": float, "str": str}


def run(
    folder: Path,
    scale: str,
    changed: Sequence[str] = (),
    *,
    mails: Path = Path(),
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> str:
    """Run the study, write study.json, study.md and the figures, and return the page.

    Args:
        folder: The run directory.
        scale: Name of a scale.
        changed: ``FIELD=VALUE`` of it, such as ``model=Qwen/Qwen2.5-0.5B-Instruct`` or ``data=emails``.
        mails: Where the archive of e-mails is.
        seed: Of everything.
        workers: Models at a time; None: one a core.
        progress: Told what is being done.

    Raises:
        ValueError: An option that cannot be read.
        DataError, LanguageModelError: Texts or the model cannot be had.
    """
    measured = language(
        folder,
        scale=scale_of(scale, changed),
        mails=mails,
        seed=seed,
        workers=workers,
        progress=lambda doing, share: progress(doing, 0.85 * share),
    )
    found = find(measured, workers, lambda share: progress("attacking", 0.85 + 0.14 * share))
    page = to_markdown(found)
    save(folder / "study.json", dumps(to_json(found)))
    save(folder / "study.md", page)
    draw(found, folder)
    progress("done", 1.0)
    return page


def scale_of(name: str, changed: Sequence[str] = ()) -> LanguageScale:
    """A scale with other settings.

    Raises:
        ValueError: No such scale or setting, or a value that does not fit it.

    Example:
        >>> scale_of("small", ["runs=4", "data=emails"]).runs
        4
    """
    if name not in SCALES:
        raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {name!r}")
    readers = {field.name: _WHOLE.get(str(field.type), _specs) for field in dataclasses.fields(LanguageScale)}
    return dataclasses.replace(SCALES[name], **read(changed, readers))


def _specs(text: str) -> tuple[str, ...]:
    return tuple(text.split(";"))

"""The synthetic study as a command: its settings from text, its files in the run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from discreet._json import dumps, save
from discreet.report.drawing import picture
from discreet.studies.synthetic import synthetic
from discreet.studies.synthetic_figures import figures
from discreet.studies.synthetic_page import to_json, to_markdown
from discreet.studies.synthetic_setting import Setting

__all__ = ["run", "setting_of"]

_FIXED = ("modes", "sigma", "evaluation", "seed")


def run(
    folder: Path,
    scale: str,
    changed: Sequence[str] = (),
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> str:
    """Run the study and write study.json, study.md and the figures (SVG and PNG) into the folder.

    Args:
        folder: The run directory.
        scale: ``"small"`` or ``"paper"``.
        changed: ``FIELD=VALUE`` of the setting.
        seed: Of everything.
        workers: Threads.
        progress: Called with what is being done, and the share that is done.

    Returns:
        The tables.

    Raises:
        ValueError: An unknown field, or a value that is none.
    """
    found = synthetic(
        folder, scale=scale, setting=setting_of(changed, seed), workers=workers, progress=progress
    )
    page = to_markdown(found)
    save(folder / "study.json", dumps(to_json(found)))
    save(folder / "study.md", page)
    for figure in figures(found):
        for kind in ("svg", "png"):
            save(folder / f"{figure.name}.{kind}", picture(figure, kind))
    return page


def setting_of(changed: Sequence[str], seed: int = 0) -> Setting:
    """A setting from texts such as ``"width=512"``.

    Example:
        >>> setting_of(["width=512", "lr=1e-3", "labels=coins"]).width
        512
    """
    kinds = {each.name: type(each.default) for each in fields(Setting) if each.name not in _FIXED}
    values = {}
    for text in changed:
        name, equals, value = text.partition("=")
        if name not in kinds or not equals:
            raise ValueError(f"--set: expected FIELD=VALUE with one of {', '.join(kinds)}, got {text!r}")
        try:
            values[name] = kinds[name](value)
        except ValueError:
            raise ValueError(f"--set: expected {kinds[name].__name__} for {name}, got {value!r}") from None
    return Setting(**values, seed=seed)

"""The synthetic study as a command: its settings from text, its files in the run directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

from discreet._json import dumps, save
from discreet.studies.changed import read
from discreet.studies.panels import write
from discreet.studies.synthetic import SCALES, Scale, synthetic
from discreet.studies.synthetic_figures import figures
from discreet.studies.synthetic_page import to_json, to_markdown
from discreet.studies.synthetic_setting import Setting, distinct_modes_x_sigma

__all__ = ["run", "settings_of"]

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
        changed: ``FIELD=VALUE`` of the setting or the scale: ``sets=8x2,16x3`` are modes and sigma, ``map_runs=0``
            leaves the map out, ``draws`` are the subsets of runs that the discriminator is trained anew on.
        seed: Of everything.
        workers: Threads.
        progress: Called with what is being done, and the share that is done.

    Returns:
        The tables.

    Raises:
        ValueError: An unknown field, or a value that is none.
    """
    size, setting = settings_of(scale, changed, seed)
    found = synthetic(folder, scale=size, setting=setting, workers=workers, progress=progress)
    page = to_markdown(found)
    save(folder / "study.json", dumps(to_json(found)))
    save(folder / "study.md", page)
    write(folder, figures(found))
    return page


def settings_of(scale: str, changed: Sequence[str] = (), seed: int = 0) -> tuple[Scale, Setting]:
    """How large the study is and what is trained, from a scale's name and texts such as ``"width=512"``.

    Raises:
        ValueError: An unknown scale or field, or a value that does not fit.

    Example:
        >>> scale, setting = settings_of("paper", ["sets=8x2,16x3", "map_runs=0", "width=512", "lr=1e-3"])
        >>> scale.sets, scale.map_runs, setting.width
        (((8, 2.0), (16, 3.0)), 0, 512)
    """
    if scale not in SCALES:
        raise ValueError(f"scale: expected one of {', '.join(SCALES)}, got {scale!r}")
    kinds = {each.name: type(each.default) for each in fields(Setting) if each.name not in _FIXED}
    sizes = {each.name: int for each in fields(Scale) if each.name not in ("attack", "sets")}
    found = read(changed, {**kinds, **sizes, "sets": distinct_modes_x_sigma, "draws": int})
    chosen = replace(
        SCALES[scale], **{name: value for name, value in found.items() if name in sizes or name == "sets"}
    )
    if "draws" in found:
        chosen = replace(chosen, attack=replace(chosen.attack, draws=found["draws"]))
    return chosen, Setting(**{name: value for name, value in found.items() if name in kinds}, seed=seed)

"""The study of candidates from its options to its files; a data set that is finished is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from discreet._json import dumps, save
from discreet._types import Float
from discreet.quantizers import PRESETS
from discreet.store import Store
from discreet.studies.averaged import mean_interval
from discreet.studies.candidates import SOURCES, Setup, candidates
from discreet.studies.candidates_figures import figures
from discreet.studies.changed import read
from discreet.studies.molecules_page import SHORT
from discreet.studies.panels import write
from discreet.studies.synthetic_setting import SETS, distinct_modes_x_sigma

__all__ = ["run", "setups_of"]

_VARIANTS = PRESETS["paper"]


def run(
    folder: Path,
    scale: str = "small",
    changed: Sequence[str] = (),
    *,
    seed: int = 0,
    workers: int | None = None,
    progress: Callable[[str, float], None] = lambda doing, share: None,
) -> str:
    """Run the study, write study.json, study.md and the figure, and return the page.

    Args:
        folder: The run directory.
        scale: Unused: there is one size.
        changed: ``FIELD=VALUE`` of ``Setup``; ``sets=8x2,16x3`` are modes and sigma.
        seed: Of everything.
        workers: Threads; None: one a core.
        progress: Called with what is being done, and the share that is done.

    Raises:
        ValueError: An unknown field, or a value that does not fit, before anything is written.
    """
    del scale
    setups, store, found = setups_of(changed, seed), Store(folder), []
    with store.lock():
        for at, setup in enumerate(setups):
            name = f"{setup.modes} modes, sigma {setup.sigma:g}"

            def tell(share: float, at: int = at, name: str = name) -> None:
                progress(name, (at + share) / len(setups))

            key = store.key(
                f"sets/{name}.json",
                setup=asdict(setup),
                entropy=str(setup.mixture.entropy),
                variants=list(_VARIANTS),
                versions={each: metadata.version(each) for each in ("discreet", "torch")},
            )
            kept = store.make(
                key,
                lambda aside, setup=setup, tell=tell: aside.write_text(
                    dumps(_measured(setup, workers, tell)), "utf-8"
                ),
            )
            found.append(json.loads(kept.read_text("utf-8")))
    page = _page(found)
    save(
        folder / "study.json",
        dumps({"schema": "discreet.study/1", "study": "candidates", "seed": seed, "sets": found}),
    )
    save(folder / "study.md", page)
    table = _agreement(found)
    write(
        folder, figures(SOURCES, table, [mean_interval(each) for each in table.T] if len(table) > 1 else [])
    )
    return page


def setups_of(changed: Sequence[str], seed: int = 0) -> list[Setup]:
    """A setup for each data set, from texts such as ``"steps=60"``.

    Raises:
        ValueError: An unknown field, or a value that does not fit.

    Example:
        >>> [(each.modes, each.sigma, each.steps) for each in setups_of(["sets=8x2,16x3", "steps=60"])]
        [(8, 2.0, 60), (16, 3.0, 60)]
    """
    kinds: dict[str, Any] = {
        each.name: type(each.default) for each in fields(Setup) if each.name not in ("modes", "sigma", "seed")
    }
    given = read(changed, {**kinds, "sets": distinct_modes_x_sigma})
    sets = given.pop("sets", SETS)
    return [replace(Setup(seed=seed), modes=modes, sigma=sigma, **given) for modes, sigma in sets]


def _measured(setup: Setup, workers: int | None, progress: Callable[[float], None]) -> dict[str, Any]:
    found = candidates(setup, workers=workers, progress=progress)
    return {
        "setup": asdict(setup),
        "mis": {name: each.value for name, each in found.mis.items()},
        "sources": {
            source: {
                "agreement": {end: getattr(found.agreement[source], end) for end in ("value", "low", "high")},
                "r": {variant: found.rankings[source][variant].r for variant in _VARIANTS},
                "below resolution": sum(
                    "below-resolution" in each.diagnostics for each in found.rankings[source].ranked
                ),
            }
            for source in SOURCES
        },
    }


def _page(found: Sequence[Mapping[str, Any]]) -> str:
    """The tables of docs/studies/candidates.md."""
    lines = [
        f"| modes, sigma | {' | '.join(SOURCES)} | below resolution, of 8, in that order |",
        "|---|---|---|---|---|---|",
    ]
    for each in found:
        sources = [each["sources"][source] for source in SOURCES]
        low = ", ".join(str(source["below resolution"]) for source in sources)
        cells = [_told(**source["agreement"]) for source in sources]
        lines.append(
            f"| {each['setup']['modes']}, {each['setup']['sigma']:g} | {' | '.join(cells)} | {low} |"
        )
    table = _agreement(found)
    if len(found) > 1:
        lines.append(f"| mean | {' | '.join(_told(*mean_interval(column)) for column in table.T)} | |")
        less = [_told(*mean_interval(table[:, at] - table[:, 0])) for at in range(1, len(SOURCES))]
        lines.append(f"| less own trajectory, paired | | {' | '.join(less)} | |")
    names = [SHORT[v] for v in _VARIANTS]
    lines += [
        "",
        f"| median r over the data sets, 10⁻⁴ | {' | '.join(names)} |",
        f"|{'---|' * (len(names) + 1)}",
    ]
    for source in SOURCES:
        r = np.array([[each["sources"][source]["r"][v] for v in _VARIANTS] for each in found], np.float64)
        lines.append(f"| {source} | {' | '.join(map(_median, r.T))} |")
    return "\n".join(lines) + "\n"


def _agreement(found: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "set source"]:
    return np.array([[each["sources"][s]["agreement"]["value"] for s in SOURCES] for each in found])


def _median(r: Float[np.ndarray, " set"]) -> str:
    known = r[np.isfinite(r)]
    return f"{1e4 * np.median(known):.2g}" if len(known) else "not defined"


def _told(value: float, low: float | None, high: float | None) -> str:
    ends = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{value:.2f}{ends}".replace("-", "−")

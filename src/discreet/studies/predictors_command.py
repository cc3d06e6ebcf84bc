"""The study of predictors from its options to its files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from discreet._json import dumps, save
from discreet.store import Store
from discreet.studies.averaged import mean_interval
from discreet.studies.changed import read
from discreet.studies.panels import write
from discreet.studies.predictors import PREDICTORS, Cost, Predicted, Setup, cost, predictors
from discreet.studies.predictors_figures import figures
from discreet.studies.predictors_target import ATTACKS
from discreet.studies.synthetic_setting import SETS, Setting, distinct_modes_x_sigma

__all__ = ["run", "setup_of", "to_json", "to_markdown"]

_FIXED = ("modes", "sigma", "seed")


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
        scale: ``"small"``; there is one size.
        changed: ``FIELD=VALUE`` of ``Setup`` or ``Setting``; ``sets=8x2,16x3`` are modes and sigma, ``budgets=1,2``
            trajectories.
        seed: Of everything.
        workers: Unused: the study counts costs on one core.
        progress: Called with what is being done, and the share that is done.

    Raises:
        ValueError: An unknown field, or a value that does not fit.
    """
    del scale, workers
    setup, sets = setup_of(changed, seed)
    found = predictors(
        folder, setup, sets=sets, progress=lambda share: progress("training and attacking", 0.95 * share)
    )
    store = Store(folder)
    with store.lock():
        took = cost(store, setup.setting)
    page = to_markdown(found, setup, took)
    save(folder / "study.json", dumps(to_json(found, setup)))
    save(folder / "study.md", page)
    agreement = {
        predictor: {budget: [each.agreement[predictor, budget] for each in found] for budget in setup.budgets}
        for predictor in PREDICTORS
    }
    write(folder, figures(agreement, mean_interval))
    return page


def setup_of(changed: Sequence[str], seed: int = 0) -> tuple[Setup, tuple[tuple[int, float], ...]]:
    """What is trained, and the modes and sigma of each data set, from texts such as ``"ratio=25"``.

    Raises:
        ValueError: An unknown field, or a value that does not fit.

    Example:
        >>> setup, sets = setup_of(["ratio=3", "budgets=1,2", "sets=8x2", "width=16"])
        >>> setup.ratio, setup.budgets, setup.setting.width, sets
        (3, (1, 2), 16, ((8, 2.0),))
    """
    settings: dict[str, Any] = {
        each.name: type(each.default) for each in fields(Setting) if each.name not in _FIXED
    }
    sizes: dict[str, Any] = {"ratio": int, "judged": int, "references": int, "budgets": _numbers}
    found = read(changed, {**settings, **sizes, "sets": distinct_modes_x_sigma})
    setting = Setting(**{name: value for name, value in found.items() if name in settings}, seed=seed)
    setup = replace(Setup(), setting=setting, **{n: value for n, value in found.items() if n in sizes})
    return setup, found.get("sets", SETS)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def to_json(found: Sequence[Predicted], setup: Setup) -> dict[str, Any]:
    """Every figure; what was timed is on the page alone, so that a study gives the same JSON anywhere."""
    return {
        "schema": "discreet.study/1",
        "study": "predictors",
        "setup": asdict(setup),
        "sets": [
            {
                "setting": each.setting.to_json(),
                "agreement": [
                    {"predictor": predictor, "trajectories": budget, "spearman": value}
                    for (predictor, budget), value in each.agreement.items()
                ],
                "mis": each.mis,
                "strongest": {name: attack for name, (attack, _) in each.strongest.items()},
            }
            for each in found
        ],
    }


def to_markdown(found: Sequence[Predicted], setup: Setup, took: Cost) -> str:
    """The tables of docs/studies/predictors.md."""
    names = list(found[0].strongest)
    parts = [
        f"A trajectory counts as {setup.ratio} runs of which only the last checkpoint is measured. Process time "
        f"measured here: {took.trajectory:.2f} s and {took.last:.3f} s a run, a ratio of {took.ratio:.0f}.",
        _agreement(found, setup),
        _attacks(found),
        "\n".join(
            [
                f"| MIS against the strongest attack | {' | '.join(names)} |",
                f"|{'---|' * (len(names) + 1)}",
                *(
                    f"| {each.setting.name} | "
                    + " | ".join(f"{mis:.2f} ({attack})" for attack, mis in each.strongest.values())
                    + " |"
                    for each in found
                ),
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _agreement(found: Sequence[Predicted], setup: Setup) -> str:
    head = " | ".join(f"{budget}, {budget * setup.ratio}" for budget in setup.budgets)
    lines = [f"| predictor | {head} |", f"|{'---|' * (1 + len(setup.budgets))}"]
    for predictor in PREDICTORS:
        cells = [_told([each.agreement[predictor, b] for each in found], most=1.0) for b in setup.budgets]
        lines.append(f"| {predictor} | {' | '.join(cells)} |")
    for predictor in PREDICTORS[2:]:
        apart = [
            _told([each.agreement[predictor, b] - each.agreement[PREDICTORS[0], b] for each in found])
            for b in setup.budgets
        ]
        lines.append(f"| {predictor}, less mean r (paired) | {' | '.join(apart)} |")
    return "\n".join(lines)


def _attacks(found: Sequence[Predicted]) -> str:
    """How strong each attack is, and how much its ranking is that of the strongest, on the same runs."""
    lines = [
        "| attack on the judged runs | mean MIS | strongest, of the quantizers and data sets | "
        "Spearman of its ranking with the strongest's |",
        "|---|---|---|---|",
    ]
    cells = [attack for each in found for attack, _ in each.strongest.values()]
    for attack in ATTACKS:
        mean = float(np.mean([list(each.mis[attack].values()) for each in found]))
        lines.append(
            f"| `{attack}` | {mean:.3f} | {cells.count(attack)} of {len(cells)} | "
            f"{_told([each.alike(attack) for each in found], most=1.0)} |"
        )
    return "\n".join(lines)


def _told(values: Sequence[float], most: float = 2.0) -> str:
    """A mean and its interval, which goes no further than what is possible: 1 for correlations, 2 for differences."""
    value, low, high = mean_interval(values)
    ends = "" if np.isnan(low) else f" ({max(-most, low):.2f} to {min(most, high):.2f})"
    return f"{value:.2f}{ends}".replace("-", "−")

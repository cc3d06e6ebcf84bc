"""What predicts the strongest attack's ranking best at equal cost? ``python -m discreet.studies.predictors``

Three predictors of how quantizers rank under attack, on the synthetic task of "An Indicator of Membership Inference
Security in Post-Training Quantized Models" (section 4.1): r of a few trajectories, the MIS against a loss threshold
on many last checkpoints, and cheap attacks on those. Costs are counted in runs: one trajectory that is measured for r
takes as long as several runs of which the last checkpoint is measured alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Float
from discreet.auc import auc
from discreet.baseline import threshold
from discreet.correlation import ranks, spearman
from discreet.indicator import RunIndicator
from discreet.measure import measure_stack
from discreet.ranking import rank_runs
from discreet.store import Store
from discreet.studies.synthetic_setting import FULL, SETS, Setting
from discreet.studies.synthetic_unit import Made, make, quantized, samples

__all__ = ["PREDICTORS", "Predicted", "Setup", "mean_interval", "predictors"]

PREDICTORS = (
    "r, mean over runs",
    "r, median over runs",
    "MIS by a loss threshold",
    "AUC of the loss",
    "AUC of the loss less other runs'",
)
"""What ranks quantizers; the first two read trajectories, the others last checkpoints."""
_AT_ONCE = 8


@dataclass(frozen=True)
class Setup:
    """How much is trained.

    Attributes:
        budgets: Costs, in trajectories that are measured for r.
        ratio: Runs of which the last checkpoint alone is measured that cost as much as one trajectory:
            ``benchmarks/baseline.py`` measures it.
        judged: Runs, others than those, on which the strongest attack is found.
        references: Other runs' models that calibrate a loss.
        setting: What is trained on each data set.

    Raises:
        ValueError: A budget that does not divide the largest one.
    """

    budgets: tuple[int, ...] = (1, 2, 4, 8)
    ratio: int = 11
    judged: int = 60
    references: int = 8
    setting: Setting = field(default_factory=Setting)

    def __post_init__(self) -> None:
        if any(max(self.budgets) % each for each in self.budgets):
            raise ValueError(f"budgets: expected divisors of the largest, got {list(self.budgets)}")


@dataclass(frozen=True, eq=False)
class Predicted:
    """One data set.

    Attributes:
        setting: What was trained.
        agreement: Spearman correlation of a predictor's ranking with that of the strongest attack, by predictor and
            budget; the mean over disjoint parts of the runs.
        strongest: The attack that finds most, and the MIS against it, by quantizer.
    """

    setting: Setting
    agreement: Mapping[tuple[str, int], float]
    strongest: Mapping[str, tuple[str, float]]


def predictors(
    folder: str | Path,
    setup: Setup = Setup(),
    *,
    sets: Sequence[tuple[int, float]] = SETS,
    progress: Callable[[float], None] = lambda share: None,
) -> list[Predicted]:
    """Rank quantizers by each predictor at each cost, and compare with the strongest attack on other runs.

    Args:
        folder: The run directory; what is there is not made again.
        setup: How much.
        sets: Modes and sigma of each data set.
        progress: Called with the share that is done.
    """
    store, found = Store(folder), []
    with store.lock():
        for at, (modes, sigma) in enumerate(sets):
            found.append(_on_set(store, setup, setup.setting.at(modes=modes, sigma=sigma)))
            progress((at + 1) / len(sets))
    return found


def _on_set(store: Store, setup: Setup, setting: Setting) -> Predicted:
    most = max(setup.budgets)
    followed = _made(store, setting, range(most), trajectory=True)
    last = _made(store, setting, range(most, most + most * setup.ratio), trajectory=False)
    judged = _made(store, setting, range(most * (1 + setup.ratio), most * (1 + setup.ratio) + setup.judged))
    names = [name for name in setting.specs if name != FULL]
    strongest = _strongest(setting, judged, names, setup.references)
    truth = np.array([strongest[name][1] for name in names])
    indicators = {name: _joined(followed, name) for name in names}
    losses = {name: np.concatenate([each.loss[name] for each in last]) for name in names}
    less = _calibrated(setting, last, names, setup.references)
    agreement: dict[tuple[str, int], list[float]] = {}
    for budget in setup.budgets:
        for first in range(0, most, budget):
            for statistic in ("mean", "median"):
                part = {name: dict(list(indicators[name].items())[first : first + budget]) for name in names}
                ranking = rank_runs(part, statistic=statistic, n_train=setting.n, seed=setting.seed)
                values = [
                    np.nan if ranking[name].r is None else float(ranking[name].r or 0) for name in names
                ]
                key = PREDICTORS[statistic == "median"], budget
                agreement.setdefault(key, []).append(_agree(np.array(values), truth))
            rows = slice(first * setup.ratio, (first + budget) * setup.ratio)
            for predictor, worth in (
                (PREDICTORS[2], lambda name, rows=rows: _mis(losses[name][rows], setting.seed)),
                (PREDICTORS[3], lambda name, rows=rows: -_auc(-losses[name][rows])),
                (PREDICTORS[4], lambda name, rows=rows: -_auc(-less[name][rows])),
            ):
                values = np.array([worth(name) for name in names])
                agreement.setdefault((predictor, budget), []).append(_agree(values, truth))
    return Predicted(setting, {key: float(np.mean(each)) for key, each in agreement.items()}, strongest)


def _made(store: Store, setting: Setting, runs: range, trajectory: bool = False) -> list[Made]:
    parts = [runs[at : at + _AT_ONCE] for at in range(0, len(runs), _AT_ONCE)]
    return [make(store, setting, part, trajectory) for part in parts]


def _joined(made: Sequence[Made], name: str) -> dict[str, RunIndicator]:
    return {run: each for part in made for run, each in part.indicators[name].items()}


def _strongest(
    setting: Setting, made: Sequence[Made], names: Sequence[str], references: int
) -> dict[str, tuple[str, float]]:
    """For each quantizer the attack with the lowest MIS."""
    less = _calibrated(setting, made, names, references)
    found = {}
    for name in names:
        loss = np.concatenate([each.loss[name] for each in made])
        attacks = {"loss": _mis(loss, setting.seed), "loss less other runs'": _mis(less[name], setting.seed)}
        best = min(attacks, key=lambda each: attacks[each])
        found[name] = best, attacks[best]
    return found


def _calibrated(
    setting: Setting, made: Sequence[Made], names: Sequence[str], references: int
) -> dict[str, Float[np.ndarray, "run row"]]:
    """Each run's losses less the mean loss of its samples under the next runs' models, which saw none of them."""
    params = {name: torch.cat([each.params[name] for each in made]) for name in made[0].params}
    numbers = [run for each in made for run in each.runs]
    variants = quantized(setting, params)
    own = {name: np.concatenate([each.loss[name] for each in made]) for name in names}
    found = {name: np.empty_like(own[name]) for name in names}
    for at, run in enumerate(numbers):
        x, y = samples(setting, run)
        others = [(at + 1 + step) % len(numbers) for step in range(min(references, len(numbers) - 1))]
        stacks = {name: _rows(variants[name], others) for name in names}
        told = measure_stack(setting.network, stacks, x, y, "bce", which=["loss"], workers=1)["loss"]
        for place, name in enumerate(names):
            found[name][at] = own[name][at] - told[:, place].mean(axis=0)
    return found


def _rows(stack: Mapping[str, Tensor], rows: Sequence[int]) -> dict[str, Tensor]:
    return {name: value[list(rows)] for name, value in stack.items()}


def _member(scores: Float[np.ndarray, "run row"]) -> Bool[np.ndarray, "run row"]:
    return np.tile(np.arange(scores.shape[1]) < scores.shape[1] // 2, (len(scores), 1))


def _mis(loss: Float[np.ndarray, "run row"], seed: int) -> float:
    return threshold(loss, _member(loss), folds=min(5, len(loss)), seed=seed).raw


def _auc(scores: Float[np.ndarray, "run row"]) -> float:
    return auc(scores, _member(scores)).value


def _agree(values: Float[np.ndarray, " quantizer"], truth: Float[np.ndarray, " quantizer"]) -> float:
    """Spearman correlation over the quantizers that have a number; 0 if they are all alike."""
    there = np.isfinite(values)
    if there.sum() < 3 or len(set(ranks(values[there]))) == 1 or len(set(ranks(truth[there]))) == 1:
        return 0.0
    return spearman(values[there], truth[there]).value


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean over data sets and a 95 % t interval.

    Example:
        >>> tuple(round(each, 2) for each in mean_interval([0.4, 0.6]))
        (0.5, -0.77, 1.77)
    """
    from scipy.special import stdtrit

    found = np.array(values)
    half = float(stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / np.sqrt(len(found)))
    return float(found.mean()), float(found.mean()) - half, float(found.mean()) + half


def main() -> None:
    """Print the tables of docs/studies/predictors.md."""
    parser = argparse.ArgumentParser(description="What predicts the strongest attack's ranking best?")
    parser.add_argument("--folder", default="study-predictors", help="where runs are kept")
    setup, found = Setup(), predictors(parser.parse_args().folder)
    head = " | ".join(f"{budget}, {budget * setup.ratio}" for budget in setup.budgets)
    print(f"| predictor | {head} |\n|{'---|' * (1 + len(setup.budgets))}")
    for predictor in PREDICTORS:
        cells = [_told([each.agreement[predictor, budget] for each in found]) for budget in setup.budgets]
        print(f"| {predictor} | {' | '.join(cells)} |")
    for predictor in PREDICTORS[2:]:
        apart = [
            _told([each.agreement[predictor, b] - each.agreement[PREDICTORS[0], b] for each in found])
            for b in setup.budgets
        ]
        print(f"| {predictor}, less mean r | {' | '.join(apart)} |")
    names = list(found[0].strongest)
    print(f"\n| data set | {' | '.join(names)} |\n|{'---|' * (1 + len(names))}")
    for each in found:
        cells = [f"{mis:.2f}{'' if attack == 'loss' else '*'}" for attack, mis in each.strongest.values()]
        print(f"| {each.setting.name} | {' | '.join(cells)} |")


def _told(values: Sequence[float]) -> str:
    value, low, high = mean_interval(values)
    return f"{value:.2f} ({low:.2f} to {high:.2f})".replace("-", "−")


if __name__ == "__main__":
    main()

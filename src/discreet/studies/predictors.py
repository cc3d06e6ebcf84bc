"""What predicts the strongest attack's ranking best at equal cost?

Predictors of how quantizers rank under attack, on the synthetic task of "An Indicator of Membership Inference
Security in Post-Training Quantized Models" (section 4.1): r of a few trajectories, the MIS against a loss threshold
on many last checkpoints, and cheap attacks on those. Costs are counted in runs: one trajectory that is measured for r
takes as long as several runs of which the last checkpoint is measured alone.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from discreet._json import dumps
from discreet._types import Bool, Float
from discreet.auc import auc
from discreet.baseline import threshold
from discreet.correlation import ranks, spearman
from discreet.indicator import RunIndicator
from discreet.measure import measure_stack
from discreet.ranking import rank_runs
from discreet.store import Store
from discreet.studies.predictors_target import ATTACKS, halves, mis_by_attack, strongest
from discreet.studies.synthetic_setting import FULL, SETS, Setting
from discreet.studies.synthetic_unit import Made, make, quantized, samples

__all__ = ["PREDICTORS", "Cost", "Predicted", "Setup", "cost", "predictors"]

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
        ratio: Runs of which the last checkpoint alone is measured that cost as much as one trajectory. It decides
            how much is trained, so it is given and not measured; ``cost`` measures it, and the page prints both.
        judged: Runs, others than those, on which the strongest attack is found; an even number.
        references: Other runs' models that calibrate a loss.
        setting: What is trained on each data set.

    Raises:
        ValueError: A budget that does not divide the largest one, or no budget; numbers below 1 (references, ratio),
            fewer than three runs for the smallest budget, or an odd number of judged runs, or fewer than 4.
    """

    budgets: tuple[int, ...] = (1, 2, 4, 8)
    ratio: int = 25
    judged: int = 64
    references: int = 8
    setting: Setting = field(default_factory=Setting)

    def __post_init__(self) -> None:
        if (
            not self.budgets
            or min(self.budgets) < 1
            or any(max(self.budgets) % each for each in self.budgets)
        ):
            raise ValueError(f"budgets: expected divisors of the largest, got {list(self.budgets)}")
        if min(self.ratio, self.references) < 1:
            raise ValueError(
                f"ratio, references: expected at least 1, got {self.ratio} and {self.references}"
            )
        if (fewest := min(self.budgets) * self.ratio) < 3:
            raise ValueError(
                f"budgets, ratio: expected at least 3 runs for the smallest budget, got {fewest}"
            )
        if self.judged < 4 or self.judged % 2:
            raise ValueError(f"judged: expected an even number of runs from 4 on, got {self.judged}")


@dataclass(frozen=True, eq=False)
class Predicted:
    """One data set.

    Attributes:
        setting: What was trained.
        agreement: Spearman correlation of a predictor's ranking with that of the strongest attack, by predictor and
            budget; the mean over disjoint parts of the runs.
        mis: The MIS of the judged runs by attack and quantizer.
    """

    setting: Setting
    agreement: Mapping[tuple[str, int], float]
    mis: Mapping[str, Mapping[str, float]]

    @property
    def strongest(self) -> dict[str, tuple[str, float]]:
        """The attack that finds most, and the MIS against it, by quantizer."""
        return strongest(self.mis)

    def alike(self, attack: str) -> float:
        """Spearman correlation of one attack's ranking with the strongest's, on the same runs."""
        truth = np.array([mis for _, mis in self.strongest.values()])
        return _agree(np.array([self.mis[attack][name] for name in self.strongest]), truth)


@dataclass(frozen=True)
class Cost:
    """Process time of both kinds of run.

    Attributes:
        trajectory: Seconds to train one run and measure every checkpoint for r.
        last: Seconds to train one run and measure its last checkpoint on its members and as many others.
    """

    trajectory: float
    last: float

    @property
    def ratio(self) -> float:
        """Runs of the second kind that cost as much as one of the first."""
        return self.trajectory / self.last


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

    Raises:
        ValueError: A data set that cannot be, or one twice, before anything is trained.
    """
    settings = [setup.setting.at(modes=modes, sigma=sigma) for modes, sigma in sets]
    if not settings or len(set(settings)) < len(settings):
        raise ValueError(f"sets: expected at least one, and none twice, got {tuple(sets)}")
    store, found = Store(folder), []
    with store.lock():
        for at, setting in enumerate(settings):
            found.append(_on_set(store, setup, setting))
            progress((at + 1) / len(settings))
    return found


def _on_set(store: Store, setup: Setup, setting: Setting) -> Predicted:
    most, names = max(setup.budgets), [name for name in setting.specs if name != FULL]
    followed = _made(store, setting, range(most), trajectory=True)
    seen = most * (1 + setup.ratio)
    last = _made(store, setting, range(most, seen), trajectory=False)
    mis = _judged(store, setting, range(seen, seen + setup.judged))
    truth = np.array([strongest(mis)[name][1] for name in names])
    indicators = {name: _joined(followed, name) for name in names}
    losses = {name: np.concatenate([each.loss[name] for each in last]) for name in names}
    params = {name: torch.cat([each.params[name] for each in last]) for name in last[0].params}
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
            paid = {name: loss[rows] for name, loss in losses.items()}
            # references too come from the runs that this budget paid for
            less = _calibrated(
                setting,
                {name: value[rows] for name, value in params.items()},
                range(most, seen)[rows],
                paid,
                setup.references,
            )
            for predictor, worth in (
                (PREDICTORS[2], [_mis(paid[name], setting.seed) for name in names]),
                (PREDICTORS[3], [-_auc(-paid[name]) for name in names]),
                (PREDICTORS[4], [-_auc(-less[name]) for name in names]),
            ):
                agreement.setdefault((predictor, budget), []).append(_agree(np.array(worth), truth))
    return Predicted(setting, {key: float(np.mean(each)) for key, each in agreement.items()}, mis)


def _judged(store: Store, setting: Setting, runs: Sequence[int]) -> dict[str, dict[str, float]]:
    """The MIS of every attack on runs that no predictor sees, kept: the attacks take longer than the training."""
    records = halves(store, setting, runs)
    content = {"loss": {name: each.signals["loss"] for name, each in records.items()}, "attacks": ATTACKS}
    key = store.key(
        f"judged/{setting.name} mis.json",
        **content,
        member=next(iter(records.values())).member,
        seed=setting.seed,
        version=metadata.version("discreet"),
    )
    told = store.make(
        key, lambda aside: aside.write_text(dumps(mis_by_attack(records, seed=setting.seed)), "utf-8")
    )
    return json.loads(told.read_text("utf-8"))


def _made(store: Store, setting: Setting, runs: range, trajectory: bool = False) -> list[Made]:
    parts = [runs[at : at + _AT_ONCE] for at in range(0, len(runs), _AT_ONCE)]
    return [make(store, setting, part, trajectory) for part in parts]


def _joined(made: Sequence[Made], name: str) -> dict[str, RunIndicator]:
    return {run: each for part in made for run, each in part.indicators[name].items()}


def _calibrated(
    setting: Setting,
    params: Mapping[str, Tensor],
    numbers: Sequence[int],
    own: Mapping[str, Float[np.ndarray, "run row"]],
    references: int,
) -> dict[str, Float[np.ndarray, "run row"]]:
    """Each run's losses less the mean loss of its samples under the next runs' models, which saw none of them.

    Args:
        setting: What was trained.
        params: Last checkpoints of the runs, a stack.
        numbers: Of the runs.
        own: Losses by variant.
        references: How many of the other runs; all where they are fewer.
    """
    variants = quantized(setting, params)
    found = {name: np.empty_like(loss) for name, loss in own.items()}
    for at, run in enumerate(numbers):
        x, y = samples(setting, run)
        others = [(at + 1 + step) % len(numbers) for step in range(min(references, len(numbers) - 1))]
        stacks = {name: _rows(variants[name], others) for name in own}
        told = measure_stack(setting.network, stacks, x, y, "bce", which=["loss"], workers=1)["loss"]
        for place, name in enumerate(own):
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


def cost(store: Store, setting: Setting, runs: int = _AT_ONCE) -> Cost:
    """Time some runs of both kinds on one core, trained side by side as the study does; kept in the store.

    Args:
        store: The run directory.
        setting: What to train.
        runs: How many of each kind.
    """

    def measured(aside: Path) -> None:
        seconds = []
        for trajectory in (True, False):
            with tempfile.TemporaryDirectory() as folder:
                make(Store(folder), setting, range(2), trajectory)  # what only the first call takes
                started = time.process_time()
                make(Store(folder), setting, range(2, 2 + runs), trajectory)
                seconds.append((time.process_time() - started) / runs)
        aside.write_text(json.dumps(seconds), "utf-8")

    key = store.key("cost.json", setting=setting.to_json(), runs=runs, version=metadata.version("discreet"))
    return Cost(*json.loads(store.make(key, measured).read_text("utf-8")))

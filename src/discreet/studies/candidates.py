"""Do more candidates make r better? ``discreet study candidates``

Definition 3.5 of "An Indicator of Membership Inference Security in Post-Training Quantized Models" takes its minimum
over all quantized configurations, Algorithm 2 over the checkpoints of one run. Here candidates also come from other
runs and from one-step neighbours of the best configuration, on the paper's Gaussian clusters, where the MIS can be
had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet._spread import spread
from discreet._types import Float
from discreet.baseline import threshold
from discreet.data.mixture import Mixture
from discreet.estimate import Estimate
from discreet.indicator import RunIndicator, measure_run
from discreet.measure import measure_stack
from discreet.mlp import MLP
from discreet.quantizers import PRESETS, quantize_stack
from discreet.ranking import Ranking, rank_runs
from discreet.recipe import Recipe
from discreet.training import train
from discreet.trajectory import Trajectory

__all__ = ["SOURCES", "Candidates", "Setup", "candidates", "neighbours"]

SOURCES = ("own trajectory", "other runs too", "neighbours too", "other runs and neighbours")
"""Where the candidates come from; the first is the paper's."""

_EVALUATION, _MEMBERS, _STRANGERS = 0, 2, 3
Stack = dict[str, Tensor]


@dataclass(frozen=True)
class Setup:
    """What is trained and how much of it.

    Attributes:
        modes: Clusters.
        sigma: Standard deviation within a cluster.
        spread: Standard deviation of the centres' coordinates.
        width: Hidden units of the one hidden layer.
        batch_size: Samples a step.
        epochs: Passes, each followed by a checkpoint.
        n: Training samples of a run.
        runs: Runs whose trajectories are measured.
        pooled: Runs that share their candidates.
        steps: Neighbours of each run's best configuration.
        evaluation: Samples that r is measured on.
        attacked: Runs that the MIS is read from, by the best threshold on the loss.
        seed: Of everything.

    Raises:
        ValueError: A field out of its range, runs that cannot be pooled evenly, or fewer than two pools; the message
            names the field.
    """

    modes: int = 8
    sigma: float = 2.0
    spread: float = 0.3
    width: int = 128
    batch_size: int = 8
    epochs: int = 30
    n: int = 128
    runs: int = 8
    pooled: int = 2
    steps: int = 30
    evaluation: int = 2048
    attacked: int = 60
    seed: int = 0

    def __post_init__(self) -> None:
        # five folds choose the threshold of the MIS
        least = {"width": 1, "epochs": 2, "n": 2, "pooled": 1, "steps": 1, "evaluation": 2, "attacked": 5}
        for name, count in least.items():
            if getattr(self, name) < count:
                raise ValueError(f"{name}: expected at least {count}, got {getattr(self, name)}")
        _ = self.mixture, self.recipe  # each refuses what it cannot be
        if self.runs % self.pooled or self.runs < 2 * self.pooled:
            raise ValueError(
                f"runs, pooled: expected two or more pools of equal size, got {self.runs} runs in pools of "
                f"{self.pooled}"
            )

    @property
    def mixture(self) -> Mixture:
        """Where samples come from."""
        return Mixture(self.modes, self.sigma, spread=self.spread, seed=self.seed)

    @property
    def recipe(self) -> Recipe:
        """How the network is trained."""
        return Recipe("bce", "adam", lr=1e-4, epochs=self.epochs, batch_size=self.batch_size)

    @property
    def training_seed(self) -> int:
        """Of starts, orders and neighbours: each data set has its own, so that data sets repeat independently."""
        return self.mixture.entropy >> 65


@dataclass(frozen=True, eq=False)
class Candidates:
    """What was found.

    Attributes:
        setup: What was trained.
        mis: MIS of each quantizer against the best threshold on the loss.
        rankings: r of each quantizer by where candidates come from; a run is a run, or a pool of runs.
        agreement: Spearman correlation of each with the MIS over the eight quantizers.
    """

    setup: Setup
    mis: Mapping[str, Estimate]
    rankings: Mapping[str, Ranking]
    agreement: Mapping[str, Estimate]


def candidates(
    setup: Setup = Setup(),
    *,
    workers: int | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> Candidates:
    """Train, measure r with every source of candidates, and compare with the MIS.

    Args:
        setup: What to train.
        workers: Threads; None: one a core. Results do not depend on it.
        progress: Called with the share that is done.

    Example:
        >>> small = Setup(width=24, runs=4, pooled=2, steps=2, epochs=6, evaluation=64, attacked=10)
        >>> sorted(candidates(small, workers=1).rankings) == sorted(SOURCES)
        True
    """
    data = setup.mixture
    network = MLP((data.features, setup.width, 1))
    x, y = _drawn(data, range(max(setup.attacked, setup.runs)), setup.n)
    evaluation = data.draw(setup.evaluation, stream=_EVALUATION)
    history = _train(setup, network, x, y, workers)
    progress(0.3)
    specs, shares = PRESETS["paper"], iter(np.linspace(0.3, 0.9, len(PRESETS["paper"])))

    def work(spec: str) -> dict[str, dict[str, RunIndicator]]:
        return _by_source(setup, network, spec, history, evaluation)

    found = spread(work, specs, workers, lambda spec: progress(float(next(shares))))
    rankings = {
        source: rank_runs(
            {spec: each[source] for spec, each in zip(specs, found, strict=True)},
            n_train=setup.n,
            seed=setup.seed,
        )
        for source in SOURCES
    }
    mis = _mis(setup, network, data, x, y, history)
    values = {spec: each.value for spec, each in mis.items()}
    progress(1.0)
    return Candidates(setup, mis, rankings, {name: each.spearman(values) for name, each in rankings.items()})


def _drawn(data: Mixture, runs: range, n: int) -> tuple[np.ndarray, np.ndarray]:
    drawn = [data.draw(n, stream=4 * run + _MEMBERS) for run in runs]
    return np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn])


def _train(setup: Setup, network: MLP, x: np.ndarray, y: np.ndarray, workers: int | None) -> list[Stack]:
    """Stacks of all runs after each epoch; of the runs beyond the measured ones only the last."""
    history: list[Stack] = []
    runs = len(x) // setup.n
    subsets = np.arange(len(x)).reshape(runs, setup.n)

    def note(epoch: int, params: Stack) -> None:
        kept = runs if epoch == setup.epochs else setup.runs
        history.append({name: value[:kept].clone() for name, value in params.items()})

    train(network, x, y, subsets, setup.recipe, seed=setup.training_seed, workers=workers, on_checkpoint=note)
    return history


def _by_source(
    setup: Setup, network: MLP, spec: str, history: list[Stack], evaluation: tuple[np.ndarray, np.ndarray]
) -> dict[str, dict[str, RunIndicator]]:
    """r of one quantizer: by source and by run (or pool)."""
    first = [quantize_stack({k: v[: setup.runs] for k, v in stack.items()}, spec) for stack in history]
    losses = np.stack([_losses(network, stack, evaluation) for stack in first], axis=1)
    beside = np.empty((setup.runs, setup.steps, setup.evaluation), np.float32)
    for run in range(setup.runs):
        best = int(losses[run].mean(axis=1, dtype=np.float64).argmin())
        chosen = {name: value[run] for name, value in first[best].items()}
        rng = np.random.default_rng([setup.training_seed, run, 0x57E9])
        beside[run] = _losses(network, neighbours(chosen, setup.steps, rng), evaluation)

    def r(parts: list[np.ndarray]) -> RunIndicator:
        return measure_run(Trajectory(np.concatenate(parts)), seed=setup.seed)

    pools = {str(at): range(at, at + setup.pooled) for at in range(0, setup.runs, setup.pooled)}
    return {
        SOURCES[0]: {str(run): r([losses[run]]) for run in range(setup.runs)},
        SOURCES[1]: {name: r([losses[run] for run in runs]) for name, runs in pools.items()},
        SOURCES[2]: {str(run): r([losses[run], beside[run]]) for run in range(setup.runs)},
        SOURCES[3]: {
            name: r([part[run] for run in runs for part in (losses, beside)]) for name, runs in pools.items()
        },
    }


def _losses(
    network: MLP, stack: Mapping[str, Tensor], evaluation: tuple[np.ndarray, np.ndarray]
) -> Float[np.ndarray, "model sample"]:
    x, y = evaluation
    found = measure_stack(
        network, {"one": stack}, torch.from_numpy(x), y, "bce", which=["loss"], dtype=np.float32, workers=1
    )
    return found["loss"][:, 0]


def neighbours(model: Mapping[str, Tensor], count: int, rng: np.random.Generator) -> Stack:
    """Copies of a quantized model in each of which one weight has moved to the next level up or down.

    Levels are the values that occur in the weight's own tensor; where there is none on the side drawn, the other side
    is taken.

    Args:
        model: One model's quantized tensors.
        count: How many copies, each with another weight moved where there are as many.
        rng: Draws weights and sides.

    Returns:
        A stack.

    Raises:
        ValueError: No tensor has two levels.

    Example:
        >>> found = neighbours({"w": torch.tensor([-1.0, 1.0, 1.0])}, 3, np.random.default_rng(0))
        >>> sorted(map(tuple, found["w"].tolist()))
        [(-1.0, -1.0, 1.0), (-1.0, 1.0, -1.0), (1.0, 1.0, 1.0)]
    """
    levels = {name: torch.unique(value) for name, value in model.items()}
    movable = [name for name in sorted(model) if len(levels[name]) > 1]
    sizes = np.array([model[name].numel() for name in movable])
    if not len(sizes):
        raise ValueError("model: expected a tensor with at least two levels, so that a weight can move")
    total = int(sizes.sum())
    places = rng.permutation(total)[:count] if count <= total else rng.integers(total, size=count)
    sides = rng.integers(2, size=count) * 2 - 1
    stack = {name: value.repeat(count, *[1] * value.ndim) for name, value in model.items()}
    ends = np.cumsum(sizes)
    for copy, (place, side) in enumerate(zip(places, sides, strict=True)):
        at = int(np.searchsorted(ends, place, side="right"))
        name, own = movable[at], int(place - (ends[at] - sizes[at]))
        flat = stack[name][copy].view(-1)
        level = int(torch.searchsorted(levels[name], flat[own]))
        new = level + int(side)
        flat[own] = levels[name][new if 0 <= new < len(levels[name]) else level - int(side)]
    return stack


def _mis(
    setup: Setup, network: MLP, data: Mixture, x: np.ndarray, y: np.ndarray, history: list[Stack]
) -> dict[str, Estimate]:
    """MIS of every quantizer's last checkpoint: members against as many fresh samples of each run."""
    drawn = [data.draw(setup.n, stream=4 * run + _STRANGERS) for run in range(setup.attacked)]
    member = np.tile(np.arange(2 * setup.n) < setup.n, (setup.attacked, 1))
    found = {}
    for spec in PRESETS["paper"]:
        stack = quantize_stack(history[-1], spec)
        rows = []
        for run, (other_x, other_y) in enumerate(drawn):
            own = slice(run * setup.n, (run + 1) * setup.n)
            one = {name: value[run : run + 1] for name, value in stack.items()}
            both = np.concatenate([x[own], other_x]), np.concatenate([y[own], other_y])
            rows.append(_losses(network, one, both)[0])
        found[spec] = threshold(np.array(rows, np.float64), member, seed=setup.seed).mis
    return found

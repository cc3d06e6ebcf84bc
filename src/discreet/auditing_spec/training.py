"""Units that train torch modules: by the built-in trainer two runs at a time, by the user's function one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import nn

from discreet.auditing_spec.fitting import fit_module
from discreet.auditing_spec.work import Work
from discreet.initial import Architecture, fresh
from discreet.mlp import MLP
from discreet.model_seeds import init_seed
from discreet.recipe import Recipe
from discreet.runs.following import Note, follow, measure_release
from discreet.runs.keeping import RunKeys, keep_runs
from discreet.runs.units import Tick
from discreet.spec import Named
from discreet.training import train

__all__ = ["Trainer", "TrainingUnit", "built_in", "by_fit", "units_of"]

Trainer = Callable[[tuple[int, ...], Note], None]
"""Trains the runs of these numbers, and notes their checkpoints."""


@dataclass(frozen=True, eq=False)
class TrainingUnit:
    """Runs that train together. See ``Unit``.

    Attributes:
        work: What all units share.
        numbers: Of the runs.
        shadow: Whether they are not followed.
        train: Trains them.
        ticks: One a checkpoint, if their number is known, and one for the measuring.
    """

    work: Work
    numbers: tuple[int, ...]
    shadow: bool
    train: Trainer
    ticks: int

    @property
    def name(self) -> str:
        """See ``Unit``."""
        what = "shadow" if self.shadow else "run"
        return f"{what}{'s' * (len(self.runs) > 1)} {' and '.join(self.runs)}"

    @property
    def runs(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return tuple(map(str, self.numbers))

    @cached_property
    def _kept(self) -> RunKeys:
        store, panel, content = self.work.store, self.work.panel, self.work.content
        weights = tuple(
            store.key(
                f"weights/run-{number}.safetensors",
                content=content,
                run=number,
                subset=self.work.subset(number),
                validation=panel.validation,
            )
            for number in self.numbers
        )
        file = f"{'shadows' if self.shadow else 'runs'}-{'-'.join(self.runs)}.safetensors"
        measured = {"weights": weights, "variants": panel.variants, "about": panel.about}
        trajectory = store.key(f"trajectory/{file}", evaluation=panel.evaluation, **measured)
        release = store.key(f"release/{file}", released=panel.released, which=panel.which, **measured)
        return RunKeys(None if self.shadow else trajectory, weights, release)

    @property
    def keys(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return self._kept.all

    @property
    def weights(self) -> tuple[str, ...]:
        """Keys of the shipped weights of each run."""
        return self._kept.weights

    @property
    def trajectory(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return () if self._kept.trajectory is None else (self._kept.trajectory,)

    @property
    def release(self) -> tuple[str, ...]:
        """See ``Unit``."""
        return (self._kept.release,)

    def do(self, tick: Tick) -> None:
        """See ``Unit``."""
        ticked = 0

        def fit(note: Note) -> None:
            def noted(step: float, params: dict[str, torch.Tensor]) -> None:
                nonlocal ticked
                note(step, params)
                if ticked < self.ticks - 1:
                    tick()
                    ticked += 1

            self.train(self.numbers, noted)

        panel, runs = self.work.panel, self.runs
        keep_runs(
            self.work.store,
            self._kept,
            lambda: follow(panel, runs, fit, trajectory=not self.shadow),
            lambda shipped, steps: measure_release(
                panel, runs, shipped, steps, self.work.member(self.numbers)
            ),
        )
        tick(self.ticks - ticked)


def units_of(work: Work, train: Trainer, together: int, epochs: int | None) -> Iterator[TrainingUnit]:
    """The units of a spec: followed runs first, then shadows.

    Args:
        work: What all units share.
        train: Trains runs.
        together: How many are trained together, 1 or 2.
        epochs: Checkpoints of a run, None if nobody knows.
    """
    budget = work.spec.budget
    for start in range(0, budget.runs + budget.shadows, together):
        numbers = tuple(range(start, start + together))
        yield TrainingUnit(work, numbers, start >= budget.runs, train, 2 if epochs is None else epochs + 1)


def built_in(work: Work, architecture: Architecture, recipe: Recipe) -> Trainer:
    """Training by a recipe; with a patience, the validation samples stop it."""

    def train_runs(numbers: tuple[int, ...], note: Note) -> None:
        at = torch.from_numpy(work.dealt.validation)
        train(
            architecture,
            work.data.x,
            work.data.y,
            np.stack([work.subset(number) for number in numbers]),
            recipe,
            seed=work.spec.split.seed,
            model_ids=numbers,
            validation=None if recipe.patience is None else (work.data.x[at], work.data.y[at]),
            workers=1,
            on_checkpoint=lambda epoch, params: note(float(epoch), params),
        )

    return train_runs


def by_fit(work: Work, architecture: Architecture, fit: Named) -> Trainer:
    """Training by the user's function."""

    def train_runs(numbers: tuple[int, ...], note: Note) -> None:
        (number,) = numbers
        seed = init_seed(work.spec.split.seed, number) % 2**31
        at = torch.from_numpy(work.subset(number))
        fit_module(
            fit,
            work.spec.train.options,
            _module(architecture, seed),
            work.data.x[at],
            work.data.y[at],
            run=str(number),
            seed=seed,
            note=note,
        )

    return train_runs


def _module(architecture: Architecture, seed: int) -> nn.Module:
    if not isinstance(architecture, MLP):
        return fresh(architecture, seed)
    module = architecture.module()
    module.load_state_dict({name: value[0] for name, value in architecture.init([seed]).items()})
    return module

"""What is measured of the models of a round: how well they do their task, and what they give away."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from discreet._types import Float
from discreet.compressors._course import Course
from discreet.compressors._performance import losses, performances
from discreet.estimate import Estimate
from discreet.initial import Architecture
from discreet.model_seeds import stream
from discreet.phase import Phase, finished
from discreet.safety import Found, SafetyTest
from discreet.seen import cases

__all__ = ["CHOICE", "Judging"]

CHOICE = 6  # what ``stream`` draws for here

Stack = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Judging:
    """Tests of the models that a phase trains, as they would be released.

    Attributes:
        phase: The training.
        test: The safety test.
        seed: Of everything.
    """

    phase: Phase
    test: SafetyTest
    seed: int

    def point(self, course: Course) -> list[Found]:
        """Measure the models that went on, note it in the course, and return what the test found."""
        params, name = self.released(course.state.params), "chosen"
        setting = self.phase.setting
        runs = range(setting.runs)
        tested = self.attack({name: params}, None, course.state.epoch, {name: runs})[name]
        found = [tested[run] for run in runs]
        tasks = self.tasks({name: params})[name]
        fits = losses(setting, self._model, params, setting.roles.loop.judged_in).mean(axis=1)
        for run in runs:
            course.points.append(
                {
                    "run": run,
                    "epoch": course.state.epoch,
                    "loss": float(fits[run]),
                    "task": tasks[run].to_json(),
                    "leak": found[run].value.to_json(),
                    "metric": found[run].metric,
                }
            )
        return found

    def attack(
        self,
        stacks: Mapping[str, Stack],
        init: Sequence[Found] | None,
        epoch: int,
        runs: Mapping[str, Collection[int]],
    ) -> dict[str, dict[int, Found]]:
        """Test models; attackers of candidates are tuned from those of the model that they come from.

        Args:
            stacks: Models by name.
            init: What the test found of those that they come from, one a run; None: nothing.
            epoch: How many are done.
            runs: For each name the runs whose model is tested.
        """
        setting = self.phase.setting
        shown = cases(setting, self._model, stacks, setting.roles.loop, self.test.needs)
        seeds = [int(stream(self.seed, run, CHOICE, epoch, 1).integers(2**62)) for run in range(setting.runs)]
        places = [(name, run) for name in stacks for run in sorted(runs[name])]
        found = self.test(
            [shown[name][run] for name, run in places],
            seeds=[seeds[run] for _, run in places],
            init=None if init is None else [init[run] for _, run in places],
        )
        told: dict[str, dict[int, Found]] = {name: {} for name in stacks}
        for (name, run), each in zip(places, found, strict=True):
            told[name][run] = each
        return told

    def tasks(self, stacks: Mapping[str, Stack]) -> dict[str, list[Estimate]]:
        """Task performance of each run's models on its validation samples."""
        return performances(self.phase.setting, self._model, stacks)

    def losses(self, params: Stack) -> list[Float[np.ndarray, " sample"]]:
        """Losses of each run's model, as trained, on its validation samples."""
        setting = self.phase.setting
        return list(losses(setting, self._model, self.released(params), setting.roles.validation))

    def released(self, params: Stack) -> dict[str, Tensor]:
        """Parameters as they would be released."""
        return finished(self.phase, params)

    @property
    def _model(self) -> Architecture:
        return self.phase.model if self.phase.released is None else self.phase.released

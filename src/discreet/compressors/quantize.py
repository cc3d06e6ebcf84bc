"""Fewer bits instead of fewer weights: after the training, or with the training knowing of it.

Aware training follows gradients at the quantized weights and moves the weights that they came from: the
straight-through estimator of Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons for
Conditional Computation" (2013). With the defence ``even`` it is our answer to the question at the end of Aubinais et
al., "An Indicator of Membership Inference Security in Post-Training Quantized Models": training for accuracy and
security of the quantized model together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from discreet._types import Float
from discreet.compressors._common import outcome
from discreet.compressors._performance import losses
from discreet.defences._gradients import plain
from discreet.ensemble import Diverged
from discreet.indicator import RunIndicator, indicator
from discreet.phase import Defence, Outcome, Phase, Progress, Setting, defended, finished, fresh_phase, run
from discreet.quantizers import parse, quantize_stack
from discreet.training_paths import Batch, Gradients

__all__ = ["Quantize"]

LEVEL = 0.95


def _followed(found: Float[np.ndarray, "run checkpoint sample"]) -> dict[str, Any]:
    """The indicator along trajectories, over all runs and of each."""
    if found.shape[1] < 2:
        return {"r": None, "r_of_run": None, "best": None}
    whole = indicator(found, level=LEVEL)
    runs = list(whole.per_run.values())
    low, high = _interval([run for run in runs if run.status == "ok"])
    return {
        "r": replace(whole, low=low, high=high).to_json(),
        "r_of_run": [None if run.status != "ok" else run.r for run in runs],
        "best": [run.best + 1 for run in runs],
    }


def _interval(runs: Sequence[RunIndicator]) -> tuple[float | None, float | None]:
    """Interval of the mean r of runs that have samples of their own: independent, not crossed with shared samples.

    A t interval, at least as wide as the runs' own ones make it; the ends are moved as ``discreet.indicator`` moves
    them, for the squared noise of a mean and for picking the least of nearly tied candidates.
    """
    if len(runs) < 2:
        return (runs[0].low, runs[0].high) if runs else (None, None)
    from scipy.special import stdtrit

    n, values = len(runs), np.array([run.r for run in runs])
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * values.std(ddof=1)) / n**0.5
    own = sum(((run.high - run.low) / 2) ** 2 for run in runs) ** 0.5 / n
    centre, half, excess = float(values.mean()), max(half, own), 0.5 / runs[0].samples
    return max(0.0, centre - excess - half), max(centre + half, float(np.mean([run.high for run in runs])))


def _check_finite(params: Mapping[str, Tensor], batch: Batch) -> None:
    """Tell models that have diverged from such as cannot be quantized."""
    for name, value in params.items():
        finite = value.flatten(1).isfinite().all(1).tolist()
        lost = tuple(model for model, fine in zip(batch.epoch.models, finite, strict=True) if not fine)
        if lost:
            raise Diverged(
                f"model {lost[0]}: {name} is not finite in epoch {batch.epoch.number};"
                " lower lr, or look for huge inputs",
                lost,
            )


@dataclass(frozen=True)
class Quantize:
    """All weights of the big model, in few bits; the setting's density is not used.

    ``history`` has the indicator r of the trajectory: losses of each epoch's quantized weights on the run's own
    validation samples, which this run does not train on, though others may. ``r`` is over runs, taken as independent:
    as they draw their samples from one pool, its interval is a little too narrow for new data. ``r_of_run`` is each
    run's, ``best`` the epoch of the lowest loss in each (None, if there are fewer than two epochs).

    Attributes:
        quantizer: Spec string of ``quantizers``.
        aware: Whether training minimises the loss of the quantized model.
        warmup: Epochs before it does.
    """

    quantizer: str = "uniform(bits=2, granularity='channel', scope='weights', scale='absmean')"
    aware: bool = False
    warmup: int = 0

    def __post_init__(self) -> None:
        parse(self.quantizer)
        if self.warmup < 0:
            raise ValueError(f"warmup: expected 0 or more, got {self.warmup}")

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """See ``Compressor``."""
        phase, spent = defended(fresh_phase(setting), defences, progress)
        if self.aware:
            phase = replace(phase, steps=self._steps(phase))
        model, seen = phase.released or phase.model, []

        def note(epoch: int, params: dict[str, Tensor]) -> None:
            stack = quantize_stack(finished(phase, params), self.quantizer)
            seen.append(losses(setting, model, stack, setting.roles.validation))

        trained = run(phase, on_checkpoint=note, progress=lambda done, of: progress("training", done / of))
        trained = replace(trained, params=quantize_stack(trained.params, self.quantizer))
        return outcome(self, phase, trained, spent=spent, history=_followed(np.stack(seen, axis=1)))

    def _steps(self, before: Phase) -> Callable[[Phase], Gradients]:
        made = before.steps or plain

        def steps(phase: Phase) -> Gradients:
            gradients = made(phase)

            def straight_through(params: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
                if batch.epoch.number <= self.warmup:
                    return gradients(params, batch)
                _check_finite(params, batch)
                return gradients(quantize_stack(params, self.quantizer), batch)

            return straight_through

        return steps

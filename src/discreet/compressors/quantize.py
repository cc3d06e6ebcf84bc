"""Fewer bits instead of fewer weights: after the training, or with the training knowing of it.

Aware training follows gradients at the quantized weights and moves the weights that they came from: the
straight-through estimator of Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons for
Conditional Computation" (2013). With the defence ``even`` it is our answer to the question at the end of Aubinais et
al., "An Indicator of Membership Inference Security in Post-Training Quantized Models": training for accuracy and
security of the quantized model together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from discreet.compressors._common import outcome
from discreet.defences._gradients import plain
from discreet.phase import Defence, Outcome, Phase, Progress, Setting, defended, fresh_phase, run
from discreet.quantizers import parse, quantize_stack
from discreet.training_paths import Batch, Gradients

__all__ = ["Quantize"]


@dataclass(frozen=True)
class Quantize:
    """All weights of the big model, in few bits; the setting's density is not used.

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
        trained = run(phase, progress=lambda done, of: progress("training", done / of))
        trained = replace(trained, params=quantize_stack(trained.params, self.quantizer))
        return outcome(self, phase, trained, spent=spent)

    def _steps(self, before: Phase) -> Callable[[Phase], Gradients]:
        made = before.steps or plain

        def steps(phase: Phase) -> Gradients:
            gradients = made(phase)

            def straight_through(params: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
                early = batch.epoch.number <= self.warmup
                return gradients(params if early else quantize_stack(params, self.quantizer), batch)

            return straight_through

        return steps

"""Differentially private training: Abadi et al., "Deep Learning with Differential Privacy" (2016), Algorithm 1.

Noise and batches come from generators that can be repeated, as everything here: whoever knows the seed can take the
noise off. A model that is released needs a cryptographically secure generator and a seed that nobody keeps.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Int
from discreet.defences._check import check_range
from discreet.defences._clipped import by_layer, by_sample
from discreet.defences._gradients import Stack, losses_of, prepared, seen, sole, torch_seed
from discreet.defences._modules import released
from discreet.defences._objective import objective
from discreet.defences._streams import NOISE, POISSON
from discreet.forward import perceptron
from discreet.initial import as_model
from discreet.mlp import MLP
from discreet.model_seeds import stream
from discreet.phase import Phase
from discreet.sparse import counts, draw_masks, maskable
from discreet.training_paths import Batch, Gradients
from discreet.training_paths.choice import traits

__all__ = ["DPSGD"]


@dataclass(frozen=True)
class DPSGD:
    """Clip each sample's gradient and add Gaussian noise to the sum over a batch that is drawn anew at each step.

    A sample is in a batch with probability batch size over samples (Poisson sampling, which the accountant counts
    on); the sum is divided by the expected batch size. Gradients are masked before they are clipped, so a sparse
    model is clipped less.

    Attributes:
        noise: Standard deviation of the noise in units of ``clip``.
        clip: Largest norm of one sample's gradient.
        delta: At which epsilon is given; there is none where it is not below one over the number of samples.
    """

    noise: float | int = 1.0
    clip: float | int = 1.0
    delta: float | int = 1e-5

    def __post_init__(self) -> None:
        check_range("noise", self.noise, 0)
        check_range("clip", self.clip, 0, above=True)
        check_range("delta", self.delta, 0, 1, above=True)

    @property
    def needs_teacher(self) -> bool:
        """No."""
        return False

    def apply(self, phase: Phase) -> Phase:
        """See ``Defence``. The phase has an epsilon only if nothing else in it saw the private samples.

        Raises:
            ValueError: A module whose samples depend on each other, growth by gradients, a loss of whole batches, or
                a second defence that makes the steps itself.
        """
        sole("dpsgd", phase)
        if find_spec("opacus") is None:
            raise ValueError(
                "dpsgd: Opacus, whose accountant it needs, is missing: pip install 'discreet[dp]'"
            )
        built = as_model(released(phase))
        if not isinstance(built, MLP):
            for name, part in built.named_modules():
                if isinstance(part, nn.modules.batchnorm._BatchNorm):
                    raise ValueError(
                        f"dpsgd: {name} ({type(part).__name__}) mixes the samples of a batch, so none has a gradient"
                        " of its own; use GroupNorm or LayerNorm"
                    )
        return replace(phase, steps=self.gradients, private=self.private)

    def gradients(self, phase: Phase) -> Gradients:
        """See ``Phase.steps``."""
        self._check(phase)
        return _Noisy(self, phase)

    def private(self, phase: Phase) -> tuple[float, float] | str:
        """See ``Phase.private``."""
        reason = self._why_not(phase)
        if reason:
            return f"not differentially private: {reason}"
        samples, size = phase.subsets.shape[1], phase.recipe.batch_size
        if self.delta * samples >= 1:
            return (
                f"no epsilon: delta {self.delta:g} is not below one over the {samples} samples, and a training that"
                " publishes one of them whole may have such a delta"
            )
        steps = phase.recipe.epochs * -(-samples // size)
        return epsilon(self.noise, min(1.0, size / samples), steps, self.delta), float(self.delta)

    def _why_not(self, phase: Phase) -> str:
        if phase.init is not None:
            return "it begins from weights that were trained on the private samples without noise"
        if phase.masks is not None:
            return "its masks were made from weights"
        if phase.plan is not None and not phase.plan.fixed:
            return "its masks move, which nobody has accounted for"
        if "teacher" in objective(phase).needs:
            return "its teacher was trained on the private samples without noise"
        return "" if self.noise else "it has no noise"

    def _check(self, phase: Phase) -> None:
        if "batch" in objective(phase).needs:
            raise ValueError(
                f"dpsgd: expected a loss of single samples, got {objective(phase).__name__}, which looks at the batch"
            )
        if phase.plan is not None and not phase.plan.fixed and phase.plan.rules()[1].needs_gradient:
            raise ValueError(
                f"dpsgd: growth by {phase.plan.grow} reads gradients without noise; use fixed masks, or random growth"
            )
        if traits(as_model(phase.model), phase.x).drifts:
            raise ValueError("dpsgd: the module keeps running statistics of its batches, which have no noise")


class _Noisy:
    """Noisy gradients of a phase. The batch that is given says only which step it is."""

    def __init__(self, defence: DPSGD, phase: Phase) -> None:
        self.defence, self.phase = defence, phase
        self.module, self.network = prepared(phase.model, phase.x), perceptron(as_model(phase.model))
        self.found = traits(as_model(phase.model), phase.x)
        self.masks = fixed_masks(phase)
        self.losses = losses_of(phase)
        samples, size = phase.subsets.shape[1], phase.recipe.batch_size
        self.rate = min(1.0, size / samples)
        self.expected = self.rate * samples

    def __call__(self, params: Stack, batch: Batch) -> Stack:
        """See ``Gradients``."""
        models = batch.epoch.models
        parts = [self._one(params, row, model, batch) for row, model in enumerate(models)]
        return {name: torch.stack([part[name] for part in parts]) for name in self.found.trained}

    def _one(self, params: Stack, row: int, model: int, batch: Batch) -> Stack:
        state = {name: value[row] for name, value in params.items()}
        masks = {name: mask[model] for name, mask in self.masks.items()}
        total = self._clipped(state, masks, model, batch)
        when = (batch.epoch.number, batch.number)
        draw = stream(batch.epoch.seed, model, NOISE, *when)
        size = self.defence.noise * self.defence.clip
        for value in total.values():
            value += torch.from_numpy(draw.normal(0, size, value.shape)).to(value.dtype)
        return {name: value / self.expected for name, value in total.items()}

    def _clipped(self, state: Stack, masks: Stack, model: int, batch: Batch) -> Stack:
        """Sum of the clipped gradients of the samples that are drawn."""
        own = {name: state[name] for name in self.found.trained}
        epoch = batch.epoch.number

        def losses(outputs: Tensor, y: Tensor) -> Tensor:
            return self.losses(outputs, y, epoch)

        drawn = self._seen(self._drawn(model, batch), model, batch)
        given = (masks, drawn.x[0], drawn.y[0], losses, self.defence.clip)
        if self.network is not None:
            return by_layer(self.network, own, *given)
        fixed = {name: value for name, value in state.items() if name not in own}
        with torch.random.fork_rng(devices=[], enabled=self.found.draws):
            if self.found.draws:
                torch.manual_seed(torch_seed(batch, model))
            return by_sample(self.module, own, fixed, *given)

    def _drawn(self, model: int, batch: Batch) -> Int[np.ndarray, " batch"]:
        own = self.phase.subsets[model]
        draw = stream(batch.epoch.seed, model, POISSON, batch.epoch.number, batch.number)
        return own[draw.random(len(own)) < self.rate]

    def _seen(self, places: Int[np.ndarray, " batch"], model: int, batch: Batch) -> Batch:
        rows = torch.from_numpy(np.ascontiguousarray(places))[None]
        epoch = replace(batch.epoch, models=(model,))
        return seen(self.phase, Batch(self.phase.x[rows], self.phase.y[rows], rows, epoch, batch.number))


def epsilon(noise: float | int, rate: float, steps: int, delta: float | int) -> float:
    """Of the subsampled Gaussian mechanism, by the Rényi accountant of Opacus.

    Args:
        noise: In units of the clipping norm.
        rate: Probability that a sample is in a batch.
        steps: How many.
        delta: At which.
    """
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # its orders may end before the best one: epsilon is then an upper bound
        from opacus.accountants import RDPAccountant

        accountant = RDPAccountant()
        accountant.history = [(noise, rate, steps)]
        return float(accountant.get_epsilon(delta))


def fixed_masks(phase: Phase) -> dict[str, Tensor]:
    """Masks that do not move, as stacks of one model a run; those of a plan are the ones that training will draw."""
    runs = len(phase.subsets)
    if phase.masks is not None:
        shape = {name: value.shape for name, value in prepared(phase.model, phase.x).named_parameters()}
        return {
            name: mask if mask.ndim > len(shape[name]) else mask.expand(runs, *mask.shape)
            for name, mask in phase.masks.items()
        }
    plan = phase.plan
    if plan is None or not plan.fixed:
        return {}
    found = maskable(phase.model, plan.include, plan.exclude)
    kept = counts(found.shapes, plan.density, plan.allocation)
    return draw_masks(found.shapes, kept, range(runs), seed=phase.setting.seed)

"""Gradients of what a defence minimises, where that needs more than outputs and labels."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from discreet._types import Num
from discreet.initial import Architecture, as_model
from discreet.losses import loss_named
from discreet.measured import batches_well
from discreet.mlp import MLP
from discreet.outputs import columns
from discreet.phase import Phase
from discreet.training_paths import Batch, Gradients
from discreet.training_paths.choice import traits

__all__ = ["BatchLoss", "Value", "losses_of", "plain", "prepared", "seen", "sole", "stacked", "torch_seed"]

Stack = dict[str, Tensor]
BatchLoss = Callable[[Tensor, Tensor, int], Tensor]
Value = Callable[[Tensor, Tensor, Stack, Batch], Tensor]


def plain(phase: Phase) -> Gradients:
    """Gradients of the mean loss, which may depend on the epoch."""
    losses = losses_of(phase)

    def value(outputs: Tensor, y: Tensor, fixed: Stack, batch: Batch) -> Tensor:
        del fixed
        return losses(outputs, y, batch.epoch.number).mean()

    gradients = stacked(phase, value)
    return lambda params, batch: gradients(params, seen(phase, batch))


def losses_of(phase: Phase) -> BatchLoss:
    """``(outputs [batch, out], y [batch, …], epoch) -> loss [batch]`` of a phase."""
    loss = loss_named(phase.recipe.loss)
    if hasattr(phase.recipe.loss, "needs"):
        return loss.per_sample  # type: ignore[return-value]
    return lambda outputs, y, epoch: loss.per_sample(outputs, y)


def sole(name: str, phase: Phase) -> None:
    """Refuse a phase whose gradients another defence makes.

    Raises:
        ValueError: It does.
    """
    if phase.steps not in (None, plain):
        owner = getattr(phase.steps, "__self__", phase.steps)
        raise ValueError(
            f"{name}: expected a training that no other defence steps itself, got {type(owner).__name__}'s;"
            " advreg and dpsgd do not go together"
        )


def seen(phase: Phase, batch: Batch) -> Batch:
    """The batch after all views."""
    for view in phase.views:
        batch = view(batch)
    return batch


def prepared(model: Architecture, x: Num[Tensor, " sample *features"]) -> nn.Module:
    """A copy of the module in training mode, in the floating type of the inputs."""
    built = as_model(model)
    with torch.random.fork_rng(devices=[]):
        module = built.module() if isinstance(built, MLP) else copy.deepcopy(built)
    return module.to(x.dtype if x.is_floating_point() else torch.float32).train()


def stacked(phase: Phase, value: Value) -> Gradients:
    """Gradients of a number that each model's outputs on its batch give.

    All models at once where the module allows it; one after the other if it draws random numbers, changes its
    buffers, or convolves much. Random numbers are those of ``training_paths.loop``: of seed, model, epoch and step.

    Args:
        phase: Whose model and data.
        value: ``(outputs [batch, out], y [batch, …], fixed, batch) -> scalar`` for one model; ``fixed`` is what the
            stack holds of it beside trained parameters; of the batch only the epoch and the step may be used.
    """
    built = as_model(phase.model)
    module, found = prepared(built, phase.x), traits(built, phase.x)
    trained = set(found.trained)

    def number(own: Stack, fixed: Stack, x: Tensor, y: Tensor, batch: Batch) -> Tensor:
        outputs = columns(functional_call(module, {**own, **fixed}, (x,)))
        return value(outputs, y, fixed, batch)

    def together(params: Stack, batch: Batch) -> Stack:
        own = {name: each for name, each in params.items() if name in trained}
        fixed = {name: each for name, each in params.items() if name not in trained}
        return vmap(grad(partial(number, batch=batch)))(own, fixed, batch.x, batch.y)

    def one_by_one(params: Stack, batch: Batch) -> Stack:
        parts = []
        for row, model in enumerate(batch.epoch.models):
            state = {name: each[row] for name, each in params.items()}
            own = {name: state[name].detach().requires_grad_() for name in found.trained}
            fixed = {name: each for name, each in state.items() if name not in trained}
            with torch.enable_grad(), torch.random.fork_rng(devices=[], enabled=found.draws):
                if found.draws:
                    torch.manual_seed(torch_seed(batch, model))
                result = number(own, fixed, batch.x[row], batch.y[row], batch)
                parts.append(torch.autograd.grad(result, list(own.values())))
        return {name: torch.stack([part[i] for part in parts]) for i, name in enumerate(found.trained)}

    batched = not found.draws and not found.drifts and batches_well(found.convolved * phase.recipe.batch_size)
    return together if batched else one_by_one


def torch_seed(batch: Batch, model: int) -> int:
    """Seed of the layers that draw at random, as in ``training_paths.loop``."""
    key = (batch.epoch.seed, model, batch.epoch.number, batch.number)
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))

"""Stop a model when its validation loss has not fallen for a while; the others go on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Float
from discreet.forward import Model, inputs
from discreet.losses import Loss, loss_named
from discreet.measure import logits
from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.sparse_inputs import SparseRows
from discreet.training_inputs import tensors
from discreet.training_state import TrainingState

__all__ = ["Stopping"]


@dataclass(frozen=True)
class Stopping:
    """When to stop.

    Attributes:
        model: The architecture.
        x: Inputs of the validation samples.
        y: Their labels.
        loss: Whose mean decides.
        patience: Epochs without a new lowest mean after which a model stops.
        workers: Threads.
    """

    model: Model
    x: Tensor | SparseRows
    y: Tensor
    loss: Loss
    patience: int
    workers: int | None

    @classmethod
    def of(
        cls,
        model: MLP | nn.Module,
        recipe: Recipe,
        validation: tuple[Tensor | np.ndarray, Tensor | np.ndarray] | None,
        workers: int | None,
    ) -> Stopping | None:
        """None if the recipe has no patience.

        Raises:
            ValueError: Patience without validation data, or data without patience.
        """
        if (recipe.patience is None) != (validation is None):
            needs = (
                "patience needs validation data" if validation is None else "validation data need a patience"
            )
            raise ValueError(f"validation: {needs} (recipe.patience is {recipe.patience})")
        if recipe.patience is None or validation is None:
            return None
        x, y = tensors(model, *validation, recipe)
        return cls(model, inputs(model, x, x.dtype), y, loss_named(recipe.loss), recipe.patience, workers)

    def judge(self, state: TrainingState) -> TrainingState:
        """The state with the models stopped whose patience ended at its epoch."""
        active = state.active
        losses = self._losses({name: value[active] for name, value in state.params.items()})
        fell = losses < state.best[active]
        best, waited, stopped = state.best.clone(), state.waited.clone(), state.stopped.clone()
        best[active] = torch.where(fell, losses, best[active])
        waited[active] = torch.where(fell, 0, waited[active] + 1)
        stopped[active[waited[active] >= self.patience]] = state.epoch
        return replace(state, best=best, waited=waited, stopped=stopped)

    def _losses(self, params: dict[str, Tensor]) -> Float[Tensor, " model"]:
        outputs = logits(self.model, params, self.x, workers=self.workers).double()
        outputs = outputs[..., None] if outputs.ndim == 2 else outputs
        y = self.y.double() if self.y.is_floating_point() else self.y
        with torch.no_grad():
            return torch.stack([self.loss.per_sample(each, y).mean() for each in outputs])

"""The models of a training in groups that fit a core's cache, one epoch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from discreet._spread import spread
from discreet._types import Int
from discreet.optimizers import step_of
from discreet.recipe import Recipe
from discreet.training_paths import Epoch
from discreet.training_paths.choice import Choice

__all__ = ["Diverged", "Ensemble"]

Stack = Mapping[str, Tensor]

_LANES = 4  # so many groups at least, for as many cores, if there are as many models


class Diverged(ArithmeticError):
    """Parameters of some models are not finite any more.

    Attributes:
        models: Their ids.
    """

    def __init__(self, message: str, models: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.models = models


@dataclass(frozen=True)
class _Group:
    """Models that train together, in the layout of their path; ``rows`` are their places in the whole stack."""

    rows: Int[Tensor, " model"]
    params: dict[str, Tensor]
    moments: dict[str, dict[str, Tensor]]


class Ensemble:
    """Models under training.

    Args:
        choice: The path, and how many models it takes at once.
        recipe: The optimizer.
        rows: Places of these models in the stacks.
        params: The whole stack.
        moments: For each slot of the optimizer a whole stack of what is trained.
        masks: Whole stacks of 0 and 1 for some parameters.
    """

    def __init__(
        self,
        choice: Choice,
        recipe: Recipe,
        rows: Int[Tensor, " model"],
        params: Stack,
        moments: Mapping[str, Stack],
        masks: Stack,
    ) -> None:
        self.choice, self.recipe, self.masks = choice, recipe, masks
        size = max(1, min(choice.models, -(-len(rows) // _LANES)))
        self._groups = [
            _Group(
                part,
                self._inward(params, part),
                {slot: self._inward(stack, part) for slot, stack in moments.items()},
            )
            for part in rows.split(size)
        ]

    def run(self, epoch: Epoch, workers: int | None, done: Callable[[int], None]) -> None:
        """Train for one epoch.

        Args:
            epoch: Of all models of the stack; groups take their rows of it.
            workers: Threads; None: one a core.
            done: Called with the number of models of each group that has finished.

        Raises:
            Diverged: Naming the model.
        """
        limit = self.choice.workers
        spread(
            lambda group: self._train(group, epoch),
            self._groups,
            workers if limit is None else limit,
            lambda group: done(len(group.rows)),
        )

    def params(self, whole: Stack) -> dict[str, Tensor]:
        """A new stack: ``whole`` with these models' parameters put in."""
        return self._outward(whole, [(group.rows, group.params) for group in self._groups])

    def moments(self, whole: Mapping[str, Stack]) -> dict[str, dict[str, Tensor]]:
        """As ``params``, for every slot of the optimizer."""
        return {
            slot: self._outward(stack, [(group.rows, group.moments[slot]) for group in self._groups])
            for slot, stack in whole.items()
        }

    def _train(self, group: _Group, epoch: Epoch) -> None:
        rows = group.rows.tolist()
        own = Epoch(
            epoch.number,
            tuple(epoch.models[row] for row in rows),
            epoch.samples[group.rows],
            epoch.batch_size,
            epoch.seed,
        )
        masks = {
            name: mask.to(group.params[name].dtype)
            for name, mask in self._inward(self.masks, group.rows).items()
        }
        for stack in (group.params, *group.moments.values()):
            _close(stack, masks)
        first = (epoch.number - 1) * -(-epoch.samples.shape[1] // epoch.batch_size) + 1
        step = step_of(self.recipe, epoch.number)
        for count, gradients in enumerate(self.choice.path.steps(group.params, own), first):
            _multiply(gradients, masks)
            step(group.params, gradients, group.moments, count)
        broken: dict[int, str] = {}
        for name, value in group.params.items():
            finite = torch.isfinite(value).reshape(len(value), -1).all(1)
            for row in (~finite).nonzero()[:, 0].tolist():
                broken.setdefault(own.models[row], name)
        if broken:
            model = min(broken)
            raise Diverged(
                f"model {model}: {broken[model]} is not finite after epoch {epoch.number};"
                " lower lr, or look for huge inputs",
                tuple(sorted(broken)),
            )

    def _inward(self, whole: Stack, rows: Int[Tensor, " model"]) -> dict[str, Tensor]:
        swap = self.choice.path.transposed
        return {
            name: (value[rows].mT if name in swap else value[rows]).clone(
                memory_format=torch.contiguous_format
            )
            for name, value in whole.items()
        }

    def _outward(self, whole: Stack, parts: Iterable[tuple[Tensor, Stack]]) -> dict[str, Tensor]:
        made = {name: value.clone() for name, value in whole.items()}
        for rows, stack in parts:
            for name, value in stack.items():
                made[name][rows] = value.mT if name in self.choice.path.transposed else value
        return made


def _close(stack: Mapping[str, Tensor], masks: Stack) -> None:
    """Put 0 where a mask is 0; a product would leave -0.0 of what was below 0."""
    for name, mask in masks.items():
        if name in stack:
            stack[name].masked_fill_(mask == 0, 0)


def _multiply(stack: Mapping[str, Tensor], masks: Stack) -> None:
    for name, mask in masks.items():
        if name in stack:
            stack[name].mul_(mask)

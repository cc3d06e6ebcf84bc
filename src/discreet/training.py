"""Train many models of one architecture at once, each on its own samples, in its own order, from its own start.

Every model comes out as if trained alone with ``nn.Module`` and ``torch.optim``: within 1e-9 in float64; in float32
within what rounding grows to over the steps (about 1e-4 over a hundred steps of Adam). Nothing of a model depends on
which models it is trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from discreet._types import Int
from discreet.ensemble import Diverged, Ensemble
from discreet.initial import Architecture, as_model, initialise
from discreet.losses import check_labels, loss_named
from discreet.model_seeds import Orders, init_seed
from discreet.recipe import Recipe
from discreet.stopping import Stopping
from discreet.training_inputs import check_subsets, fit_masks, fit_stack, key_of, tensors
from discreet.training_paths import Epoch, Gradients
from discreet.training_paths.choice import Choice, choose, traits
from discreet.training_state import Revise, TrainingState

__all__ = ["Diverged", "train"]


def train(
    model: Architecture,
    x: Tensor | np.ndarray,
    y: Tensor | np.ndarray,
    subsets: Int[np.ndarray, "model n"],
    recipe: Recipe,
    *,
    seed: int = 0,
    model_ids: Sequence[int] | None = None,
    init: Mapping[str, Tensor] | None = None,
    masks: Mapping[str, Tensor] | None = None,
    validation: tuple[Tensor | np.ndarray, Tensor | np.ndarray] | None = None,
    gradients: Gradients | None = None,
    revise: Revise | None = None,
    path: str = "auto",
    workers: int | None = None,
    on_checkpoint: Callable[[int, dict[str, Tensor]], None] | None = None,
    initial_checkpoint: bool = False,
    resume: TrainingState | None = None,
    on_state: Callable[[TrainingState], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Tensor]:
    """Train one model for each row of ``subsets``.

    Args:
        model: An ``MLP``, a module, or a function that makes one.
        x: Inputs of all samples, [sample, …]; their floating type is that of the training (else float32).
        y: Labels of all samples, see ``Recipe.loss``.
        subsets: Positions of each model's samples.
        recipe: How to train.
        seed: With a model's id, gives its start and its orders.
        model_ids: Ids of the models; 0, 1, 2, … when None. ``subsets[[3]]`` with id 3 gives model 3 of the whole.
        init: A stack to start from.
        masks: For some parameters 0 and 1, of the shape of the stack or of one model: what is 0 stays 0. Masks may be
            changed in place between epochs; weights and moments are multiplied with them as each epoch begins. None:
            those of ``resume``, if any.
        validation: Inputs and labels for early stopping (``recipe.patience``).
        gradients: Instead of the loss's gradient, what this function returns at each step; see ``Gradients``.
        revise: Called between two epochs with the state at the end of the first; the second begins with what it
            returns, which may differ in parameters, moments and masks. A resumed training calls it for the state it
            resumes from, so what it does must follow from that state.
        path: ``"auto"``, or ``"written"``, ``"func"``, ``"loop"``: see ``training_paths``.
        workers: Threads; None: one a core. Results do not depend on it.
        on_checkpoint: Called after each epoch with its number and all models, which it may keep but not change;
            stopped ones repeat their last state.
        initial_checkpoint: Call it with epoch 0 as well, before the first step.
        resume: Go on from here. The bytes are those of a training that never stopped.
        on_state: Called after each epoch with what ``resume`` takes.
        progress: Called with the number of model epochs done and their total.

    Returns:
        The stack at the end.

    Raises:
        ValueError: Arguments that do not fit each other; the message names the argument.
        Diverged: Parameters stopped being finite; the message names model and epoch.

    Example:
        >>> from discreet.mlp import MLP
        >>> x, y = torch.randn(64, 8), torch.arange(64) % 2
        >>> halves = np.arange(64).reshape(2, 32)
        >>> params = train(MLP((8, 4, 1)), x, y, halves, Recipe(epochs=2), seed=1)
        >>> params["0.weight"].shape
        torch.Size([2, 4, 8])
    """
    built = as_model(model)
    x, y = tensors(built, x, y, recipe)
    ids = tuple(range(len(subsets)) if model_ids is None else map(int, model_ids))
    check_subsets(subsets, len(x), ids)
    subsets = subsets.astype(np.int64)
    loss = loss_named(recipe.loss)
    found = traits(built, x)
    check_labels("y", y, loss, found.outputs)
    stopping = Stopping.of(built, recipe, validation, workers)
    choice = choose(built, found, x, y, loss, recipe.batch_size, path, gradients)
    key = key_of(recipe, seed, ids, choice.name, [subsets, x, y]) if resume or on_state else ""
    if resume is not None:
        state = resume.check(key)
    else:
        dtype = x.dtype if x.is_floating_point() else torch.float32
        start = initialise(model, [init_seed(seed, each) for each in ids], dtype) if init is None else init
        state = TrainingState.start(fit_stack("init", start, len(ids)), found.trained, recipe, key)
    state = replace(state, masks=fit_masks(state.masks if masks is None else masks, state.params))
    if initial_checkpoint and on_checkpoint and state.epoch == 0:
        on_checkpoint(0, {name: value.clone() for name, value in state.params.items()})
    training = _Training(recipe, choice, seed, ids, subsets, stopping, revise)
    return training.run(state, workers, on_checkpoint, on_state, progress)


@dataclass(frozen=True)
class _Training:
    """A training that is set up."""

    recipe: Recipe
    choice: Choice
    seed: int
    ids: tuple[int, ...]
    subsets: Int[np.ndarray, "model n"]
    stopping: Stopping | None
    revise: Revise | None

    def run(
        self,
        state: TrainingState,
        workers: int | None,
        on_checkpoint: Callable[[int, dict[str, Tensor]], None] | None,
        on_state: Callable[[TrainingState], None] | None,
        progress: Callable[[int, int], None] | None,
    ) -> dict[str, Tensor]:
        """Train from a state to the end."""
        done = _Count(len(self.ids) * state.epoch, len(self.ids) * self.recipe.epochs, progress)
        ensemble = None
        for epoch in self._epochs(state.epoch):
            if not len(state.active):
                break
            if self.revise is not None and state.epoch > 0:
                revised = self.revise(state)
                ensemble = ensemble if revised is state else None
                state = revised
            if ensemble is None:
                ensemble = Ensemble(
                    self.choice, self.recipe, state.active, state.params, state.moments, state.masks
                )
            ensemble.run(epoch, workers, done.add)
            last = epoch.number == self.recipe.epochs
            if not (on_checkpoint or on_state or self.stopping or self.revise or last):
                continue
            before = state.stopped
            state = replace(state, epoch=epoch.number, params=ensemble.params(state.params))
            state = state if self.stopping is None else self.stopping.judge(state)
            regroup = not torch.equal(before, state.stopped)
            if regroup or on_state is not None or self.revise is not None:
                state = replace(state, moments=ensemble.moments(state.moments))
            ensemble = None if regroup else ensemble
            if on_checkpoint is not None:
                on_checkpoint(epoch.number, dict(state.params))
            if on_state is not None:
                on_state(state)
        done.end()
        return dict(state.params)

    def _epochs(self, done: int) -> Iterator[Epoch]:
        """What is left after ``done`` epochs; each model's orders go on where they were."""
        orders = Orders(self.seed, self.ids, self.subsets.shape[1])
        for number in range(1, self.recipe.epochs + 1):
            order = orders.next()
            if number > done:
                samples = torch.from_numpy(np.take_along_axis(self.subsets, order, axis=1))
                yield Epoch(number, self.ids, samples, self.recipe.batch_size, self.seed)


@dataclass
class _Count:
    """Model epochs done, told to whoever wants to know."""

    done: int
    total: int
    tell: Callable[[int, int], None] | None

    def add(self, models: int) -> None:
        self.done += models
        if self.tell is not None:
            self.tell(self.done, self.total)

    def end(self) -> None:
        """Models that stopped early are done."""
        if self.done < self.total:
            self.add(self.total - self.done)

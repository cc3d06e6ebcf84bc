"""Train many models of one architecture at once, each on its own samples, in its own order, from its own start.

Every model comes out as if trained alone with ``nn.Module`` and ``torch.optim``: within 1e-9 in float64; in float32
within what rounding grows to over the steps (about 1e-4 over a hundred steps of Adam). Nothing of a model depends on
which models it is trained with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from discreet._types import Int
from discreet.ensemble import Diverged, Ensemble
from discreet.initial import Architecture, as_model, initialise
from discreet.losses import check_labels, loss_named
from discreet.model_seeds import Orders, init_seed
from discreet.optimizers import step_of
from discreet.recipe import Recipe
from discreet.stopping import Stopping
from discreet.training_inputs import check_subsets, fit_masks, fit_stack, key_of, tensors
from discreet.training_paths import Epoch, Gradients
from discreet.training_paths.choice import choose, traits
from discreet.training_state import TrainingState

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
            changed in place between epochs; weights and moments are multiplied with them as each epoch begins.
        validation: Inputs and labels for early stopping (``recipe.patience``).
        gradients: Instead of the loss's gradient, what this function returns at each step; see ``Gradients``.
        path: ``"auto"``, or ``"written"``, ``"func"``, ``"loop"``: see ``training_paths``.
        workers: Threads; None: one a core. Results do not depend on it.
        on_checkpoint: Called after each epoch with its number and all models; stopped ones repeat their last state.
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
    loss = loss_named(recipe.loss)
    found = traits(built, x)
    check_labels("y", y, loss, found.outputs)
    stopping = Stopping.of(built, recipe, validation, workers)
    choice = choose(built, found, x, y, loss, recipe.batch_size, path, gradients)
    key = key_of(recipe, seed, ids, choice.name, [subsets, x, y]) if resume or on_state else ""
    if resume is not None:
        state = resume.check(key)
    else:
        start = initialise(model, [init_seed(seed, each) for each in ids], x.dtype) if init is None else init
        state = TrainingState.start(fit_stack("init", start, len(ids)), found.trained, recipe, key)
    masks = fit_masks(masks or {}, state.params)

    if initial_checkpoint and on_checkpoint and state.epoch == 0:
        on_checkpoint(0, {name: value.clone() for name, value in state.params.items()})
    orders = Orders(seed, ids, subsets.shape[1])
    for _ in range(state.epoch):
        orders.next()
    total, count = len(ids) * recipe.epochs, len(ids) * state.epoch

    def done(models: int) -> None:
        nonlocal count
        count += models
        if progress is not None:
            progress(count, total)

    ensemble = None
    for number in range(state.epoch + 1, recipe.epochs + 1):
        if not len(state.active):
            break
        if ensemble is None:
            ensemble = Ensemble(choice, step_of(recipe), state.active, state.params, state.moments, masks)
        samples = torch.from_numpy(np.take_along_axis(subsets, orders.next(), axis=1))
        ensemble.run(Epoch(number, ids, samples, recipe.batch_size, seed), workers, done)
        last = number == recipe.epochs
        if not (on_checkpoint or on_state or stopping or last):
            continue
        state = replace(state, epoch=number, params=ensemble.params(state.params))
        judged = state if stopping is None else stopping.judge(state)
        regroup = not torch.equal(judged.stopped, state.stopped)
        if regroup or on_state is not None:
            judged = replace(judged, moments=ensemble.moments(state.moments))
        state, ensemble = judged, None if regroup else ensemble
        if on_checkpoint is not None:
            on_checkpoint(number, dict(state.params))
        if on_state is not None:
            on_state(state)
    if progress is not None and count < total:
        progress(total, total)
    return dict(state.params)

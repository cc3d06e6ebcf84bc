"""Train many models that are sparse from the first step to the last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from discreet._types import Int
from discreet.initial import Architecture, as_model, initialise
from discreet.losses import loss_named
from discreet.model_seeds import init_seed
from discreet.recipe import Recipe
from discreet.sparse._errors import SparseError
from discreet.sparse.counts import counts
from discreet.sparse.growth import Growth
from discreet.sparse.maskable import Maskable, maskable
from discreet.sparse.masks import check_masks, check_zeros, close, draw_masks, rescale
from discreet.sparse.plan import Plan
from discreet.sparse.rewire import rewire
from discreet.training import train
from discreet.training_inputs import check_subsets, fit_stack, tensors
from discreet.training_paths import Gradients
from discreet.training_paths.choice import choose, traits
from discreet.training_state import TrainingState

__all__ = ["Sparse", "Update", "train_sparse"]


@dataclass(frozen=True, eq=False)
class Sparse:
    """Sparse models.

    Attributes:
        params: The stack; weights that are not in use are 0.
        masks: For each masked tensor bools [model, …]: which weights are in use.
        counts: How many of one model are in use, by tensor.
        maskable: What is masked, and why the rest is not.
    """

    params: Mapping[str, Tensor]
    masks: Mapping[str, Tensor]
    counts: Mapping[str, int]
    maskable: Maskable

    @property
    def density(self) -> float:
        """Weights in use over maskable weights, the same for every model."""
        weights = sum(mask[0].numel() for mask in self.masks.values())
        return sum(self.counts.values()) / weights


@dataclass(frozen=True, eq=False)
class Update:
    """What an update did.

    Attributes:
        epoch: After which it came.
        rate: Share that the schedule allowed.
        exchanged: For each tensor how many weights of each model were exchanged.
        models: Ids of the models that were still training.
    """

    epoch: int
    rate: float
    exchanged: Mapping[str, Int[Tensor, " model"]]
    models: tuple[int, ...]


def train_sparse(
    model: Architecture,
    x: Tensor | np.ndarray,
    y: Tensor | np.ndarray,
    subsets: Int[np.ndarray, "model n"],
    recipe: Recipe,
    plan: Plan,
    *,
    seed: int = 0,
    model_ids: Sequence[int] | None = None,
    init: Mapping[str, Tensor] | None = None,
    validation: tuple[Tensor | np.ndarray, Tensor | np.ndarray] | None = None,
    gradients: Gradients | None = None,
    path: str = "auto",
    workers: int | None = None,
    on_checkpoint: Callable[[int, dict[str, Tensor]], None] | None = None,
    initial_checkpoint: bool = False,
    resume: TrainingState | None = None,
    on_state: Callable[[TrainingState], None] | None = None,
    on_update: Callable[[Update], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sparse:
    """Train one sparse model for each row of ``subsets``; see ``discreet.training.train`` for what is not named here.

    Masks are drawn by the plan's allocation and change between epochs by its rules: the schedule counts epochs.
    Checkpoints and states come before the update that follows their epoch. Each model is as if trained alone.

    Args:
        model: An ``MLP``, a module, or a function that makes one.
        x: Inputs of all samples.
        y: Labels of all samples.
        subsets: Positions of each model's samples.
        recipe: How to train.
        plan: How to be sparse.
        seed: With a model's id, gives its start, its orders, its masks and what grows at random.
        model_ids: Ids of the models; 0, 1, 2, … when None.
        init: A stack to start from; it is masked, but rescaled only if the plan says so.
        validation: Inputs and labels for early stopping; a stopped model's masks stay.
        gradients: Instead of the loss's gradient; growth uses it too.
        path: See ``train``.
        workers: Threads; None: one a core.
        on_checkpoint: Called after each epoch.
        initial_checkpoint: Call it with epoch 0 as well.
        resume: Go on from here; the bytes are those of a training that never stopped.
        on_state: Called after each epoch with what ``resume`` takes, masks included.
        on_update: Called after each update of the masks.
        progress: Called with the number of model epochs done and their total.

    Raises:
        SparseError: Nothing to mask, a density that leaves a layer nothing, or masks that something else changed.
        ValueError: As ``train``.

    Example:
        >>> from discreet.mlp import MLP
        >>> from discreet.sparse import preset
        >>> x, y = torch.randn(64, 8), torch.arange(64) % 2
        >>> halves = np.arange(64).reshape(2, 32)
        >>> done = train_sparse(MLP((8, 4, 1)), x, y, halves, Recipe(epochs=4), preset("rigl", 0.5))
        >>> done.density, (done.params["0.weight"] != 0).sum((1, 2)).tolist()
        (0.5, [14, 14])
    """
    found = maskable(model, plan.include, plan.exclude)
    kept = counts(found.shapes, plan.density, plan.allocation)
    ids = tuple(range(len(subsets)) if model_ids is None else map(int, model_ids))
    check_subsets(subsets, len(x), ids)
    key = _key(plan, recipe)
    if resume is None:
        masks = draw_masks(found.shapes, kept, ids, seed=seed)
        start = sparse_start(model, x, ids, seed, init, plan, found, kept)
        init = close(start, masks)
    else:
        resume, masks = _unkey(resume, key), dict(resume.masks)
        check_masks(masks, found.shapes, kept, ids)
    growth = growth_of(model, x, y, subsets, recipe, plan, ids, seed, path, gradients, workers)
    rewiring = _Rewiring(plan, recipe.epochs, found, kept, ids, seed, growth, masks, on_update)
    params = train(
        model,
        x,
        y,
        subsets,
        recipe,
        seed=seed,
        model_ids=ids,
        init=init,
        masks=masks,
        validation=validation,
        gradients=gradients,
        revise=None if plan.fixed else rewiring.revise,
        path=path,
        workers=workers,
        on_checkpoint=on_checkpoint,
        initial_checkpoint=initial_checkpoint,
        resume=resume,
        on_state=None
        if on_state is None
        else lambda state: on_state(replace(state, key=f"{state.key}:{key}")),
        progress=progress,
    )
    check_zeros(params, rewiring.masks, ids)
    return Sparse(params, rewiring.masks, kept, found)


@dataclass
class _Rewiring:
    """Changes masks between epochs; the masks are the only thing that changes here."""

    plan: Plan
    epochs: int
    found: Maskable
    counts: dict[str, int]
    ids: tuple[int, ...]
    seed: int
    growth: Growth | None
    masks: Mapping[str, Tensor]
    on_update: Callable[[Update], None] | None

    def revise(self, state: TrainingState) -> TrainingState:
        """See ``train``."""
        if state.epoch not in self.plan.times(self.epochs):
            return state
        check_zeros(state.params, state.masks, self.ids)
        rate, rows = self.plan.schedule.rate(state.epoch, self.epochs), state.active
        slopes = (
            None
            if self.growth is None
            else self.growth.gradients(state.params, list(state.masks), state.epoch, rows)
        )
        done = rewire(
            state.masks,
            state.params,
            *self.plan.rules(),
            rate,
            models=self.ids,
            time=state.epoch,
            seed=self.seed,
            gradients=slopes,
            regrow=self.plan.regrow,
            rows=rows.tolist(),
        )
        check_masks(done.masks, self.found.shapes, self.counts, self.ids)
        self.masks = done.masks
        if self.on_update is not None:
            models = tuple(self.ids[row] for row in rows.tolist())
            self.on_update(Update(state.epoch, rate, done.exchanged, models))
        moments = {slot: done.settle(stack) for slot, stack in state.moments.items()}
        return replace(state, params=done.settle(state.params), moments=moments, masks=done.masks)


def sparse_start(
    model: Architecture,
    x: Tensor | np.ndarray,
    ids: tuple[int, ...],
    seed: int,
    init: Mapping[str, Tensor] | None,
    plan: Plan,
    found: Maskable,
    kept: dict[str, int],
) -> dict[str, Tensor]:
    """Weights to start from, before they are masked."""
    if init is None:
        kind = torch.as_tensor(x).dtype
        start = initialise(
            model, [init_seed(seed, each) for each in ids], kind if kind.is_floating_point else torch.float32
        )
    else:
        start = fit_stack("init", init, len(ids))
    wanted = init is None and not found.normed if plan.rescale is None else plan.rescale
    return rescale(start, found.shapes, kept) if wanted else start


def growth_of(
    model: Architecture,
    x: Tensor | np.ndarray,
    y: Tensor | np.ndarray,
    subsets: Int[np.ndarray, "model n"],
    recipe: Recipe,
    plan: Plan,
    ids: tuple[int, ...],
    seed: int,
    path: str,
    gradients: Gradients | None,
    workers: int | None,
) -> Growth | None:
    """What a plan's grow rule takes its gradients from; None if it needs none."""
    if plan.fixed or not plan.rules()[1].needs_gradient:
        return None
    built = as_model(model)
    x, y = tensors(built, x, y, recipe)
    loss = loss_named(recipe.loss)
    choice = choose(built, traits(built, x), x, y, loss, recipe.batch_size, path, gradients)
    between = plan.schedule.step(recipe.epochs) * -(-subsets.shape[1] // recipe.batch_size)
    batches = max(1, between // 50) if plan.batches is None else plan.batches
    return Growth(choice, subsets.astype(np.int64), ids, recipe.batch_size, batches, seed, workers)


def _key(plan: Plan, recipe: Recipe) -> str:
    """Hash of the plan and, as the schedule depends on it, the length."""
    settings = plan.to_json() | {"epochs": None if plan.fixed else recipe.epochs}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _unkey(state: TrainingState, key: str) -> TrainingState:
    own, _, plan = state.key.partition(":")
    if plan != key:
        raise SparseError(
            "resume: the state is of another training: plan and number of epochs must be the same"
        )
    return replace(state, key=own)

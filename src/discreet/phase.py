"""What a compressor is given, what a defence changes, and what comes out: one training after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from discreet._types import Int
from discreet.copies import check_copies
from discreet.initial import Architecture, as_model, initialise
from discreet.losses import LOSSES
from discreet.mlp import MLP
from discreet.model_seeds import init_seed
from discreet.outlasting import outlast
from discreet.performance import check_metric
from discreet.recipe import Recipe
from discreet.roles import Roles
from discreet.sparse import Plan, train_sparse
from discreet.sparse.counts import check_density
from discreet.training import train
from discreet.training_inputs import tensors
from discreet.training_paths import Batch, Gradients
from discreet.training_state import TrainingState

__all__ = [
    "Compressor",
    "Defence",
    "Outcome",
    "Phase",
    "Progress",
    "Setting",
    "Teacher",
    "Trained",
    "defended",
    "finished",
    "fresh_phase",
    "run",
    "start_of",
]

Progress = Callable[[str, float], None]
View = Callable[[Batch], Batch]


@dataclass(frozen=True, eq=False)
class Setting:
    """A task to solve with a small model, in several runs that differ in samples and seed.

    Attributes:
        model: The big model's architecture.
        x: Inputs of all samples.
        y: Their labels.
        roles: Who trains, who attacks, who judges; one row a run.
        recipe: How the big model is trained; its loss is the task's.
        density: Share of the weights that is kept.
        seed: Of everything.
        task: ``"bce"``, ``"ce"`` or ``"mse"``; None: the recipe's loss.
        plan: Other wishes about sparse training (its density is not used).
        narrow: The model with its hidden widths multiplied by a share, for students that are small and dense;
            perceptrons need none.
        attribute: A private attribute of each sample, for tests that infer it.
        metric: The task performance that candidates are compared by; see ``performance``.
        scratch: Folder where long work keeps what it needs to go on after a stop; None: it starts anew.

    Raises:
        SparseError: A density that is none.
        ValueError: No such task, roles that point nowhere, or a member and a non-member with the same input.
    """

    model: Architecture
    x: Tensor
    y: Tensor
    roles: Roles
    recipe: Recipe
    density: float
    seed: int = 0
    task: str | None = None
    plan: Plan | None = None
    narrow: Callable[[float], Architecture] | None = None
    attribute: np.ndarray | None = None
    metric: str = ""
    scratch: Path | None = None

    def __post_init__(self) -> None:
        put = self.__dict__.__setitem__
        put("x", torch.as_tensor(self.x))
        put("y", torch.as_tensor(self.y))
        if self.task is None:
            put("task", self.recipe.loss if isinstance(self.recipe.loss, str) else "")
        if self.task not in LOSSES:
            raise ValueError(
                f"task: expected one of {', '.join(LOSSES)} (a loss of one's own does not say), got {self.task!r}"
            )
        most = max(
            int(places.max(initial=-1)) for _, places in [("fit", self.roles.fit), *self.roles.parts()]
        )
        if most >= len(self.x):
            raise ValueError(f"roles: expected positions below {len(self.x)}, got {most}")
        check_copies(self.x, self.roles)
        check_density(self.density)
        check_metric(self.metric, self.kind)
        if self.attribute is not None and len(self.attribute) != len(self.x):
            raise ValueError(
                f"attribute: expected {len(self.x)} values, one a sample, got {len(self.attribute)}"
            )

    @property
    def kind(self) -> str:
        """The task: ``"bce"``, ``"ce"`` or ``"mse"``."""
        return str(self.task)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return self.roles.runs


@dataclass(frozen=True, eq=False)
class Teacher:
    """A model that has seen the private samples, one for each run."""

    model: Architecture
    params: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Phase:
    """One training, before it is run. A defence returns a changed one.

    Gradients, epsilon and what else follows from several fields are made when they are read, so defences may come in
    any order.

    Attributes:
        setting: The task; it never changes.
        model: What is trained: parts that a defence put in are in it.
        x, y: Inputs and labels: the setting's, or others that a defence made.
        subsets: Positions in them that each run trains on.
        recipe: Loss, optimizer, length.
        init: Where it starts; None: from fresh weights.
        plan: Of a sparse training; None: dense, or as ``masks`` say.
        masks: Fixed masks of a dense training.
        steps: Makes the gradients of the phase as it is in the end; None: the recipe's loss.
        views: Applied one after the other to each batch, by ``steps``.
        teacher: The model that was trained on the same samples before, if any.
        released: Whose parameters come out, if it is not ``model``.
        finish: Applied to the trained parameters, one after the other: takes away what a defence had put in.
        notes: What a reader of the result must know.
        private: Of the phase as it is in the end: (epsilon, delta), or why it has none.
    """

    setting: Setting
    model: Architecture
    x: Tensor
    y: Tensor
    subsets: Int[np.ndarray, "run n"]
    recipe: Recipe
    init: Mapping[str, Tensor] | None = None
    plan: Plan | None = None
    masks: Mapping[str, Tensor] | None = None
    steps: Callable[[Phase], Gradients] | None = None
    views: tuple[View, ...] = ()
    teacher: Teacher | None = None
    released: Architecture | None = None
    finish: tuple[Callable[[Mapping[str, Tensor]], dict[str, Tensor]], ...] = ()
    notes: tuple[str, ...] = ()
    private: Callable[[Phase], tuple[float, float] | str] | None = None

    @property
    def gradients(self) -> Gradients | None:
        """What is followed instead of the recipe's loss, if anything.

        Raises:
            ValueError: A defence cannot be used in this phase.
        """
        return None if self.steps is None else self.steps(self)

    @property
    def epsilon(self) -> tuple[float, float] | None:
        """(epsilon, delta) of each run, only if the whole training is differentially private."""
        found = "" if self.private is None else self.private(self)
        return None if isinstance(found, str) else found

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes, and why there is no epsilon where one might be expected."""
        found = None if self.private is None else self.private(self)
        return (*self.notes, found) if isinstance(found, str) else self.notes


@dataclass(frozen=True, eq=False)
class Trained:
    """What a phase gave.

    Attributes:
        model: Whose parameters they are.
        params: The stack, one model a run.
        masks: Which weights are in use; empty if the models are dense.
        spent: Training passes, in passes over the setting's training samples.
        notes: A sentence for each time that a model's weights stopped being finite.
    """

    model: Architecture
    params: Mapping[str, Tensor]
    masks: Mapping[str, Tensor]
    spent: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Outcome:
    """Compressed models, one a run.

    Attributes:
        method: The spec string they were made by.
        model: Their architecture; a student's is not the big model's.
        params: The stack.
        masks: Which weights are in use; empty if all are.
        epochs: Passes over the training samples in which these very models were trained.
        spent: Passes in all: teachers, pretraining and candidates that were thrown away count.
        notes: What a reader must know: approximations, what is not claimed.
        epsilon: (epsilon, delta), only if the whole of the training was differentially private.
        history: What was seen on the way, as plain data; see the compressor.
    """

    method: str
    model: Architecture
    params: Mapping[str, Tensor]
    masks: Mapping[str, Tensor]
    epochs: float
    spent: float
    notes: tuple[str, ...] = ()
    epsilon: tuple[float, float] | None = None
    history: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Defence(Protocol):
    """Changes a training so that its models leak less: one frozen dataclass a file in ``defences``.

    One that needs something of the setting may have ``check(setting)`` too, which refuses what lacks it by a
    ValueError; it is called before anything is trained.
    """

    @property
    def needs_teacher(self) -> bool:
        """Whether the phase must have a teacher."""
        ...

    def apply(self, phase: Phase) -> Phase:
        """The training that is run instead.

        Raises:
            ValueError: The phase lacks what the defence needs; the message says what.
        """
        ...


@runtime_checkable
class Compressor(Protocol):
    """Makes small models of a task: one frozen dataclass a file in ``compressors``; ``check`` as in ``Defence``."""

    def __call__(self, setting: Setting, defences: Sequence[Defence], progress: Progress) -> Outcome:
        """Train, with the defences in the last training.

        Args:
            setting: The task.
            defences: Applied in this order.
            progress: Called with what is being done and the share that is done.
        """
        ...


def fresh_phase(setting: Setting, **changes: Any) -> Phase:
    """The plain training of the big model, or with changes that of another."""
    model = changes.get("model", setting.model)
    x, y = tensors(as_model(model), setting.x, setting.y, setting.recipe)
    return replace(Phase(setting, model, x, y, setting.roles.fit, setting.recipe), **changes)


def defended(
    phase: Phase, defences: Sequence[Defence], progress: Progress, workers: int | None = None
) -> tuple[Phase, float]:
    """The phase with all defences, and what it took: the big model is trained if one needs a teacher and has none.

    Args:
        phase: As it would be without them.
        defences: Applied in this order.
        progress: Called while the teacher trains.
        workers: Threads.

    Returns:
        The phase, and training passes spent on the teacher.
    """
    spent = 0.0
    if phase.teacher is None and any(defence.needs_teacher for defence in defences):
        setting = phase.setting
        taught = run(
            fresh_phase(setting),
            progress=lambda done, of: progress("training the teacher", done / of),
            workers=workers,
        )
        spent = taught.spent
        notes = (*phase.notes, *(f"teacher {note}" for note in taught.notes))
        phase = replace(phase, teacher=Teacher(setting.model, taught.params), notes=notes)
    for defence in defences:
        phase = defence.apply(phase)
    return phase, spent


def finished(phase: Phase, params: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Parameters of the released model, from those of the one that was trained."""
    for finish in phase.finish:
        params = finish(params)
    return dict(params)


def run(
    phase: Phase,
    *,
    on_checkpoint: Callable[[int, dict[str, Tensor]], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> Trained:
    """Run a training; a model whose weights stop being finite stays at its last good epoch, and the others go on.

    Args:
        phase: What to run.
        on_checkpoint: Called after each epoch with its number and all models as they are, before ``finish``.
        progress: Called with model epochs done and their total.
        workers: Threads; None: one a core. Results do not depend on it.

    Raises:
        Diverged: In the first epoch, before which there is no good model.
    """
    given = {
        "seed": phase.setting.seed,
        "init": start_of(phase),
        "gradients": phase.gradients,
        "workers": workers,
        "on_checkpoint": on_checkpoint,
        "progress": progress,
    }
    data = (phase.model, phase.x, phase.y, phase.subsets, phase.recipe)

    def step(
        resume: TrainingState | None, keep: Callable[[TrainingState], None]
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
        own = given | {"resume": resume, "on_state": keep}
        if phase.plan is not None:
            made = train_sparse(*data, phase.plan, **own)
            return made.params, made.masks
        return train(*data, masks=phase.masks, **own), phase.masks or {}

    (params, masks), state, lost = outlast(step)
    epochs: float = phase.recipe.epochs
    if lost and state is not None:
        stopped = state.stopped.double()
        epochs = float(stopped.where(stopped > 0, torch.full_like(stopped, epochs)).mean())
    spent = epochs * phase.subsets.shape[1] / phase.setting.roles.fit.shape[1]
    return Trained(phase.released or phase.model, finished(phase, params), masks, spent, lost)


def start_of(phase: Phase) -> Mapping[str, Tensor] | None:
    """Given weights, and fresh ones for the parts that a defence put in."""
    if phase.init is None or phase.released is None:
        return phase.init
    own, put_in = (_names(model) for model in (phase.released, phase.model))
    seeds = [init_seed(phase.setting.seed, each) for each in range(phase.setting.runs)]
    dtype = phase.x.dtype if phase.x.is_floating_point() else torch.float32
    made = initialise(phase.model, seeds, dtype)
    return {**phase.init, **{name: made[name] for name in put_in if name not in own}}


def _names(model: Architecture) -> list[str]:
    built = as_model(model)
    module = built.module() if isinstance(built, MLP) else built
    return [name for name, _ in (*module.named_parameters(), *module.named_buffers())]

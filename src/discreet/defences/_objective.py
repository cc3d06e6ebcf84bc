"""What a training minimises: the task's loss, or what a defence put in its place, and what others made of it.

Labels are one number a sample, or rows of the label and a teacher's outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from discreet import _find
from discreet._types import Float, Int, Num
from discreet.defences._gradients import plain
from discreet.losses import LOSSES
from discreet.phase import Phase

__all__ = [
    "Change",
    "Objective",
    "Target",
    "changed",
    "classes",
    "entropy",
    "hits",
    "label",
    "objective",
    "retargeted",
]


@runtime_checkable
class Change(Protocol):
    """Makes other losses of a batch's losses; a defence's own class.

    Attributes:
        needs: What it must know beside outputs and label: ``"epoch"``, ``"batch"`` (the other samples of the batch)
            or ``"teacher"``.
    """

    needs: ClassVar[frozenset[str]]

    def change(
        self,
        losses: Float[Tensor, " batch"],
        outputs: Float[Tensor, "batch out"],
        y: Num[Tensor, " batch *columns"],
        epoch: int,
    ) -> Float[Tensor, " batch"]:
        """Losses whose mean is minimised instead."""
        ...


@runtime_checkable
class Target(Protocol):
    """Takes the place of the task's loss; a defence's own class.

    Attributes:
        needs: As in ``Change``.
    """

    needs: ClassVar[frozenset[str]]

    def loss(
        self, outputs: Float[Tensor, "batch out"], y: Num[Tensor, " batch *columns"]
    ) -> Float[Tensor, " batch"]:
        """The loss of each sample."""
        ...


@dataclass(frozen=True)
class Objective:
    """A loss as ``Recipe.loss`` takes it, and with the epoch as a third argument.

    Attributes:
        kind: The task: ``"bce"``, ``"ce"`` or ``"mse"``.
        own: The task's loss, if it is the user's.
        target: What takes its place.
        changes: Applied one after the other.
    """

    kind: str
    own: Callable[[Tensor, Tensor], Tensor] | None = None
    target: Target | None = None
    changes: tuple[Change, ...] = ()

    def __call__(
        self, outputs: Float[Tensor, "batch out"], y: Num[Tensor, " batch *columns"], epoch: int = 1
    ) -> Float[Tensor, " batch"]:
        """The loss of each sample of a batch."""
        if self.target is not None:
            losses = self.target.loss(outputs, y)
        else:
            true = label(y)
            losses = (self.own or LOSSES[self.kind].per_sample)(
                outputs, true.long() if self.kind == "ce" else true
            )
        for change in self.changes:
            losses = change.change(losses, outputs, y, epoch)
        return losses

    @property
    def __name__(self) -> str:
        """All parts, so that other settings are another loss."""
        parts = [*([self.target] if self.target else []), *self.changes]
        return "+".join([self.kind, *(_find.spec(part, "discreet.defences") for part in parts)])

    @property
    def needs(self) -> frozenset[str]:
        """What any part must know."""
        parts = [*([self.target] if self.target else []), *self.changes]
        return frozenset[str]().union(*(part.needs for part in parts))


def objective(phase: Phase) -> Objective:
    """What a phase minimises."""
    loss = phase.recipe.loss
    if isinstance(loss, Objective):
        return loss
    return Objective(phase.setting.kind, None if isinstance(loss, str) else loss)


def changed(phase: Phase, change: Change) -> Phase:
    """The phase with its losses changed.

    Raises:
        ValueError: The task has no classes.
    """
    _check_classes(phase, change)
    found = objective(phase)
    return _with(phase, replace(found, changes=(*found.changes, change)))


def retargeted(phase: Phase, target: Target, *, drop: str | None = None) -> Phase:
    """The phase with another loss than the task's.

    Args:
        phase: The phase.
        target: The loss.
        drop: Changes with this need are left out.

    Raises:
        ValueError: The task has no classes, or its loss has been replaced already.
    """
    _check_classes(phase, target)
    found = objective(phase)
    if found.target is not None:
        raise ValueError(f"{_name(target)}: {_name(found.target)} replaces the loss already; use one of them")
    kept = tuple(change for change in found.changes if drop is None or drop not in change.needs)
    return _with(phase, replace(found, target=target, changes=kept))


def label(y: Num[Tensor, " batch *columns"]) -> Num[Tensor, " batch"]:
    """The label column."""
    return y if y.ndim == 1 else y[:, 0]


def classes(outputs: Float[Tensor, "batch out"]) -> Float[Tensor, "batch class"]:
    """Logits of all classes: of a single logit z, those of (0, z)."""
    return outputs if outputs.shape[-1] > 1 else torch.cat([torch.zeros_like(outputs), outputs], -1)


def entropy(outputs: Float[Tensor, "batch out"]) -> Float[Tensor, " batch"]:
    """Of the predicted probabilities, in nats: Zhu et al., "Safety and Performance, Why not Both?", eq. 7."""
    logs = classes(outputs).log_softmax(-1)
    return -(logs.exp() * logs).sum(-1)


def hits(outputs: Float[Tensor, "batch out"], y: Num[Tensor, " batch *columns"]) -> Int[Tensor, " batch"]:
    """1 where the predicted class is the label."""
    return (classes(outputs).argmax(-1) == label(y)).long()


def _with(phase: Phase, loss: Objective) -> Phase:
    steps = phase.steps or (plain if "epoch" in loss.needs else None)
    return replace(phase, recipe=replace(phase.recipe, loss=loss), steps=steps)


def _check_classes(phase: Phase, part: Change | Target) -> None:
    if phase.setting.kind not in ("bce", "ce"):
        raise ValueError(f"{_name(part)}: expected a task with classes (bce or ce), got {phase.setting.kind}")


def _name(part: Change | Target) -> str:
    return _find.spec(part, "discreet.defences").partition("(")[0]

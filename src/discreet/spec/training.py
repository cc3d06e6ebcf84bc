"""How a spec's model is trained, by a loss that discreet knows or one of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import torch
from torch import Tensor

from discreet._types import Num
from discreet.initial import Architecture, as_model
from discreet.mlp import MLP
from discreet.recipe import Recipe
from discreet.spec.calls import Named, named
from discreet.spec.reading import Source

__all__ = ["Train", "recipe_of"]


@dataclass(frozen=True)
class Train(Recipe):
    """How the big model is trained.

    Attributes:
        loss: "bce" (one logit, labels 0 and 1), "ce" (classes), "mse", or the dotted path of a function of yours that
            takes outputs [batch, out] and labels [batch] and returns the loss of each sample [batch].
        task: What is learned, "bce", "ce" or "mse"; only where loss is a function of yours, which does not say.
    """

    task: Literal["", "bce", "ce", "mse"] = ""
    patience: int | None = field(
        default=None, init=False
    )  # no key: compressors train without validation samples

    def __post_init__(self) -> None:
        if self.own and not self.task:
            raise ValueError(f'task: expected "bce", "ce" or "mse", as {self.loss} does not say, got nothing')
        if not self.own and self.task not in ("", self.loss):
            raise ValueError(f"task: expected none, as the loss says it, or {self.loss}, got {self.task!r}")
        self.recipe(self.kind)

    @property
    def own(self) -> bool:
        """Whether the loss is a function that the spec names."""
        return isinstance(self.loss, str) and ":" in self.loss

    @property
    def kind(self) -> str:
        """The task: "bce", "ce" or "mse"."""
        return self.task or str(self.loss)

    def recipe(self, loss: Any) -> Recipe:
        """The recipe with another loss.

        Raises:
            ValueError: A field out of its range.
        """
        return Recipe(**{each.name: getattr(self, each.name) for each in fields(Recipe)} | {"loss": loss})

    def to_json(self) -> dict[str, Any]:
        """The fields, as the spec has them."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}


def recipe_of(
    section: Train, source: Source, model: Architecture, data: Mapping[str, Tensor], *, key: str = "train"
) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe of a section, its loss tried on a few samples; and notes.

    Args:
        section: The section.
        source: The spec.
        model: The big model.
        data: ``x`` and ``y`` of a few samples.
        key: Name of the section.

    Raises:
        SpecFileError: No such function.
        CalledError: It raised, or returned no loss for each sample.
    """
    if not section.own:
        return section.recipe(section.loss), ()
    loss = named(str(section.loss), source, key, "loss")
    _try(loss, model, data["x"], data["y"])
    return section.recipe(loss.function), (loss.note,) if loss.note else ()


def _try(loss: Named, model: Architecture, x: Num[Tensor, " sample *rest"], y: Tensor) -> None:
    built = as_model(model)
    module = built.module() if isinstance(built, MLP) else built
    was = module.training
    with torch.no_grad():
        outputs = module.eval()(x.float() if isinstance(built, MLP) else x)
    module.train(was)
    outputs = (outputs[:, None] if outputs.ndim == 1 else outputs).requires_grad_()
    call = Named(lambda: loss.function(outputs, y), loss.path, loss.where)
    found = call(f"on outputs of shape {list(outputs.shape)} and labels of shape {list(y.shape)}")
    if not isinstance(found, Tensor) or found.shape != (len(y),):
        got = f"shape {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
        raise loss.wrong(f"the loss of each sample, a tensor of shape [{len(y)}]", got)
    if not bool(found.isfinite().all()):
        raise loss.wrong("finite losses", "NaN or infinity on a few samples")
    if not found.requires_grad:
        raise loss.wrong("losses with a gradient", "numbers that do not depend on the outputs by PyTorch")

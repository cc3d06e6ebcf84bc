"""Gradients by a function of the caller: a defence, a regulariser that needs the parameters, clipping by sample."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from discreet._types import Num
from discreet.training_paths import Epoch, Gradients, batches

__all__ = ["Custom"]


class Custom:
    """A path that asks ``gradients(params, batch)`` at every step.

    Args:
        gradients: Takes a stack and a ``Batch``; returns a gradient stack for the parameters to be updated. It must
            not change trained parameters (buffers may move), and what it returns for one model must not depend on the
            others.
        x: Inputs.
        y: Labels.
    """

    transposed: frozenset[str] = frozenset()

    def __init__(
        self, gradients: Gradients, x: Num[Tensor, " sample *features"], y: Num[Tensor, " sample *target"]
    ) -> None:
        self.gradients, self.x, self.y = gradients, x, y

    def steps(self, params: dict[str, Tensor], epoch: Epoch) -> Iterator[dict[str, Tensor]]:
        """See ``Path.steps``."""
        for batch in batches(self.x, self.y, epoch):
            yield self.gradients(params, batch)

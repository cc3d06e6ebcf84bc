"""Gradients with respect to all weights, those not in use too, for rules that grow by them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from discreet._spread import spread
from discreet._types import Int
from discreet.model_seeds import stream
from discreet.training_paths import Epoch
from discreet.training_paths.choice import Choice

__all__ = ["SAMPLE", "Growth"]

SAMPLE = 4  # what ``stream`` draws for here


@dataclass(frozen=True)
class Growth:
    """What gradients are collected on.

    Attributes:
        choice: The path of the training.
        subsets: Positions of each model's samples.
        ids: Of the models.
        batch_size: Samples a batch.
        batches: How many batches, or fewer if there are not so many samples.
        seed: Of the whole training.
        workers: Threads; None: one a core.
    """

    choice: Choice
    subsets: Int[np.ndarray, "model n"]
    ids: tuple[int, ...]
    batch_size: int
    batches: int
    seed: int
    workers: int | None

    def gradients(
        self, params: Mapping[str, Tensor], names: Collection[str], epoch: int, rows: Int[Tensor, " active"]
    ) -> dict[str, Tensor]:
        """The mean gradient over some of each model's samples, which the epoch gives.

        The models run on copies in training mode: neither weights nor running statistics change.

        Args:
            params: The stack.
            names: Of the tensors whose gradient is wanted.
            epoch: How many are done.
            rows: Models that are wanted; of the others the gradient is left 0.
        """
        found = {name: torch.zeros_like(params[name]) for name in names}
        swap = self.choice.path.transposed

        def collect(part: Int[Tensor, " model"]) -> None:
            samples = self._samples(part.tolist(), epoch)
            ids = tuple(self.ids[row] for row in part.tolist())
            # Gradients of the next epoch's first steps, as far as layers that draw at random are concerned.
            task = Epoch(epoch + 1, ids, samples, self.batch_size, self.seed)
            stack = {
                name: (value[part].mT if name in swap else value[part]).clone(
                    memory_format=torch.contiguous_format
                )
                for name, value in params.items()
            }
            sizes = [piece.shape[1] for piece in samples.split(self.batch_size, dim=1)]
            total = {name: torch.zeros_like(stack[name]) for name in names}
            for size, gradients in zip(sizes, self.choice.path.steps(stack, task), strict=True):
                for name, sum_ in total.items():
                    sum_.add_(gradients[name], alpha=size / samples.shape[1])
            for name, sum_ in total.items():
                found[name][part] = sum_.mT if name in swap else sum_

        limit = self.choice.workers
        spread(collect, rows.split(max(1, self.choice.models)), self.workers if limit is None else limit)
        return found

    def _samples(self, rows: list[int], epoch: int) -> Int[Tensor, "model n"]:
        own = self.subsets.shape[1]
        size = min(own, self.batches * self.batch_size)
        orders = [stream(self.seed, self.ids[row], SAMPLE, epoch).permutation(own) for row in rows]
        chosen = [self.subsets[row, order[:size]] for row, order in zip(rows, orders, strict=True)]
        return torch.from_numpy(np.stack(chosen))

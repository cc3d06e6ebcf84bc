"""Any module at all: one model after the other, by plain autograd.

The right path where a batched computation is slower (convolutions on a CPU), and for layers that draw at random or
keep running statistics.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from discreet._types import Num
from discreet.losses import Loss
from discreet.outputs import columns
from discreet.training_paths import Batch, Epoch, batches

__all__ = ["Loop"]


class Loop:
    """A path for one module and one data set.

    Args:
        module: The architecture; its own parameters are not used.
        x: Inputs.
        y: Labels.
        loss: What is minimised.
        draws: Whether a layer draws at random while training (dropout). Each model then has its own random numbers,
            from the seed, its id, the epoch and the step; torch's global state is put back after each.
    """

    transposed: frozenset[str] = frozenset()

    def __init__(
        self,
        module: nn.Module,
        x: Num[Tensor, " sample *features"],
        y: Num[Tensor, " sample *target"],
        loss: Loss,
        draws: bool,
    ) -> None:
        self.x, self.y, self.loss, self.draws = x, y, loss, draws
        self.module = module
        self.trained = [name for name, value in module.named_parameters() if value.requires_grad]

    def steps(self, params: dict[str, Tensor], epoch: Epoch) -> Iterator[dict[str, Tensor]]:
        """See ``Path.steps``. Running statistics in ``params`` move along."""
        module = copy.deepcopy(self.module)  # threads must not swap parameters in one module
        for batch in batches(self.x, self.y, epoch):
            parts = [self._gradient(module, params, batch, row) for row in range(len(epoch.models))]
            yield {name: torch.stack([part[i] for part in parts]) for i, name in enumerate(self.trained)}

    def _gradient(
        self, module: nn.Module, params: Mapping[str, Tensor], batch: Batch, row: int
    ) -> tuple[Tensor, ...]:
        state = {name: value[row] for name, value in params.items()}
        trained = [state[name].detach().requires_grad_() for name in self.trained]
        state.update(zip(self.trained, trained, strict=True))
        with torch.enable_grad(), torch.random.fork_rng(devices=[], enabled=self.draws):
            if self.draws:
                key = (batch.epoch.seed, batch.epoch.models[row], batch.epoch.number, batch.number)
                torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> 1))
            outputs = functional_call(module, state, (batch.x[row],))
            loss = self.loss.per_sample(columns(outputs), batch.y[row]).mean()
            return torch.autograd.grad(loss, trained)

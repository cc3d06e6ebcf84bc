"""Any module that torch.func can stack: batched autograd, ``vmap(grad)``."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from discreet._types import Num
from discreet.losses import Loss
from discreet.outputs import columns
from discreet.training_paths import Epoch, batches

__all__ = ["Func"]


class Func:
    """A path for one module without random layers and running statistics, and one data set.

    Args:
        module: The architecture; its own parameters are not used.
        x: Inputs.
        y: Labels.
        loss: What is minimised.
    """

    transposed: frozenset[str] = frozenset()

    def __init__(
        self,
        module: nn.Module,
        x: Num[Tensor, " sample *features"],
        y: Num[Tensor, " sample *target"],
        loss: Loss,
    ) -> None:
        self.module, self.x, self.y, self.loss = module, x, y, loss
        self.trained = {name for name, value in module.named_parameters() if value.requires_grad}

    def steps(self, params: dict[str, Tensor], epoch: Epoch) -> Iterator[dict[str, Tensor]]:
        """See ``Path.steps``."""
        module = copy.deepcopy(self.module)  # threads must not swap parameters in one module

        def mean_loss(trained: dict[str, Tensor], fixed: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            outputs = functional_call(module, {**trained, **fixed}, (x,))
            return self.loss.per_sample(columns(outputs), y).mean()

        gradients = vmap(grad(mean_loss))
        trained = {name: value for name, value in params.items() if name in self.trained}
        fixed = {name: value for name, value in params.items() if name not in self.trained}
        for batch in batches(self.x, self.y, epoch):
            yield gradients(trained, fixed, batch.x, batch.y)

"""Ways to get the gradients of a stack of models. All give the same numbers up to rounding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from torch import Tensor

from discreet._types import Int, Num

__all__ = ["Batch", "Epoch", "Gradients", "Path", "batches"]


@dataclass(frozen=True)
class Epoch:
    """One pass of some models over their subsets.

    Attributes:
        number: From 1.
        models: Ids of the models, one a row of the stack.
        samples: Which samples each model sees, in the order in which it sees them.
        batch_size: Samples a step.
        seed: Of the whole training, for layers that draw at random.
    """

    number: int
    models: tuple[int, ...]
    samples: Int[Tensor, "model n"]
    batch_size: int
    seed: int


@dataclass(frozen=True)
class Batch:
    """What every model of a stack sees in one step.

    Attributes:
        x: Inputs.
        y: Labels.
        samples: Their positions in the data.
        epoch: The pass it belongs to.
        number: Of the step within the epoch, from 0.
    """

    x: Num[Tensor, " model batch *features"]
    y: Num[Tensor, " model batch *target"]
    samples: Int[Tensor, "model batch"]
    epoch: Epoch
    number: int


Gradients = Callable[[dict[str, Tensor], Batch], dict[str, Tensor]]


@runtime_checkable
class Path(Protocol):
    """Gradients of each model's mean loss, batch after batch.

    Attributes:
        transposed: Names of the tensors that this path keeps with their last two axes swapped.
    """

    transposed: frozenset[str]

    def steps(self, params: dict[str, Tensor], epoch: Epoch) -> Iterator[dict[str, Tensor]]:
        """Yield the gradient at ``params`` as they are by then: the caller updates them in place in between."""
        ...


def batches(
    x: Num[Tensor, " sample *features"], y: Num[Tensor, " sample *target"], epoch: Epoch
) -> Iterator[Batch]:
    """Cut an epoch into batches and fetch their samples."""
    for number, rows in enumerate(epoch.samples.split(epoch.batch_size, dim=1)):
        flat = rows.reshape(-1)
        yield Batch(
            x.index_select(0, flat).view(*rows.shape, *x.shape[1:]),
            y.index_select(0, flat).view(*rows.shape, *y.shape[1:]),
            rows,
            epoch,
            number,
        )

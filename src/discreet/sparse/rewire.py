"""One update of the masks: some weights are dropped, as many grow, in every layer and every model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from discreet._types import Bool, Float, Int
from discreet.model_seeds import stream
from discreet.sparse._errors import SparseError
from discreet.sparse.counts import portion
from discreet.sparse.grow_rules import Grow
from discreet.sparse.prune_rules import Prune

__all__ = ["GROW", "Rewired", "rewire"]

GROW = 3  # what ``stream`` draws for here
_SAMPLE = 1024


@dataclass(frozen=True, eq=False)
class Rewired:
    """The outcome of an update.

    Attributes:
        masks: Bools [model, …] as they are now, new tensors.
        grown: Weights that begin anew; with regrowth also those that were dropped and taken back.
        exchanged: For each tensor how many weights of each model were dropped, and as many grown.
    """

    masks: Mapping[str, Tensor]
    grown: Mapping[str, Tensor]
    exchanged: Mapping[str, Int[Tensor, " model"]]

    def settle(self, stack: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """A copy of weights or of an optimizer's slot with 0 for what is not in use and for what begins anew."""
        return {
            name: value.masked_fill(self._void[name], 0) if name in self.masks else value.clone()
            for name, value in stack.items()
        }

    @cached_property
    def _void(self) -> dict[str, Tensor]:
        return {name: ~mask | self.grown[name] for name, mask in self.masks.items()}


def rewire(
    masks: Mapping[str, Tensor],
    params: Mapping[str, Tensor],
    prune: Prune,
    grow: Grow,
    rate: float,
    *,
    models: Sequence[int],
    time: int = 0,
    seed: int = 0,
    gradients: Mapping[str, Tensor] | None = None,
    regrow: bool = False,
    rows: Sequence[int] | None = None,
) -> Rewired:
    """Exchange weights; each model's outcome depends on itself alone.

    Of a tensor with k weights in use floor(rate · k) are dropped, or fewer: as many as the prune rule is ready to
    drop and the grow rule to replace. What is in use afterwards is k again.

    Args:
        masks: Bools [model, …].
        params: The stack; left alone.
        prune: Which weights go.
        grow: Which come.
        rate: Share of the weights in use that is exchanged, 0 to 1.
        models: Ids of the models.
        time: Of the update, for the random numbers.
        seed: Of the whole training.
        gradients: Of the mean loss with respect to all weights of the masked tensors, if ``grow`` needs them.
        regrow: Whether a weight may grow in the update that dropped it.
        rows: Models to change; None: all.

    Raises:
        SparseError: Weights, gradients or a rule's numbers that cannot be ordered; a rate that is none.

    Example:
        >>> from discreet.sparse.grow_rules import parse as grow
        >>> from discreet.sparse.prune_rules import parse as prune
        >>> mask, weight = torch.tensor([[True, True, False, False]]), torch.tensor([[3.0, -1.0, 0.0, 0.0]])
        >>> slope = torch.tensor([[0.0, 9.0, 0.1, -0.7]])
        >>> rules = prune("magnitude"), grow("gradient")
        >>> rewire({"w": mask}, {"w": weight}, *rules, 0.5, models=[0], gradients={"w": slope}).masks["w"].tolist()
        [[True, False, False, True]]
    """
    if not 0 <= rate <= 1:
        raise SparseError(f"rate: expected a share from 0 to 1, got {rate}")
    if grow.needs_gradient and (gradients is None or any(name not in gradients for name in masks)):
        raise SparseError(f"gradients: {grow} needs the gradient of every masked tensor: {', '.join(masks)}")
    new = {name: mask.clone(memory_format=torch.contiguous_format) for name, mask in masks.items()}
    grown = {name: torch.zeros_like(mask) for name, mask in new.items()}
    exchanged = {name: torch.zeros(len(models), dtype=torch.int64) for name in masks}
    for number, (name, mask) in enumerate(masks.items()):
        for row in range(len(models)) if rows is None else rows:
            layer = _Layer(
                f"{name!r} of model {models[row]}",
                params[name][row].detach().flatten(),
                mask[row].flatten(),
                gradients[name][row].flatten() if grow.needs_gradient and gradients is not None else None,
            )
            draw = stream(seed, models[row], GROW, time, number)
            dropped, taken = layer.exchange(prune, grow, rate, regrow, draw)
            new[name][row].view(-1)[dropped] = False
            new[name][row].view(-1)[taken] = True
            grown[name][row].view(-1)[taken] = True
            exchanged[name][row] = len(dropped)
    return Rewired(new, grown, exchanged)


@dataclass(frozen=True, eq=False)
class _Layer:
    """One masked tensor of one model, flat."""

    what: str
    weight: Float[Tensor, " weight"]
    active: Bool[Tensor, " weight"]
    gradient: Float[Tensor, " weight"] | None

    def exchange(
        self, prune: Prune, grow: Grow, rate: float, regrow: bool, draw: np.random.Generator
    ) -> tuple[Int[Tensor, " exchanged"], Int[Tensor, " exchanged"]]:
        """Places of what is dropped and of what grows: as many."""
        on = self.active.numpy(force=True)
        active, closed = np.flatnonzero(on), np.flatnonzero(~on)
        least = self._read(prune, prune.worth(self.weight, self.active), active)
        most = min(portion(rate, len(active)), int((least < np.inf).sum()))
        dropped = active[_lowest(least, most)]
        free = np.union1d(closed, dropped) if regrow else closed
        is_free = ~self.active
        if regrow:
            is_free[torch.from_numpy(dropped)] = True
        worth = -self._read(grow, grow.worth(is_free, self.gradient, draw), free)
        if int((worth < np.inf).sum()) < most:
            most = int((worth[~on[free]] < np.inf).sum())
            dropped = active[_lowest(least, most)]
            worth[on[free] & ~np.isin(free, dropped)] = np.inf
        return torch.from_numpy(dropped), torch.from_numpy(free[_lowest(worth, most)])

    def _read(
        self, rule: Prune | Grow, worth: Tensor, places: Int[np.ndarray, " place"]
    ) -> Float[np.ndarray, " place"]:
        """What a rule says of some weights."""
        if worth.shape != self.active.shape:
            raise SparseError(
                f"{rule} must give one number for each of {len(self.active)} weights of {self.what}, got shape"
                f" {list(worth.shape)}"
            )
        values = worth if worth.dtype == torch.float64 else worth.float()  # NumPy has no bfloat16
        read = values.numpy(force=True)[places]
        wrong = int(np.isnan(read).sum())
        if wrong:
            raise SparseError(f"{rule} cannot order {self.what}: {wrong} of its numbers are NaN")
        return read


def _lowest(worth: Float[np.ndarray, " place"], count: int) -> Int[np.ndarray, " lowest"]:
    """Where the so many lowest are; of equal ones the first."""
    if not count:
        return np.zeros(0, np.int64)
    edge = _edge(worth, count)
    below = np.flatnonzero(worth < edge)
    return np.concatenate([below, np.flatnonzero(worth == edge)[: count - len(below)]])


def _edge(worth: Float[np.ndarray, " place"], count: int) -> np.floating:
    """The count-th lowest; looked for among few, where a sample tells how low it must be."""
    sample = worth[:: max(1, len(worth) // _SAMPLE)]
    rank = int(1.2 * len(sample) * count / len(worth)) + 24
    if rank < len(sample) // 2:
        few = worth[worth <= np.partition(sample, rank)[rank]]
        worth = few if len(few) >= count else worth
    return np.partition(worth, count - 1)[count - 1]

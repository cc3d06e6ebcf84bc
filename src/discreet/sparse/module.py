"""One module in a training loop of one's own: masks as buffers, applied to weights, gradients and optimizer slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from discreet.sparse._errors import SparseError
from discreet.sparse.counts import counts
from discreet.sparse.maskable import Maskable, maskable
from discreet.sparse.masks import check_masks, check_zeros, draw_masks, rescale
from discreet.sparse.plan import Plan
from discreet.sparse.rewire import rewire

__all__ = ["Masked", "attach"]


def attach(module: nn.Module, plan: Plan, *, seed: int = 0, model_id: int = 0) -> Masked:
    """Make a module sparse, in place.

    Each masked weight gets a buffer beside it (``"weight_mask"``), so masks are saved and loaded with the state dict.
    They are those that ``train_sparse`` draws for the model of this seed and id.

    Raises:
        SparseError: As ``maskable`` and ``counts``; or the module is masked already.

    Example:
        >>> masked = attach(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), Plan(0.5))
        >>> optimizer = torch.optim.SGD(masked.module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
        >>> masked.module(torch.randn(3, 8)).square().mean().backward()
        >>> masked.step(optimizer)
        >>> int((masked.module[0].weight != 0).sum())
        13
    """
    found = maskable(module, plan.include, plan.exclude)
    kept = counts(found.shapes, plan.density, plan.allocation)
    for name in found.shapes:
        if _buffer(name) in dict(module.named_buffers()):
            raise SparseError(f"module: {name!r} is masked already")
    wanted = not found.normed if plan.rescale is None else plan.rescale
    masks = draw_masks(found.shapes, kept, [model_id], seed=seed)
    masked = Masked(module, plan, found, kept, seed, model_id)
    with torch.no_grad():
        weights = {name: parameter.detach() for name, parameter in masked.parameters.items()}
        scaled = rescale(weights, found.shapes, kept) if wanted else weights
        for name, parameter in masked.parameters.items():
            parameter.copy_(scaled[name])
            owner, _, leaf = name.rpartition(".")
            mask = masks[name][0].to(parameter.device)
            module.get_submodule(owner).register_buffer(f"{leaf}_mask", mask)
    masked.settle()
    return masked


@dataclass(frozen=True, eq=False)
class Masked:
    """A module with masks. For a copy of the module use ``dataclasses.replace(masked, module=copy)``.

    Attributes:
        module: The module.
        plan: How it is sparse; its schedule counts in what ``update`` is given.
        maskable: What is masked.
        counts: How many weights of each tensor are in use.
        seed, model_id: Of the random numbers.
    """

    module: nn.Module
    plan: Plan
    maskable: Maskable
    counts: Mapping[str, int]
    seed: int
    model_id: int

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The masked parameters."""
        return {name: self.module.get_parameter(name) for name in self.maskable.shapes}

    @property
    def masks(self) -> dict[str, Tensor]:
        """The masks: bools, themselves and not copies."""
        return {name: self.module.get_buffer(_buffer(name)) for name in self.maskable.shapes}

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """``optimizer.step()`` that changes only what is in use.

        Raises:
            SparseError: The optimizer does not hold a masked parameter.
        """
        masks = self.masks
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                parameter.grad.masked_fill_(~masks[name], 0)
        optimizer.step()
        self.settle(optimizer)

    @torch.no_grad()
    def settle(self, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Set to 0, in place, the weights that are not in use and what the optimizer remembers of them.

        Args:
            optimizer: Every slot of the parameter's shape is masked, whatever its name.

        Raises:
            SparseError: The optimizer does not hold a masked parameter.
        """
        closed = {name: ~mask for name, mask in self.masks.items()}
        for name, tensor in self._tensors(optimizer):
            tensor.masked_fill_(closed[name], 0)

    def gradients(self, losses: Iterable[Callable[[], Tensor]]) -> dict[str, Tensor]:
        """The mean gradient of some losses with respect to all weights of the masked tensors.

        Gradients and buffers (running statistics) of the module are afterwards as they were.

        Args:
            losses: Each runs the module on a batch and returns its mean loss.

        Raises:
            SparseError: No loss.
        """
        buffers = {name: value.clone() for name, value in self.module.named_buffers()}
        parameters = self.parameters
        total = {name: torch.zeros_like(value) for name, value in parameters.items()}
        many = 0
        try:
            for loss in losses:
                many += 1
                with torch.enable_grad():
                    found = torch.autograd.grad(loss(), list(parameters.values()))
                for sum_, gradient in zip(total.values(), found, strict=True):
                    sum_ += gradient
        finally:
            with torch.no_grad():
                for name, value in self.module.named_buffers():
                    value.copy_(buffers[name])
        if not many:
            raise SparseError("losses: expected at least one, got none")
        return {name: sum_ / many for name, sum_ in total.items()}

    @torch.no_grad()
    def update(
        self,
        optimizer: torch.optim.Optimizer,
        time: int,
        total: int,
        gradients: Mapping[str, Tensor] | None = None,
    ) -> dict[str, int]:
        """Exchange weights as the plan says.

        Args:
            optimizer: What it remembers of weights that begin anew is forgotten.
            time: Steps or epochs done; nothing happens when it is none of the plan's times.
            total: Of the whole training, in the same unit.
            gradients: What ``gradients`` returned, if the grow rule needs them.

        Returns:
            How many weights of each tensor were exchanged; empty when no update is due.

        Raises:
            SparseError: As ``rewire``, or something else changed masks or weights.
        """
        if time not in self.plan.times(total):
            return {}
        self.check()
        done = rewire(
            {name: mask[None] for name, mask in self.masks.items()},
            {name: value.detach()[None] for name, value in self.parameters.items()},
            *self.plan.rules(),
            self.plan.schedule.rate(time, total),
            models=[self.model_id],
            time=time,
            seed=self.seed,
            gradients=None if gradients is None else {name: value[None] for name, value in gradients.items()},
            regrow=self.plan.regrow,
        )
        for name, mask in self.masks.items():
            mask.copy_(done.masks[name][0])
        self.settle(optimizer)
        for name, tensor in self._tensors(optimizer):
            tensor.masked_fill_(done.grown[name][0], 0)
        self.check()
        return {name: int(many[0]) for name, many in done.exchanged.items()}

    def check(self) -> None:
        """Refuse masks with other counts than the plan's, and weights that are not 0 outside them.

        Raises:
            SparseError: Naming the tensor.
        """
        masks = {name: mask[None] for name, mask in self.masks.items()}
        check_masks(masks, self.maskable.shapes, self.counts, [self.model_id])
        weights = {name: value.detach()[None] for name, value in self.parameters.items()}
        check_zeros(weights, masks, [self.model_id])

    def _tensors(self, optimizer: torch.optim.Optimizer | None) -> list[tuple[str, Tensor]]:
        """Masked weights and everything of their shape that an optimizer keeps of them."""
        parameters = self.parameters
        found: list[tuple[str, Tensor]] = list(parameters.items())
        if optimizer is None:
            return found
        held = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for name, parameter in parameters.items():
            if id(parameter) not in held:
                raise SparseError(
                    f"optimizer: it does not hold {name!r}, which is masked; make it from this module's parameters"
                )
            slots = optimizer.state.get(parameter, {}).values()
            found += [
                (name, each) for each in slots if isinstance(each, Tensor) and each.shape == parameter.shape
            ]
        return found


def _buffer(name: str) -> str:
    return f"{name}_mask"

"""Evaluation samples as a training library hands them over: batches, and how a model is asked about one."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._spread import one_torch_thread
from discreet.forward import Stack, count
from discreet.losses import LOSSES, check_labels
from discreet.outputs import columns
from discreet.signals import USUAL, signals

__all__ = ["Batches", "measure_batches", "tensors_of"]


@dataclass(frozen=True, eq=False)
class Batches:
    """Samples in batches of any form.

    Attributes:
        parts: Batches, whose tensors have a leading axis of samples. A list, or a sequence that reads a batch when
            asked for it: the next one is then read while this one is computed on.
        ask: ``(module, batch) -> outputs`` [sample] or [sample, out]. It is given a copy of the module, in eval mode
            and without gradients, and moves the batch to where that is.

    Raises:
        ValueError: No batch, or one without a tensor.

    Example:
        >>> held = Batches([torch.zeros(3, 8), torch.ones(2, 8)], lambda module, batch: module(batch))
        >>> len(held), held.outputs(nn.Linear(8, 4)).shape
        (5, torch.Size([5, 4]))
    """

    parts: Sequence[Any]
    ask: Callable[[nn.Module, Any], Tensor]

    def __post_init__(self) -> None:
        if not len(self.parts):
            raise ValueError("x: expected at least one batch, got none")
        for number, part in enumerate(self.parts):
            if next(tensors_of(part), None) is None:
                raise ValueError(f"x: batch {number} holds no tensor")

    def __len__(self) -> int:
        return sum(len(next(tensors_of(part))) for part in self.parts)

    def outputs(self, module: nn.Module) -> Tensor:
        """Raw outputs [sample, out] on the CPU, of a module that is in eval mode already."""
        with torch.no_grad():
            return torch.cat([columns(self.ask(module, part)).detach().cpu() for part in _ahead(self.parts)])

    def digest(self) -> str:
        """SHA-256 of all tensors, in their order."""
        whole = hashlib.sha256()
        for part in self.parts:
            for value in tensors_of(part):
                value = value.detach().cpu().contiguous()
                whole.update(f"{tuple(value.shape)}{value.dtype};".encode())
                whole.update(value.reshape(-1).view(torch.uint8).numpy().data)
        return whole.hexdigest()


def _ahead(parts: Sequence[Any]) -> Iterator[Any]:
    """All of them; of what is not in memory the next one is read meanwhile."""
    if isinstance(parts, list | tuple):
        yield from parts
        return
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(parts.__getitem__, 0)
        for following in range(1, len(parts) + 1):
            part = coming.result()
            if following < len(parts):
                coming = reader.submit(parts.__getitem__, following)
            yield part


def tensors_of(batch: Any) -> Iterator[Tensor]:
    """Tensors in mappings, lists and tuples, however deep."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from tensors_of(value)
    elif isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
        for value in batch:
            yield from tensors_of(value)


def measure_batches(
    model: nn.Module,
    variants: Mapping[str, Stack],
    x: Batches,
    y: Tensor,
    task: str,
    dtype: type[np.floating] = np.float64,
) -> dict[str, np.ndarray]:
    """Measure models one after the other; see ``measure.measure_stack``, which is faster where it can be used.

    Args:
        model: The architecture; it is copied.
        variants: For each variant a stack.
        x: The samples.
        y: Their labels.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        dtype: Of the result; computed in float64.

    Returns:
        For each signal [model, variant, sample].

    Raises:
        ValueError: Labels or outputs that do not fit, or that are not finite; the message says where.
    """
    module = copy.deepcopy(model).eval()
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    found: dict[str, list[np.ndarray]] = {name: [] for name in USUAL[task]}
    models = count(list(variants.values()))
    with one_torch_thread() if _on_cpu(module) else torch.no_grad():
        for which in range(models):
            for name, stack in variants.items():
                _load(state, stack, which)
                outputs = x.outputs(module)
                _check(outputs, y, task, f"{name!r}" + (f", model {which}" if models > 1 else ""))
                for signal, values in signals(outputs, y, task).items():
                    found[signal].append(values.numpy().astype(dtype))
    shape = (models, len(variants))
    return {name: np.stack(values).reshape(*shape, -1) for name, values in found.items()}


def _load(state: Mapping[str, Tensor], stack: Stack, which: int) -> None:
    with torch.no_grad():
        for name, values in stack.items():
            state[name].copy_(values[which])


def _on_cpu(module: nn.Module) -> bool:
    return all(value.device.type == "cpu" for value in module.parameters())


def _check(outputs: Tensor, y: Tensor, task: str, which: str) -> None:
    if len(outputs) != len(y):
        raise ValueError(f"y: expected one label for each of {len(outputs)} outputs, got {len(y)}")
    check_labels("y", y, LOSSES[task], outputs.shape[-1])
    finite = torch.isfinite(outputs).all(dim=-1)
    if not bool(finite.all()):
        raise ValueError(
            f"variants: outputs of {which} are not finite in {int((~finite).sum())} of {len(finite)} samples,"
            f" first in sample {int((~finite).nonzero()[0])}"
        )

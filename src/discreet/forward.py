"""Raw outputs of many models, piece by piece, so that what is computed on stays in a core's cache."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from discreet._once import once
from discreet._spread import spread
from discreet._types import Float, Int
from discreet.device import Device
from discreet.measured import convolves, sparse_pays
from discreet.mlp import MLP
from discreet.outputs import columns
from discreet.sparse_inputs import SparseRows, density

__all__ = [
    "Inputs",
    "Model",
    "Stack",
    "collect",
    "count",
    "dtype_of",
    "inputs",
    "inputs_at",
    "perceptron",
    "stack_of",
    "visit",
]

Model = MLP | nn.Module
Stack = Mapping[str, Tensor]
Inputs = Tensor | np.ndarray | SparseRows
Use = Callable[[slice, slice, Tensor], None]

_CACHED = 1 << 18  # numbers in the widest layer of a piece: 1 MB in float32
_PIECES = 16  # pieces a task


def inputs(model: Model, x: Inputs, dtype: torch.dtype = torch.float32) -> Tensor | SparseRows:
    """Bring inputs into the form that a model is evaluated on fastest; once is enough where they are used often.

    Args:
        model: The architecture.
        x: Inputs, [sample, features] for a multilayer perceptron.
        dtype: The models' floating type, into which floating inputs (for a perceptron: all) are converted.

    Returns:
        Sparse rows for a perceptron on wide rows that are mostly zero, else a tensor.

    Raises:
        ValueError: No sample, or another width than the perceptron's.
    """
    if not len(x):
        raise ValueError("x: expected at least one sample, got none")
    if isinstance(x, SparseRows):
        return x
    x = torch.as_tensor(x)
    network = perceptron(model)
    if network is None:
        return x.to(dtype) if x.is_floating_point() else x
    if x.ndim != 2 or x.shape[1] != network.widths[0]:
        raise ValueError(f"x: expected shape [sample, {network.widths[0]}], got {list(x.shape)}")
    x = x.to(dtype)
    return SparseRows.of(x) if sparse_pays(x.shape[1], density(x)) else x


def inputs_at(
    model: Model, x: Tensor, rows: Int[Tensor, " taken"], dtype: torch.dtype
) -> Tensor | SparseRows:
    """What ``inputs`` makes of some samples; packed once where the data are ``unchanged``."""
    what = ("rows at", perceptron(model) is None, dtype, rows.numpy().tobytes())
    return once(x, what, lambda: inputs(model, x[rows], dtype), lambda made: isinstance(made, SparseRows))


def dtype_of(stack: Stack) -> torch.dtype:
    """The floating type of a stack's parameters."""
    floating = (value.dtype for value in stack.values() if value.is_floating_point())
    return next(floating, torch.float32)


def stack_of(module: nn.Module) -> dict[str, Tensor]:
    """A module's parameters and buffers as a stack of one model, as a copy."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: value.detach()[None].clone() for name, value in named}


def perceptron(model: Model) -> MLP | None:
    """The model as an ``MLP`` if it is one."""
    return model if isinstance(model, MLP) else MLP.of(model)


def count(stacks: Sequence[Stack]) -> int:
    """Number of models, the same in every tensor of every stack.

    Raises:
        ValueError: It is not the same, or it is zero.
    """
    counts = sorted({len(value) if value.ndim else 0 for stack in stacks for value in stack.values()})
    if len(counts) != 1 or not counts[0]:
        raise ValueError(f"params: expected one number of models in all tensors, at least 1, got {counts}")
    return counts[0]


def check_names(model: Model, stack: Stack) -> None:
    """Refuse a stack that does not give every parameter of the model, or gives others.

    Raises:
        ValueError: Naming the first missing, unknown or misshapen tensor.
    """
    module = model.module() if isinstance(model, MLP) else model
    wanted = {name: value.shape for name, value in module.named_parameters()}
    known = wanted | {name: value.shape for name, value in module.named_buffers()}
    for name in wanted:
        if name not in stack:
            raise ValueError(f"params: {name!r} is missing; there are {', '.join(stack)}")
    for name, value in stack.items():
        if name not in known:
            raise ValueError(f"params: the model has no {name!r}; it has {', '.join(known)}")
        if value.shape[1:] != known[name]:
            wants = ", ".join(["model", *map(str, known[name])])
            raise ValueError(f"params: expected shape [{wants}] for {name!r}, got {list(value.shape)}")


def visit(
    model: Model,
    stacks: Sequence[Stack],
    x: Tensor | SparseRows,
    use: Use,
    workers: int | None,
    on: Device = Device(),  # noqa: B008 (frozen)
) -> None:
    """Compute all outputs in eval mode, without gradients.

    Args:
        model: The architecture. A module is copied; buffers that the stacks lack are its own.
        stacks: Stacks of the same number of models.
        x: What ``inputs`` returns.
        use: Called from several threads with a range of models (counted through all stacks), a range of rows, and
            their outputs [model, row, out], on the processor.
        workers: Threads; None: one a core. Pieces, and so the outputs, do not depend on it. Elsewhere than on the
            processor two: one brings the next rows while the other's are computed on.
        on: Where.
    """
    models, rows = len(stacks) * count(stacks), len(x)
    for stack in stacks:
        check_names(model, stack)
    place = on.of(stacks)
    if place.type != "cpu":
        workers = 2
        x = x.times(torch.eye(x.width)) if isinstance(x, SparseRows) else x
    way = _way(model, x)
    span = way.rows * _PIECES
    tasks = [
        (slice(first, min(first + way.models, models)), slice(start, min(start + span, rows)))
        for first in range(0, models, way.models)
        for start in range(0, rows, span)
    ]

    def work(task: tuple[slice, slice]) -> None:
        which, where = task
        forward = way.bind({name: value.to(place) for name, value in _take(stacks, which).items()})
        edges = [*range(where.start, where.stop, way.rows), where.stop]
        with on.context(place):
            pieces = [
                forward(x.part(start, stop) if isinstance(x, SparseRows) else x[start:stop].to(place))
                for start, stop in pairwise(edges)
            ]
        found = torch.cat(pieces, dim=1).cpu()
        use(which, where, found.float() if on.precision == "mixed" else found)

    spread(work, tasks, workers)


def collect(
    model: Model,
    params: Stack,
    x: Tensor | SparseRows,
    workers: int | None,
    on: Device = Device(),  # noqa: B008 (frozen)
) -> Float[Tensor, "model sample out"]:
    """All outputs of a stack in one tensor; see ``visit``."""
    pieces: dict[tuple[int, int], Tensor] = {}

    def keep(models: slice, rows: slice, outputs: Tensor) -> None:
        pieces[models.start, rows.start] = outputs

    visit(model, [params], x, keep, workers, on)
    firsts = sorted({first for first, _ in pieces})
    bands = [[pieces[key] for key in sorted(pieces) if key[0] == first] for first in firsts]
    return torch.cat([torch.cat(band, dim=1) for band in bands])


def _take(stacks: Sequence[Stack], which: slice) -> dict[str, Tensor]:
    """Models of several stacks as one stack, counted through all of them."""
    size = count(stacks)
    parts = [
        (stack, max(which.start - number * size, 0), min(which.stop - number * size, size))
        for number, stack in enumerate(stacks)
    ]
    cut = [(stack, start, stop) for stack, start, stop in parts if start < stop]
    return {name: torch.cat([stack[name][start:stop] for stack, start, stop in cut]) for name in stacks[0]}


@runtime_checkable
class _Way(Protocol):
    """How a piece is computed, and how large it is."""

    models: int
    rows: int

    def bind(self, params: dict[str, Tensor]) -> Callable[[Any], Tensor]:
        """The forward pass of these models."""
        ...


def _way(model: Model, x: Tensor | SparseRows) -> _Way:
    network = model if isinstance(model, MLP) else MLP.of(model)
    if network is not None:
        return _Sparse(network) if isinstance(x, SparseRows) else _Dense(network, len(x))
    if isinstance(x, SparseRows) or isinstance(model, MLP):
        raise ValueError("x: sparse rows are for multilayer perceptrons only")
    return _Single(model) if any(map(convolves, model.modules())) else _Batched(model)


class _Dense:
    def __init__(self, network: MLP, rows: int) -> None:
        self.rows = min(512, rows)
        self.models = max(1, _CACHED // (self.rows * max(network.widths[1:])))
        self.network = network

    def bind(self, params: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
        return partial(self.network.forward, params)


class _Sparse:
    models, rows = 1, 8192  # the copy of the weight by columns is spread over many rows

    def __init__(self, network: MLP) -> None:
        self.network = network

    def bind(self, params: dict[str, Tensor]) -> Callable[[SparseRows], Tensor]:
        weight, bias = (params[name][0] for name in self.network.layers[0])
        by_column = weight.T.contiguous()

        def forward(x: SparseRows) -> Float[Tensor, "1 rows out"]:
            return self.network.upper(params, x.times(by_column).add_(bias)[None])

        return forward


class _Batched:
    models, rows = 16, 256

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def bind(self, params: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
        module = _moved(self.module, params)  # threads swap parameters in it

        def one(params: dict[str, Tensor], x: Tensor) -> Tensor:
            return columns(functional_call(module, params, (x,)))

        return partial(vmap(one, in_dims=(0, None)), params)


class _Single:
    models, rows = 1, 256

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def bind(self, params: dict[str, Tensor]) -> Callable[[Tensor], Tensor]:
        module = _moved(self.module, params)
        state = {name: value[0] for name, value in params.items()}
        return lambda x: columns(functional_call(module, state, (x,)))[None]


def _moved(module: nn.Module, params: Stack) -> nn.Module:
    """A copy in eval mode where the parameters are, for the buffers that they lack."""
    return copy.deepcopy(module).eval().to(next(iter(params.values())).device)

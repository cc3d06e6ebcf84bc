"""Loss, margin and other signals of every sample under every model: the only place with forward passes.

Models are evaluated as they would be used: dropout off, BatchNorm on its running statistics. The module given is
never touched. A result does not depend on how many models, samples or threads are evaluated together, up to the
rounding of the products (logits agree within 1e-5 of their size in float32, 1e-13 in float64; same call, same bits).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.device import Device
from discreet.forward import Inputs, Model, Stack, collect, count, dtype_of, inputs, stack_of, visit
from discreet.hidden import penultimate
from discreet.losses import LOSSES, as_labels, check_labels
from discreet.queries import Query
from discreet.signals import USUAL, check_names, signals
from discreet.sparse_inputs import SparseRows

__all__ = ["inputs", "logits", "measure_stack", "signals", "stack_of"]


def logits(
    model: Model, params: Stack, x: Inputs, *, workers: int | None = None
) -> Float[Tensor, " model sample *out"]:
    """Raw outputs of every model of a stack on every sample.

    Args:
        model: The architecture; buffers that ``params`` lacks are the module's own.
        params: Tensors with a leading model axis.
        x: Inputs, or what ``inputs`` made of them.
        workers: Threads; None: one a core. Results do not depend on it.

    Returns:
        [model, sample] for a model with one output, else [model, sample, out].

    Raises:
        ValueError: Shapes that do not fit.

    Example:
        >>> from discreet.mlp import MLP
        >>> network = MLP((8, 4, 1))
        >>> logits(network, network.init([0, 1]), torch.zeros(5, 8)).shape
        torch.Size([2, 5])
    """
    outputs = collect(model, params, inputs(model, x, dtype_of(params)), workers)
    return outputs[..., 0] if outputs.shape[-1] == 1 else outputs


def measure_stack(
    model: Model,
    variants: Mapping[str, Stack],
    x: Inputs,
    y: Num[Tensor, " sample *target"] | np.ndarray,
    task: str = "bce",
    *,
    which: Sequence[str] | None = None,
    queries: Mapping[str, Query] | None = None,
    dtype: type[np.floating] = np.float64,
    workers: int | None = None,
    on: Device = Device(),  # noqa: B008 (frozen)
) -> dict[str, Float[np.ndarray, "model variant *query sample *wide"]]:
    """Measure several variants of several models; all of them go through the same batched products.

    Args:
        model: The architecture.
        variants: For each variant a stack; all stacks have the same number of models.
        x: Inputs, or what ``inputs`` made of them.
        y: Labels of the samples.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        which: Signals, see ``signals``, and besides them ``outputs`` (raw, [..., sample, class]) and
            ``hidden`` (what the last linear layer is given, [..., sample, unit]); None: ``loss`` and, but for
            ``mse``, ``margin``.
        queries: Ways to ask about each sample, such as ``queries.MIRRORED``: an axis more before that of the sample.
        dtype: Of the result; computed in float64.
        workers: Threads; None: one a core. Results do not depend on it.
        on: Where the forward passes run, and how precisely; by default where the parameters are.

    Returns:
        For each name [model, variant, sample], with queries [model, variant, query, sample].

    Raises:
        ValueError: Shapes or labels that do not fit, or outputs that are not finite; the message says where.

    Example:
        >>> from discreet.mlp import MLP
        >>> network = MLP((8, 4, 1))
        >>> found = measure_stack(network, {"full": network.init([0, 1])}, torch.zeros(5, 8), torch.ones(5))
        >>> found["loss"].shape
        (2, 1, 5)
    """
    if queries is not None:
        if not queries:
            raise ValueError("queries: expected at least one way to ask, got none")
        if isinstance(x, SparseRows):
            raise ValueError("queries: expected dense inputs to transform, got sparse rows")
        asked = [
            measure_stack(
                model,
                variants,
                query(torch.as_tensor(x)),
                y,
                task,
                which=which,
                dtype=dtype,
                workers=workers,
                on=on,
            )
            for query in queries.values()
        ]
        return {name: np.stack([each[name] for each in asked], axis=2) for name in asked[0]}
    stacks, target = list(variants.values()), as_labels(y)
    models = count(stacks)
    x = inputs(model, x, dtype_of(stacks[0]))
    if task not in LOSSES:
        raise ValueError(f"task: expected one of {', '.join(LOSSES)}, got {task!r}")
    names = USUAL[task] if which is None else tuple(which)
    check_names(USUAL[task] if which is None else which, task)
    wide = {"outputs": _check(model, stacks[0], x, target, task)}
    scalar = [name for name in names if name not in ("outputs", "hidden")]
    found = {
        name: np.empty((len(stacks) * models, len(target), *([wide[name]] if name in wide else [])), dtype)
        for name in names
        if name != "hidden"
    }

    def note(which: slice, rows: slice, outputs: Tensor) -> None:
        finite = torch.isfinite(outputs).all(dim=-1)
        if not bool(finite.all()):
            row = int((~finite).nonzero()[0, 0])
            variant, at = divmod(which.start + row, models)
            raise ValueError(
                f"variants: outputs of {list(variants)[variant]!r}, model {at}, are not finite in"
                f" {int((~finite[row]).sum())} of {finite.shape[1]} samples, first in sample"
                f" {rows.start + int((~finite[row]).nonzero()[0])}"
            )
        if "outputs" in found:
            found["outputs"][which, rows] = outputs.numpy()
        for name, values in signals(outputs, target[rows], task, scalar).items():
            found[name][which, rows] = values.numpy()

    visit(model, stacks, x, note, workers, on)
    if "hidden" in names:
        found["hidden"] = np.concatenate(
            [penultimate(model, stack, x, workers=workers, on=on).numpy().astype(dtype) for stack in stacks]
        )
    return {
        name: found[name].reshape(len(stacks), models, *found[name].shape[1:]).swapaxes(0, 1)
        for name in names
    }


def _check(model: Model, stack: Stack, x: Tensor | SparseRows, y: Tensor, task: str) -> int:
    """Refuse labels and outputs that do not fit, by the outputs of one model on one sample; return their width."""
    if len(y) != len(x):
        raise ValueError(f"y: expected one label for each of {len(x)} samples, got {len(y)}")
    probe = logits(model, {name: value[:1] for name, value in stack.items()}, _head(x), workers=1)
    width = 1 if probe.ndim == 2 else probe.shape[-1]
    check_labels("y", y, LOSSES[task], width)
    return width


def _head(x: Tensor | SparseRows) -> Tensor | SparseRows:
    return x.part(0, 1) if isinstance(x, SparseRows) else x[:1]

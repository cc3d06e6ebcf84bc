"""Loss and margin of every sample under every model: the only place with forward passes for evaluation.

Models are evaluated as they would be used: dropout off, BatchNorm on its running statistics. The module given is
never touched. A result does not depend on how many models, samples or threads are evaluated together, up to the
rounding of the products (logits agree within 1e-5 of their size in float32, 1e-13 in float64; same call, same bits).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from discreet._types import Float, Num
from discreet.forward import Inputs, Model, Stack, count, inputs, stack_of, visit
from discreet.losses import LOSSES, check_labels, margin
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
    x = inputs(model, x, _dtype(params))
    pieces: dict[tuple[int, int], Tensor] = {}

    def keep(models: slice, rows: slice, outputs: Tensor) -> None:
        pieces[models.start, rows.start] = outputs

    visit(model, [params], x, keep, workers)
    firsts = sorted({first for first, _ in pieces})
    bands = [[pieces[key] for key in sorted(pieces) if key[0] == first] for first in firsts]
    outputs = torch.cat([torch.cat(band, dim=1) for band in bands])
    return outputs[..., 0] if outputs.shape[-1] == 1 else outputs


def signals(
    outputs: Float[Tensor, "*batch sample out"], y: Num[Tensor, " sample *target"], task: str
) -> dict[str, Float[Tensor, "*batch sample"]]:
    """Loss and margin from raw outputs, computed in float64.

    Args:
        outputs: Raw outputs, [..., sample, out]; one logit is [..., sample, 1].
        y: Labels: 0 and 1 (``bce``), classes (``ce``) or targets (``mse``).
        task: ``"bce"``, ``"ce"`` or ``"mse"``.

    Returns:
        ``loss`` in nats (``mse``: squared units of ``y``), lower fits better, and, but for ``mse``, ``margin``: the
        true label's logit minus the largest other, higher fits better. One logit z stands for two logits (0, z).

    Example:
        >>> signals(torch.tensor([[-800.0]]), torch.tensor([1]), "bce")["loss"].tolist()
        [800.0]
    """
    wide = outputs.double()
    target = y.double() if task == "mse" else y
    batch = wide.shape[:-2]
    target = target.expand(*batch, *target.shape)
    found = {"loss": LOSSES[task].per_sample(wide, target)}
    if task != "mse":
        found["margin"] = margin(wide, target)
    return found


def measure_stack(
    model: Model,
    variants: Mapping[str, Stack],
    x: Inputs,
    y: Num[Tensor, " sample *target"] | Num[np.ndarray, " sample *target"],
    task: str = "bce",
    *,
    dtype: type[np.floating] = np.float64,
    workers: int | None = None,
) -> dict[str, Float[np.ndarray, "model variant sample"]]:
    """Measure several variants of several models; all of them go through the same batched products.

    Args:
        model: The architecture.
        variants: For each variant a stack; all stacks have the same number of models.
        x: Inputs, or what ``inputs`` made of them.
        y: Labels of the samples.
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        dtype: Of the result; computed in float64.
        workers: Threads; None: one a core. Results do not depend on it.

    Returns:
        ``loss`` and, but for ``mse``, ``margin``, each [model, variant, sample]: see ``signals``.

    Raises:
        ValueError: Shapes or labels that do not fit, or outputs that are not finite; the message says where.

    Example:
        >>> from discreet.mlp import MLP
        >>> network = MLP((8, 4, 1))
        >>> found = measure_stack(network, {"full": network.init([0, 1])}, torch.zeros(5, 8), torch.ones(5))
        >>> found["loss"].shape
        (2, 1, 5)
    """
    stacks, target = list(variants.values()), torch.as_tensor(y)
    models = count(stacks)
    x = inputs(model, x, _dtype(stacks[0]))
    _check(model, stacks[0], x, target, task)
    found = {
        name: np.empty((len(stacks) * models, len(target)), dtype)
        for name in (("loss",) if task == "mse" else ("loss", "margin"))
    }

    def note(which: slice, rows: slice, outputs: Tensor) -> None:
        finite = torch.isfinite(outputs).all(dim=-1)
        if not bool(finite.all()):
            row = int((~finite).nonzero()[0, 0])
            variant, at = divmod(which.start + row, models)
            raise ValueError(
                f"variants: outputs of {list(variants)[variant]!r}, model {at}, are not finite in"
                f" {int((~finite[row]).sum())} of {finite.shape[1]} samples"
            )
        for name, values in signals(outputs, target[rows], task).items():
            found[name][which, rows] = values.numpy()

    visit(model, stacks, x, note, workers)
    return {name: values.reshape(len(stacks), models, -1).swapaxes(0, 1) for name, values in found.items()}


def _dtype(stack: Stack) -> torch.dtype:
    floating = (value.dtype for value in stack.values() if value.is_floating_point())
    return next(floating, torch.float32)


def _check(model: Model, stack: Stack, x: Tensor | SparseRows, y: Tensor, task: str) -> None:
    """Refuse labels and outputs that do not fit, by the outputs of one model on one sample."""
    if task not in LOSSES:
        raise ValueError(f"task: expected one of {', '.join(LOSSES)}, got {task!r}")
    if len(y) != len(x):
        raise ValueError(f"y: expected one label for each of {len(x)} samples, got {len(y)}")
    probe = logits(model, {name: value[:1] for name, value in stack.items()}, _head(x), workers=1)
    check_labels("y", y, LOSSES[task], 1 if probe.ndim == 2 else probe.shape[-1])


def _head(x: Tensor | SparseRows) -> Tensor | SparseRows:
    return x.part(0, 1) if isinstance(x, SparseRows) else x[:1]

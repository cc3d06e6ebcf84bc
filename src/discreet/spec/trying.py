"""A model of the user's, tried on a few samples before anything long begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from discreet._types import Num
from discreet.losses import LOSSES, check_labels
from discreet.spec._errors import CalledError, SpecFileError
from discreet.spec.calls import Named
from discreet.spec.reading import Source

__all__ = ["check_classes", "check_steady", "try_model"]

_TRIED = 8  # samples on which a model is tried twice


def check_classes(y: Num[Tensor, " sample *target"], source: Source, loss: str, outputs: int) -> None:
    """Refuse labels that the loss would misread.

    Raises:
        SpecFileError: Naming the first one and its position.
    """
    try:
        check_labels("y", y, LOSSES[loss], outputs)
    except ValueError as error:
        raise SpecFileError(f"{source.at('data', 'load')}: {error}") from error


def try_model(
    build: Named,
    options: Mapping[str, Any],
    x: Num[Tensor, " sample *rest"],
    y: Num[Tensor, " sample *target"],
    loss: str,
    source: Source,
) -> None:
    """Refuse a model that nothing could be measured of, or that carries something from run to run.

    Args:
        build: Makes a model.
        options: Its arguments.
        x: All samples, at least two; the first few are used.
        y: Their labels.
        loss: ``"bce"``, ``"ce"`` or ``"mse"``.
        source: The spec.

    Raises:
        CalledError: It raised, or returned something else.
        SpecFileError: Labels that do not fit.
    """
    with torch.random.fork_rng(devices=[]):
        module = build("to make the model", options)
        if not isinstance(module, nn.Module):
            raise build.wrong("a torch module", type(module).__name__)
        _check_new(build, module, build("to make the model again", options))
        two = x[:2].clone()

        def forward() -> Any:
            with torch.no_grad():
                return module.eval()(two)

        outputs = Named(forward, f"the model of {build.path}", build.where)(
            f"on two samples of shape {list(x.shape[1:])} and type {str(x.dtype).removeprefix('torch.')}"
        )
    if not isinstance(outputs, Tensor) or outputs.ndim not in (1, 2) or len(outputs) != 2:
        got = f"shape {list(outputs.shape)}" if isinstance(outputs, Tensor) else type(outputs).__name__
        raise build.wrong("a model whose outputs are a tensor [sample, out]", got)
    if not bool(outputs.isfinite().all()):
        raise build.wrong("a model with finite outputs", "NaN or infinity on two samples")
    width = 1 if outputs.ndim == 1 else outputs.shape[1]
    if loss == "ce" and not int(y.max()) < width:
        raise build.wrong(f"a model with at least {int(y.max()) + 1} outputs, one a class", f"{width}")
    if loss == "bce" and width != 1:
        raise build.wrong("a model with one output, as the loss is bce", f"{width}")
    check_classes(y, source, loss, width)
    model = Named(lambda x: _quietly(module, x), f"the model of {build.path}", build.where)
    found = check_steady(model, x[:_TRIED])
    if loss == "ce" and width > 1 and (found >= 0).all() and np.allclose(found.sum(axis=1), 1, atol=1e-5):
        raise build.wrong("a model of raw outputs", "probabilities: they add up to 1; leave the softmax out")


def check_steady(model: Named, x: Num[Tensor, " sample *rest"]) -> np.ndarray:
    """Refuse a model whose outputs differ from call to call, or depend on what else is in the batch.

    Args:
        model: Takes ``x`` and returns outputs, a row a sample.
        x: A few samples.

    Returns:
        Its outputs.

    Raises:
        CalledError: They do, or it raised, or changed what it was given.
    """

    def outputs(rows: Tensor) -> np.ndarray:
        given = rows.clone()
        found = model("on a few samples, to see whether its outputs are steady", {"x": given})
        if not torch.equal(given, rows):
            raise CalledError(
                f"{model.where}: {model.path} changes its inputs in place, so that other variants would be measured"
                " on other samples: write x = x - mean for x -= mean, and no inplace=True in the first layer"
            )
        return np.asarray(found, np.float64)

    first, again, part = outputs(x), outputs(x), outputs(x[: max(1, len(x) // 2)])
    if not _alike(first, again):
        raise CalledError(
            f"{model.where}: {model.path} gives other outputs when it is asked about the same samples again, in eval"
            " mode: dropout that is always on (torch.nn.functional.dropout needs training=self.training), or random"
            " numbers in forward. Nothing can be measured of such a model"
        )
    if not _alike(first[: len(part)], part):
        raise CalledError(
            f"{model.where}: {model.path} gives other outputs for a sample when other samples are beside it, in eval"
            " mode: batch normalisation that does not follow eval() and takes the statistics of the batch. What is"
            " measured of such a model depends on the batch"
        )
    return first


def _check_new(build: Named, module: nn.Module, other: nn.Module) -> None:
    """Refuse models that share parameters: what one run learns would be in the next one's start."""
    if module is other:
        raise build.wrong("a new module each time", "the same one")
    if not isinstance(other, nn.Module):
        return
    known = {id(value) for value in other.parameters()}
    for name, value in module.named_parameters():
        if id(value) in known:
            raise build.wrong(
                "a module with parameters of its own each time",
                f"two that share {name!r}: what a run learns would be in the next one's start. Make every layer in"
                " the function, or copy.deepcopy one that is trained before",
            )


def _quietly(module: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.seed()
        return module.eval()(x)


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and np.allclose(
        one, other, rtol=1e-3, atol=1e-4 * (1 + np.abs(one).max())
    )

"""Loss and margin of each sample from raw outputs, never from rounded probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from discreet._types import Bool, Float, Num

__all__ = ["LOSSES", "Loss", "as_labels", "check_labels", "loss_named", "margin"]


@dataclass(frozen=True)
class Loss:
    """What is minimised.

    Attributes:
        name: ``"bce"``, ``"ce"``, ``"mse"``, or the name of a function of the user.
        per_sample: ``(outputs [..., out], y [...]) -> loss [...]`` in nats (``mse``: squared units of ``y``).
        gradient: ``(outputs, y) -> d loss / d outputs`` for each sample, same shape as outputs; None: by autograd.
    """

    name: str
    per_sample: Callable[[Tensor, Tensor], Tensor]
    gradient: Callable[[Tensor, Tensor], Tensor] | None = None


def _bce(outputs: Float[Tensor, "*batch 1"], y: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    logit = outputs[..., 0]
    # softplus(-z) and softplus(z) directly: 1 - sigmoid(z) is 0 in float32 from z = 17 on.
    return softplus(torch.where(y > 0, -logit, logit), threshold=40.0)


def _bce_gradient(outputs: Float[Tensor, "*batch 1"], y: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch 1"]:
    return outputs.sigmoid().sub_(y[..., None])


def _ce(outputs: Float[Tensor, "*batch out"], y: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    return -outputs.log_softmax(-1).gather(-1, y[..., None].long())[..., 0]


def _ce_gradient(
    outputs: Float[Tensor, "*batch out"], y: Num[Tensor, "*batch"]
) -> Float[Tensor, "*batch out"]:
    index = y[..., None].long()
    return outputs.softmax(-1).scatter_add_(-1, index, outputs.new_full((), -1.0).expand(index.shape))


def _mse(outputs: Float[Tensor, "*batch out"], y: Num[Tensor, ...]) -> Float[Tensor, "*batch"]:
    return (outputs - y.reshape(outputs.shape)).square().mean(-1)


def _mse_gradient(outputs: Float[Tensor, "*batch out"], y: Num[Tensor, ...]) -> Float[Tensor, "*batch out"]:
    return (outputs - y.reshape(outputs.shape)).mul_(2 / outputs.shape[-1])


LOSSES: Mapping[str, Loss] = {
    "bce": Loss("bce", _bce, _bce_gradient),
    "ce": Loss("ce", _ce, _ce_gradient),
    "mse": Loss("mse", _mse, _mse_gradient),
}


def loss_named(loss: str | Callable[[Tensor, Tensor], Tensor]) -> Loss:
    """The loss of this name, or a function of the user as one.

    Raises:
        ValueError: No such name.

    Example:
        >>> loss_named("bce").per_sample(torch.tensor([[200.0]]), torch.tensor([0.0]))
        tensor([200.])
    """
    if not isinstance(loss, str):
        return Loss(getattr(loss, "__name__", type(loss).__name__), loss)
    if loss not in LOSSES:
        raise ValueError(f"loss: expected one of {', '.join(LOSSES)} or a function, got {loss!r}")
    return LOSSES[loss]


def margin(outputs: Float[Tensor, "*batch out"], y: Num[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """True-label logit minus the largest other one; a single logit ``z`` stands for the two logits (0, z).

    Example:
        >>> margin(torch.tensor([[3.0], [3.0]]), torch.tensor([1, 0]))
        tensor([ 3., -3.])
    """
    if outputs.shape[-1] == 1:
        return torch.where(y > 0, outputs[..., 0], -outputs[..., 0])
    index = y[..., None].long()
    true = outputs.gather(-1, index)[..., 0]
    return true - outputs.scatter(-1, index, -torch.inf).amax(-1)


def as_labels(y: Num[Tensor, " sample *target"] | np.ndarray) -> Tensor:
    """Labels as a tensor.

    Raises:
        ValueError: They are text.
    """
    if isinstance(y, np.ndarray) and y.dtype.kind in "OUS":
        shown = ", ".join(repr(each) for each in sorted({str(each) for each in y.ravel()[:1000]})[:4])
        raise ValueError(f"y: expected numbers, got text ({shown}); number the classes from 0 on first")
    return torch.as_tensor(y)


def check_labels(
    name: str, y: Num[Tensor, " sample *rest"] | Bool[Tensor, " sample"], loss: Loss, outputs: int
) -> None:
    """Refuse labels that the loss would misread.

    Args:
        name: What to call ``y`` in the message.
        y: Labels.
        loss: The loss; one of the user's own takes any labels.
        outputs: Width of the model's output.

    Raises:
        ValueError: Wrong shape, other numbers than 0 and 1 (``bce``), than 0 … outputs - 1 (``ce``), or not finite.
    """
    if loss.name not in LOSSES or loss.per_sample is not LOSSES[loss.name].per_sample:
        return
    if loss.name == "mse":
        if y.numel() != len(y) * outputs:
            raise ValueError(f"{name}: expected [sample, {outputs}] targets for mse, got {list(y.shape)}")
        if not bool(torch.isfinite(y).all()):
            raise ValueError(f"{name}: expected finite targets, got {int((~torch.isfinite(y)).sum())} others")
        return
    if y.ndim != 1:
        raise ValueError(f"{name}: expected one label a sample, got shape {list(y.shape)}")
    if (loss.name == "bce") != (outputs == 1):
        wanted = "one output" if loss.name == "bce" else "two or more outputs"
        raise ValueError(f"loss: {loss.name} expects a model with {wanted}, got {outputs}")
    classes = max(2, outputs)
    known = (y >= 0) & (y < classes) & (y == y.to(torch.int64))
    if not bool(known.all()):
        wrong = y[~known]
        allowed = "0 and 1" if classes == 2 else f"the classes 0 to {classes - 1}"
        raise ValueError(
            f"{name}: expected {allowed}, got {wrong[0].item():g} at position {int((~known).nonzero()[0])}"
            f" ({len(wrong)} such labels)"
        )

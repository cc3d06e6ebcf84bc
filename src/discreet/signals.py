"""Per-sample signals from raw outputs: loss, margin, and what else attacks read, always from logits in float64.

A probability that rounds to 1 still has a loss, a confidence and an entropy: nothing here takes the logarithm of a
rounded probability. One logit z stands for the two logits (0, z) throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from discreet._types import Float, Num
from discreet.losses import LOSSES, margin

__all__ = ["CLASSIFICATION", "REGRESSION", "USUAL", "axes_of", "check_names", "signals"]

Outputs = Float[Tensor, "*batch sample out"]
Labels = Num[Tensor, "*batch sample"]
Signal = Float[Tensor, "*batch sample"]


def _two(outputs: Outputs) -> Float[Tensor, "*batch sample class"]:
    """Logits of all classes: (0, z) for one logit z."""
    return outputs if outputs.shape[-1] > 1 else torch.cat([torch.zeros_like(outputs), outputs], -1)


def _confidence(outputs: Outputs, y: Labels) -> Signal:
    """log p_y - log(1 - p_y) = z_y - LSE of the other logits ("Membership Inference Attacks From First
    Principles", section IV-C)."""
    wide, index = _two(outputs), y[..., None].long()
    others = wide.scatter(-1, index, -torch.inf).logsumexp(-1)
    return wide.gather(-1, index)[..., 0] - others


def _cross_entropy(outputs: Outputs, y: Labels) -> Signal:
    """-log p_y as softplus(-confidence): log-softmax rounds losses to multiples of 1e-16."""
    return softplus(-_confidence(outputs, y), threshold=40.0)


def _entropy(outputs: Outputs, y: Labels) -> Signal:
    """-sum_k p_k log p_k, in nats: it knows no label."""
    log_p = _two(outputs).log_softmax(-1)
    return -(log_p.exp() * log_p).sum(-1)


def _modified_entropy(outputs: Outputs, y: Labels) -> Signal:
    """-(1 - p_y) log p_y - sum over k != y of p_k log(1 - p_k) ("Systematic Evaluation of Privacy Risks of Machine
    Learning Models", Eq. 8)."""
    wide, index = _two(outputs), y[..., None].long()
    log_p = wide.log_softmax(-1)
    p = log_p.exp()
    top = wide.argmax(-1, keepdim=True)
    rest = wide.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True) - wide.logsumexp(-1, keepdim=True)
    # Only the top class can be so likely that 1 - p rounds to 0; for it, log(1 - p) is that of the other classes.
    log_not = torch.log1p(-p.scatter(-1, top, 0.0)).scatter(-1, top, rest)
    own = -log_not.gather(-1, index)[..., 0].exp() * log_p.gather(-1, index)[..., 0]
    return own - (p * log_not).scatter(-1, index, 0.0).sum(-1)


def _correct(outputs: Outputs, y: Labels) -> Signal:
    """1 where the largest logit is the label's alone, else 0 (ties are no hit)."""
    return (margin(outputs, y) > 0).to(outputs.dtype)


def _absolute_error(outputs: Outputs, y: Num[Tensor, ...]) -> Signal:
    """Mean over outputs of |output - y|, in units of y."""
    return (outputs - y.reshape(outputs.shape)).abs().mean(-1)


CLASSIFICATION: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "margin": margin,
    "confidence": _confidence,
    "entropy": _entropy,
    "modified_entropy": _modified_entropy,
    "correct": _correct,
}
REGRESSION: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"absolute_error": _absolute_error}
USUAL: Mapping[str, tuple[str, ...]] = {"bce": ("loss", "margin"), "ce": ("loss", "margin"), "mse": ("loss",)}
"""What is measured when nobody asks for more."""

_WIDE = {"outputs": "class", "hidden": "unit"}


def signals(
    outputs: Float[Tensor, "*batch sample out"],
    y: Num[Tensor, " sample *target"],
    task: str,
    which: Sequence[str] | None = None,
) -> dict[str, Float[Tensor, "*batch sample"]]:
    """Compute signals from raw outputs, in float64.

    Args:
        outputs: Raw outputs, [..., sample, out]; one logit is [..., sample, 1].
        y: Labels: 0 and 1 (``bce``), classes (``ce``) or targets (``mse``).
        task: ``"bce"``, ``"ce"`` or ``"mse"``.
        which: Names; None: ``loss`` and, but for ``mse``, ``margin``. All names are

            - ``loss`` in nats (``mse``: squared units of ``y``), lower fits better,
            - ``margin``: true label's logit minus the largest other, higher fits better,
            - ``confidence``: log p_y - log(1 - p_y), higher fits better,
            - ``entropy`` and ``modified_entropy`` in nats, lower is surer,
            - ``correct``: 1 or 0,
            - ``absolute_error`` (``mse``), lower fits better.

    Raises:
        ValueError: A name that this task does not have.

    Example:
        >>> signals(torch.tensor([[-800.0]]), torch.tensor([1]), "bce")["loss"].tolist()
        [800.0]
        >>> found = signals(torch.tensor([[3.0, 1.0, 1.0]]), torch.tensor([0]), "ce", ["margin", "confidence"])
        >>> {name: round(values.item(), 4) for name, values in found.items()}
        {'margin': 2.0, 'confidence': 1.3069}
    """
    names = USUAL[task] if which is None else which
    check_names(names, task, wide=())
    wide = outputs.double()
    target = y.double() if task == "mse" else y
    target = target.expand(*wide.shape[:-2], *target.shape)
    loss = _cross_entropy if task == "ce" else LOSSES[task].per_sample
    known = {"loss": loss, **(REGRESSION if task == "mse" else CLASSIFICATION)}
    return {name: known[name](wide, target) for name in names}


def check_names(names: Sequence[str], task: str, wide: Sequence[str] = tuple(_WIDE)) -> None:
    """Refuse names that a task does not have.

    Raises:
        ValueError: Naming the first unknown one and all there are.
    """
    if isinstance(names, str):
        raise ValueError(f"which: expected several names, got the one text {names!r}; put it in a list")
    known = ("loss", *(REGRESSION if task == "mse" else CLASSIFICATION), *wide)
    for name in names:
        if name not in known:
            raise ValueError(f"which: expected names among {', '.join(known)} for {task}, got {name!r}")


def axes_of(name: str, *, query: bool = False) -> tuple[str, ...]:
    """Axes of a signal in a ``Record``.

    Args:
        name: The signal.
        query: Whether samples were asked about in several ways.

    Example:
        >>> axes_of("outputs", query=True)
        ('row', 'query', 'sample', 'class')
    """
    last = (_WIDE[name],) if name in _WIDE else ()
    return ("row", *(("query",) if query else ()), "sample", *last)

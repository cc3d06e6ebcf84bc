"""How long one model takes in each form it can ship in: dense, linear layers without their zeros, ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from discreet._spread import one_torch_thread
from discreet._types import Num
from discreet.artefacts._errors import ArtefactError
from discreet.artefacts._timing import Middle, in_turns, middle
from discreet.artefacts.onnx_file import OnnxModel

__all__ = ["Latency", "latency"]


@dataclass(frozen=True)
class Latency:
    """Time of one batch.

    Attributes:
        form: Such as ``"dense"``.
        batch: Records in it.
        seconds: Median over turns.
        faster: How many times faster than the first form, turn by turn.
    """

    form: str
    batch: int
    seconds: Middle
    faster: Middle


def latency(
    forms: Mapping[str, nn.Module | OnnxModel],
    x: Num[Tensor, " rows *rest"],
    batch_sizes: Sequence[int] = (1, 64),
    *,
    turns: int = 21,
) -> tuple[Latency, ...]:
    """Measure forms of one model beside each other, in turns, on one thread.

    Args:
        forms: The first is what the others are compared with. Modules are put into eval mode for the time.
        x: Inputs; rows are repeated where there are fewer than a batch.
        batch_sizes: Records at a time.
        turns: Measurements of each.

    Raises:
        ArtefactError: No form, or an argument out of its range.

    Example:
        >>> found = latency({"dense": nn.Linear(8, 2)}, torch.randn(4, 8), [1], turns=6)
        >>> found[0].form, found[0].batch, found[0].faster.value
        ('dense', 1, 1.0)
    """
    if not forms:
        raise ArtefactError("forms: expected at least one, got none")
    if not batch_sizes or min(batch_sizes) < 1:
        raise ArtefactError(f"batch_sizes: expected at least one, each at least 1, got {list(batch_sizes)}")
    if turns < 6:
        raise ArtefactError(f"turns: expected at least 6, below which a median has no interval, got {turns}")
    before = {name: form.training for name, form in forms.items() if isinstance(form, nn.Module)}
    try:
        for form in forms.values():
            if isinstance(form, nn.Module):
                form.eval()
        with one_torch_thread(), torch.inference_mode():
            return tuple(each for size in batch_sizes for each in _measured(forms, x, size, turns))
    finally:
        for name, training in before.items():
            form = forms[name]
            if isinstance(form, nn.Module):
                form.train(training)


def _measured(forms: Mapping[str, nn.Module | OnnxModel], x: Tensor, size: int, turns: int) -> list[Latency]:
    batch = x[torch.arange(size) % len(x)]
    array = np.ascontiguousarray(batch.numpy())
    works: dict[str, Callable[[], object]] = {
        name: partial(form, batch if isinstance(form, nn.Module) else array) for name, form in forms.items()
    }
    spent = in_turns(works, turns)
    first = spent[next(iter(spent))]
    return [Latency(name, size, middle(each), middle(first / each)) for name, each in spent.items()]

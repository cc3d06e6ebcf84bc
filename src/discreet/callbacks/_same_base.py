"""Whether a model in training starts from the base that it is measured with."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from discreet.llm.model import LanguageModel, LanguageModelError

__all__ = ["is_same_base"]

# What peft, compilers and wrappers for several devices put into a parameter's name.
_WRAPPED = re.compile(
    r"(?:^|(?<=\.))(?:base_model\.model|_orig_mod|_fsdp_wrapped_module|module|base_layer|original_module)\."
)
# Training and measuring may hold one base in two types: rounded to 8 bits, or to the smallest numbers of float16.
_RELATIVE, _ABSOLUTE = 2.0**-7, 2.0**-24


def is_same_base(model: nn.Module, base: LanguageModel, *, resumed: bool) -> bool:
    """Compare the weights that a model in training has of its base with those of another copy of it.

    Those are all weights that stay frozen; without adapters, and before the first step, the others too. They may be
    in another type.

    Args:
        model: What is about to be trained.
        base: What it should start from.
        resumed: Weights that are trained have been already.

    Returns:
        False where no weight can be compared: all are quantized, spread over devices, or trained before.

    Raises:
        LanguageModelError: A weight has other values or another shape, or no name is the base's.
    """
    theirs = dict(base.module.named_parameters(remove_duplicate=False))
    mine = {_WRAPPED.sub("", name): value for name, value in model.named_parameters()}
    tuned = any("lora_" in name for name in mine)
    compared = False
    whole = {name: value for name, value in mine.items() if _is_whole(name, value)}
    for name, value in whole.items():
        other = theirs.get(name)
        if other is None or value.ndim != other.ndim:
            continue
        if value.ndim > 1 and value.shape != other.shape:
            raise LanguageModelError(
                f"the model in training does not start from {base.name!r}: its {name!r} has the shape"
                f" {list(value.shape)}, that of the base {list(other.shape)}"
            )
        if value.shape == other.shape and not (value.requires_grad and (tuned or resumed)):
            _check_equal(name, value, other, base)
            compared = True
    if not compared and len(whole) == len(mine) and not theirs.keys() & mine.keys():
        raise LanguageModelError(
            f"the model in training does not start from {base.name!r}: it has {next(iter(mine), 'nothing')!r}, and no"
            " parameter by a name of the base"
        )
    return compared


def _is_whole(name: str, value: Any) -> bool:
    """A plain parameter of numbers, neither quantized nor a piece of one that is spread over devices."""
    plain = type(value) in (Tensor, nn.Parameter) and value.is_floating_point() and not value.is_meta
    return plain and value.element_size() > 1 and value.numel() > 0 and "_flat_param" not in name


def _check_equal(name: str, value: Tensor, other: Tensor, base: LanguageModel) -> None:
    own = value.detach().to(other.device)
    if own.dtype == other.dtype and torch.equal(own, other):
        return
    own, other = own.float(), other.detach().float()
    far = ~torch.isclose(own, other, rtol=_RELATIVE, atol=_ABSOLUTE)
    if bool(far.any()):
        at = int(far.flatten().nonzero()[0])
        raise LanguageModelError(
            f"the model in training does not start from {base.name!r}: {int(far.sum()):,} of {far.numel():,} weights"
            f" of {name!r} differ, the first {own.flatten()[at]:.6g} in training and {other.flatten()[at]:.6g} in the"
            " base; give the callback the model that is fine-tuned, at its revision"
        )

"""Checkpoints that were trained elsewhere: found by pattern, in natural order, checked against the architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from discreet.auditing_spec.fitting import apart
from discreet.forward import Model, stack_of
from discreet.mlp import MLP

__all__ = ["find", "natural", "read_state"]

_INSIDE = ("state_dict", "model_state_dict", "model")
_NUMBERS = re.compile(r"(\d+)")


def natural(text: str) -> list[Any]:
    """Key of an order in which 2 comes before 10.

    Example:
        >>> sorted(["epoch10", "epoch2"], key=natural)
        ['epoch2', 'epoch10']
    """
    return [int(part) if part.isdigit() else part for part in _NUMBERS.split(text)]


def find(pattern: str, folder: Path) -> list[Path]:
    """Files of a pattern, relative to the spec's folder, in natural order.

    Raises:
        ValueError: There are none.
    """
    given = Path(pattern)
    base = Path(given.anchor) if given.is_absolute() else folder
    relative = str(given.relative_to(given.anchor)) if given.is_absolute() else pattern
    found = [path for path in base.glob(relative) if path.is_file()]
    if not found:
        raise ValueError(f"no file matches {pattern!r} in {base}")
    return sorted(found, key=lambda path: natural(path.relative_to(base).as_posix()))


def read_state(path: Path, model: Model) -> dict[str, Tensor]:
    """One checkpoint, a stack of one model.

    Args:
        path: Safetensors, or what ``torch.save`` made of a state dict; it is read without running any code in it.
        model: The architecture.

    Raises:
        ValueError: It cannot be read, diverged, or is of another architecture: what is missing, unexpected or
            misshapen.
    """
    state = _read(path)
    module = model.module() if isinstance(model, MLP) else model
    kept = module.state_dict()
    wanted = {name: value[0] for name, value in stack_of(module).items() if name in kept}
    state = _unwrapped(state, wanted)
    tied = {name for name in kept if name not in wanted}
    given = {name: value for name, value in state.items() if name not in tied}
    told = apart({name: v.shape for name, v in wanted.items()}, {name: v.shape for name, v in given.items()})
    if told:
        raise ValueError(f"{path}: a checkpoint of another architecture than the model's: {told}")
    bad = [name for name, value in given.items() if not bool(value.isfinite().all())]
    if bad:
        raise ValueError(
            f"{path}: a checkpoint with NaN or infinite values in {bad[0]!r}: its training diverged"
        )
    return {name: given[name].to(value.dtype)[None] for name, value in wanted.items()}


def _read(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        try:
            return load_file(path)
        except (SafetensorError, ValueError) as error:
            raise ValueError(f"{path}: no safetensors file: {error}") from error
    import torch

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # its errors share no class but this
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"{path}: cannot be read as a state dict without running code that is in it: {reason}; save"
            " model.state_dict(), not the model"
        ) from error
    for name in _INSIDE:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            found = found[name]
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        got = (
            f"a mapping with {', '.join(map(str, list(found)[:4]))}"
            if isinstance(found, Mapping)
            else type(found).__name__
        )
        raise ValueError(f"{path}: expected a state dict, names and tensors, got {got}")
    return dict(found)


def _unwrapped(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without the prefix that a wrapper gave to every name."""
    for prefix in ("module.", "model.", "_orig_mod."):
        cut = {name.removeprefix(prefix): value for name, value in state.items()}
        if all(name.startswith(prefix) for name in state) and set(cut) & set(wanted):
            return cut
    return dict(state)

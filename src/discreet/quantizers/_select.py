"""Which tensors of a model are quantized, and why the others are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from discreet import _find
from discreet.quantizers._fields import QuantizerError

__all__ = ["Choice", "Select", "Source", "as_select", "choose", "read"]

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# How PyTorch names the floating buffers of its normalisation layers: a bare state dict tells no more.
BUFFERS = ("running_mean", "running_var")


@dataclass(frozen=True)
class Select:
    """Name patterns, as shells write them (``*``, ``?``, ``[abc]``), case-sensitive.

    A tensor is quantized if the quantizer's scope covers it, a pattern of ``include`` matches its name and
    none of ``exclude`` does. A pattern that matches no name at all is an error.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Source:
    """Tensors by name, with what is known about the layers they come from.

    Attributes:
        tensors: All tensors, in the order of the state dict.
        parameters: Names that are parameters; None for a bare state dict.
        weights: Names that are weights of Linear, convolution or embedding layers; None likewise.
        linear: Names that are weights of Linear layers; None likewise.
        leading: Axes before the tensor's own (1 for a stack of models).
    """

    tensors: Mapping[str, Tensor]
    parameters: frozenset[str] | None = None
    weights: frozenset[str] | None = None
    linear: frozenset[str] | None = None
    leading: int = 0


@dataclass(frozen=True)
class Choice:
    """Names in alphabetical order that are quantized, reasons why others are kept, and tied names.

    Attributes:
        names: Tensors to quantize, one name for each.
        kept: Reason by name for every tensor that stays as it is.
        tied: Other names of a tensor, each with the name that stands for it.
    """

    names: tuple[str, ...]
    kept: Mapping[str, str]
    tied: Mapping[str, str]


def as_select(select: Select | str | Iterable[str]) -> Select:
    """Read ``"*.weight"`` or a list of such patterns as what to include."""
    if isinstance(select, Select):
        return select
    return Select((select,) if isinstance(select, str) else tuple(select))


def read(state: Mapping[str, Tensor] | nn.Module) -> Source:
    """Tensors of a module or of a state dict.

    Raises:
        QuantizerError: Nothing in it, or an entry that is no plain tensor.
    """
    if isinstance(state, nn.Module):
        weights = _weights_of(state, (nn.Linear, _ConvNd, nn.Embedding, nn.EmbeddingBag))
        parameters = frozenset(name for name, _ in state.named_parameters(remove_duplicate=False))
        source = Source(state.state_dict(), parameters, weights, _weights_of(state, (nn.Linear,)))
    else:
        source = Source(dict(state))
    if not source.tensors:
        raise QuantizerError("there is nothing to quantize: the state holds no tensors")
    for name, tensor in source.tensors.items():
        if not isinstance(tensor, Tensor):
            raise QuantizerError(f"state entry {name!r} must be a tensor, got {type(tensor).__name__}")
        if tensor.layout != torch.strided or tensor.is_meta:
            raise QuantizerError(
                f"tensor {name!r} must be dense and hold data, got {tensor.layout} on {tensor.device}"
            )
    return source


def choose(source: Source, scope: str, select: Select) -> Choice:
    """Decide for every tensor whether it is quantized.

    Names that are one view of one storage (tied weights) are one tensor: it is quantized once if any of
    its names is chosen, and kept if any of its names is excluded.

    Raises:
        QuantizerError: No tensor is left, or a pattern matches no name.
    """
    for pattern in (*select.include, *select.exclude):
        if not any(fnmatchcase(name, pattern) for name in source.tensors):
            close = _find.near(pattern.strip("*?"), source.tensors)
            raise QuantizerError(f"pattern {pattern!r} matches no tensor{close}")
    names: list[str] = []
    kept: dict[str, str] = {}
    tied: dict[str, str] = {}
    for same in _views(source.tensors):
        why = {name: _why_kept(name, source, scope, select) for name in same}
        excluded = [name for name in same if _matches(name, select.exclude)]
        if excluded:
            kept |= {name: why[name] or f"tied to {excluded[0]}, which is excluded" for name in same}
        elif any(reason is None for reason in why.values()):
            names.append(same[0])
        else:
            kept |= {name: str(reason) for name, reason in why.items()}
        tied |= dict.fromkeys(same[1:], same[0])
    if not names:
        reasons = ", ".join(sorted(set(kept.values())))
        raise QuantizerError(f"no tensor is left to quantize; all {len(kept)} are kept ({reasons})")
    return Choice(tuple(names), kept, tied)


def _why_kept(name: str, source: Source, scope: str, select: Select) -> str | None:
    tensor = source.tensors[name]
    if tensor.dtype not in DTYPES:
        return f"{str(tensor.dtype).removeprefix('torch.')} is not quantized"
    if tensor.numel() == 0:
        return "empty"
    is_buffer = (
        name.rpartition(".")[2] in BUFFERS if source.parameters is None else name not in source.parameters
    )
    if is_buffer:
        return "a buffer, not a parameter"
    axes = tensor.ndim - source.leading
    if scope == "weights" and not (axes >= 2 if source.weights is None else name in source.weights):
        return "outside scope 'weights'"
    if scope == "linear" and not (axes == 2 if source.linear is None else name in source.linear):
        return "outside scope 'linear'"
    if not _matches(name, select.include):
        return "not included"
    return "excluded" if _matches(name, select.exclude) else None


def _weights_of(module: nn.Module, kinds: tuple[type[nn.Module], ...]) -> frozenset[str]:
    layers = module.named_modules(remove_duplicate=False)
    return frozenset(f"{name}.weight".lstrip(".") for name, layer in layers if isinstance(layer, kinds))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _views(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    same: dict[object, list[str]] = {}
    for name in sorted(tensors):
        tensor = tensors[name]
        view = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
        same.setdefault(view if tensor.numel() else name, []).append(name)
    return list(same.values())
